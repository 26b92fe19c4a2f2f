//! All limits of a process in one place: how many clusters it observes, lists and writes at
//! once, and who starts first.
//!
//! None of them may delay a cluster for long because another one hangs (rule 11): a slot is
//! released after a moment, or the wait for it is bounded.

mod limiter;
mod start_gate;

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

pub use limiter::{COUNTS, Limiter, Permit, Throttled};
pub use start_gate::{StartGate, StartTicket};

/// How many idle clusters are probed at once: a probe opens connections to every node, and
/// is not urgent.
const PROBES: usize = 32;

/// How many clusters with a target are observed at once: a user waits, and most of the time
/// the clusters are waited for.
const OBSERVATIONS: usize = 256;

/// How many clusters list their runs at once. A busy hub may read all runs of a namespace
/// for a list of a few; that must not make it busier still.
const LISTS: usize = 8;

/// The limits of one process.
#[derive(Debug)]
pub struct Limits {
    /// Observations of clusters, which take turns.
    pub observations: Arc<Limiter>,
    /// Writes to the hub: a thousand that wake up at once would only wait for each other.
    pub writes: Arc<Limiter>,
    /// Runs that start.
    pub starts: Arc<StartGate>,
    probes: Semaphore,
    targets: Semaphore,
    lists: Semaphore,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            observations: Arc::default(),
            writes: Arc::default(),
            starts: Arc::default(),
            probes: Semaphore::new(PROBES),
            targets: Semaphore::new(OBSERVATIONS),
            lists: Semaphore::new(LISTS),
        }
    }
}

impl Limits {
    /// A slot to observe a cluster with a target, or to probe one without.
    pub async fn observe(&self, has_target: bool) -> SemaphorePermit<'_> {
        acquire(if has_target { &self.targets } else { &self.probes }).await
    }

    /// A slot to list runs.
    pub async fn list(&self) -> SemaphorePermit<'_> {
        acquire(&self.lists).await
    }
}

async fn acquire(semaphore: &Semaphore) -> SemaphorePermit<'_> {
    semaphore.acquire().await.expect("these semaphores are never closed")
}
