//! Administering etcd; its state is read by
//! [`Machines::etcd`](super::machines::Machines::etcd).

use std::future::Future;

use tokio::io::AsyncWrite;
use upgrade_core::version::Minor;

use super::{IoError, Machine};

/// What etcd answers about a downgrade to a minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downgrade {
    /// It can be enabled.
    Possible,
    /// A downgrade is enabled already.
    UnderWay,
    /// It is not the minor below the cluster's: the cluster is there already, or more than one
    /// minor away.
    NotNext,
}

impl Downgrade {
    /// What the message of a refusal means; `None` if it is about something else. Talos passes the
    /// message of etcd on and drops its code.
    pub fn of_refusal(words: &str) -> Option<Self> {
        if words.contains("downgrade job in progress") {
            Some(Self::UnderWay)
        } else if words.contains("invalid downgrade target version") {
            Some(Self::NotNext)
        } else {
            None
        }
    }
}

/// Acts on etcd through the given control plane.
pub trait EtcdAdmin: Send + Sync {
    /// Transfers etcd leadership to another member.
    fn forfeit(&self, on: &Machine) -> impl Future<Output = Result<(), IoError>> + Send;

    /// Asks etcd whether it can be downgraded to this minor. Changes nothing.
    fn validate_downgrade(
        &self,
        on: &Machine,
        to: Minor,
    ) -> impl Future<Output = Result<Downgrade, IoError>> + Send;

    /// Enables the downgrade to this minor: the cluster version and the data of every member follow
    /// within seconds, if all members answer each other.
    fn enable_downgrade(
        &self,
        on: &Machine,
        to: Minor,
    ) -> impl Future<Output = Result<(), IoError>> + Send;

    /// Streams a snapshot of etcd from this control plane. If it returns an error, what was written
    /// is of no use (rule 3).
    fn snapshot(
        &self,
        from: &Machine,
        into: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> impl Future<Output = Result<(), IoError>> + Send;
}
