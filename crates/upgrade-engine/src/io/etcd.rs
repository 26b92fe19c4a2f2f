//! Administering etcd; its state is read by
//! [`Machines::etcd`](super::machines::Machines::etcd).

use std::future::Future;

use tokio::io::AsyncWrite;
use upgrade_core::version::Minor;

use super::{Machine, Trouble};

/// What etcd says of a downgrade to the minor that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downgrade {
    /// It can be enabled.
    Possible,
    /// One is enabled already.
    UnderWay,
    /// It is not the minor before the cluster's: the cluster is there already, or
    /// more than one minor away.
    NotNext,
}

impl Downgrade {
    /// What the words of a refusal mean; `None` if they are about something else.
    /// Talos passes etcd's words on and drops the code that came with them.
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

/// Acts on etcd through the control plane that is named.
pub trait EtcdAdmin: Send + Sync {
    /// Gives etcd leadership away.
    fn forfeit(&self, on: &Machine) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Asks etcd whether it can be downgraded to this minor. Changes nothing.
    fn validate_downgrade(
        &self,
        on: &Machine,
        to: Minor,
    ) -> impl Future<Output = Result<Downgrade, Trouble>> + Send;

    /// Enables etcd's downgrade to this minor: the cluster version and the data of
    /// every member follow within seconds, if all members answer each other.
    fn enable_downgrade(
        &self,
        on: &Machine,
        to: Minor,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Streams a snapshot of etcd, from this control plane. What was written is of no use if it
    /// ends with an error (rule 3).
    fn snapshot(
        &self,
        from: &Machine,
        into: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
}
