//! Upgrading a node from outside: by what owns its machine, such as OpenTofu.

use std::future::Future;

use upgrade_core::plan::TalosTarget;
use upgrade_core::version::Version;

use super::{Machine, ProgressSink, Trouble};

/// Upgrades nodes, or replaces their machines. A replaced machine keeps its name and address.
pub trait ExternalUpgrader: Send + Sync {
    /// Asks for the node to be brought to this version, with the content of the target; comes
    /// back when that was accepted. An error says whether it may have been (rule 8).
    fn upgrade(
        &self,
        node: &Machine,
        to: &Version,
        target: &TalosTarget,
        progress: &dyn ProgressSink,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Whether what was asked for this node, perhaps by an earlier process, is still being
    /// carried out. Nothing is asked for again meanwhile (rule 8).
    fn is_under_way(&self, node: &Machine) -> impl Future<Output = Result<bool, Trouble>> + Send;
}

/// For front ends whose nodes are upgraded by the Talos API alone.
#[derive(Clone, Copy, Debug)]
pub enum NoExternal {}

impl ExternalUpgrader for NoExternal {
    async fn upgrade(
        &self,
        _: &Machine,
        _: &Version,
        _: &TalosTarget,
        _: &dyn ProgressSink,
    ) -> Result<(), Trouble> {
        match *self {}
    }

    async fn is_under_way(&self, _: &Machine) -> Result<bool, Trouble> {
        match *self {}
    }
}
