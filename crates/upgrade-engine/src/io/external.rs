//! Upgrading a node by other means than the Talos API: by what owns its machine, such as OpenTofu.

use std::future::Future;

use upgrade_core::plan::TalosTarget;
use upgrade_core::version::Version;

use super::{IoError, Machine, ProgressSink};

/// Upgrades nodes, or replaces their machines. A replaced machine keeps its name and address.
pub trait ExternalUpgrader: Send + Sync {
    /// Requests that the node is brought to this version, with the content of the target; returns
    /// when the request was accepted. An error says whether it may have been (rule 8).
    fn upgrade(
        &self,
        node: &Machine,
        to: &Version,
        target: &TalosTarget,
        progress: &dyn ProgressSink,
    ) -> impl Future<Output = Result<(), IoError>> + Send;

    /// Whether an upgrade of this node that was requested, perhaps by an earlier process, is still
    /// in progress. Nothing is requested again meanwhile (rule 8).
    fn is_under_way(&self, node: &Machine) -> impl Future<Output = Result<bool, IoError>> + Send;
}

/// For front ends that upgrade nodes through the Talos API only.
#[derive(Clone, Copy, Debug)]
pub enum NoExternal {}

impl ExternalUpgrader for NoExternal {
    async fn upgrade(
        &self,
        _: &Machine,
        _: &Version,
        _: &TalosTarget,
        _: &dyn ProgressSink,
    ) -> Result<(), IoError> {
        match *self {}
    }

    async fn is_under_way(&self, _: &Machine) -> Result<bool, IoError> {
        match *self {}
    }
}
