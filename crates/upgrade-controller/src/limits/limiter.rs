//! A concurrency limit for observations of clusters, and for writes to the hub.
//!
//! An observation is a hundred small requests, each with a deadline. A thousand that begin at
//! once would only delay each other, until every answer came after its deadline and healthy
//! clusters looked unreachable. So a few run side by side, and the others queue.
//!
//! A cluster that hangs delays no other one: after a moment it no longer counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Short, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout_at};
use upgrade_engine::io::Io;

/// How many run side by side: enough to keep a few cores busy while most wait for a network.
const ABREAST: usize = 32;

/// How long a permit counts. A longer observation waits for an answer.
pub const COUNTS: Duration = Duration::from_secs(2);

/// A permit is granted after this long in any case (rule 11): a slow machine may need longer
/// for every observation.
const LONGEST: Duration = Duration::from_millis(250);

/// A concurrency limit.
#[derive(Debug, Default)]
pub struct Limiter {
    next: Mutex<()>,
    under_way: Short<UnderWay>,
    ended: Notify,
}

/// When each permit was granted.
#[derive(Debug, Default)]
struct UnderWay {
    began: BTreeMap<u64, Instant>,
    number: u64,
}

/// A permit, returned when it is dropped.
#[derive(Debug)]
pub struct Permit {
    limiter: Arc<Limiter>,
    number: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.under_way().began.remove(&self.number);
        self.limiter.ended.notify_one();
    }
}

impl Limiter {
    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit, first come, first served.
    pub async fn acquire(self: &Arc<Self>) -> Permit {
        let _next = self.next.lock().await;
        let longest = Instant::now() + LONGEST;
        loop {
            let now = Instant::now();
            let place = place(self.under_way().began.values().copied(), now);
            let Some(at) = place.filter(|_| now < longest) else { break };
            // An end that came before it is waited for is not missed.
            let _ = timeout_at(at.min(longest), self.ended.notified()).await;
        }
        let mut under_way = self.under_way();
        under_way.number += 1;
        let number = under_way.number;
        under_way.began.insert(number, Instant::now());
        drop(under_way);
        Permit { limiter: Arc::clone(self), number }
    }
}

/// When there is room for one more, if there is none now, and unless a permit returns earlier.
fn place(began: impl Iterator<Item = Instant>, now: Instant) -> Option<Instant> {
    let mut counted: Vec<Instant> = began.map(|at| at + COUNTS).filter(|end| *end > now).collect();
    counted.sort_unstable();
    let surplus = (counted.len() + 1).checked_sub(ABREAST).filter(|surplus| *surplus > 0)?;
    counted.get(surplus - 1).copied()
}

/// The live side of a cluster, under the limit of all.
pub struct Throttled<I> {
    live: I,
    limiter: Arc<Limiter>,
}

impl<I> Throttled<I> {
    /// Under this limit.
    pub const fn new(live: I, limiter: Arc<Limiter>) -> Self {
        Self { live, limiter }
    }

    /// Without the limit, for a caller that has a permit.
    pub const fn at_once(&self) -> &I {
        &self.live
    }
}

impl<I: Io> Io for Throttled<I> {
    type Machines = I::Machines;
    type Upgrader = I::Upgrader;
    type External = I::External;
    type Etcd = I::Etcd;
    type Snapshots = I::Snapshots;
    type Kubernetes = I::Kubernetes;
    type Clock = I::Clock;

    fn machines(&self) -> &I::Machines {
        self.live.machines()
    }

    fn upgrader(&self) -> &I::Upgrader {
        self.live.upgrader()
    }

    fn external(&self) -> Option<&I::External> {
        self.live.external()
    }

    fn etcd(&self) -> &I::Etcd {
        self.live.etcd()
    }

    fn snapshots(&self) -> &I::Snapshots {
        self.live.snapshots()
    }

    fn kubernetes(&self) -> &I::Kubernetes {
        self.live.kubernetes()
    }

    fn clock(&self) -> &I::Clock {
        self.live.clock()
    }

    fn observe_permit(&self) -> impl Future<Output: Send> + Send {
        self.limiter.acquire()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_side_by_side_and_one_that_hangs_does_not_count() {
        let now = Instant::now();
        let ago = |millis: u64| now.checked_sub(Duration::from_millis(millis)).unwrap();
        let observations = |count: usize, millis| std::iter::repeat_n(ago(millis), count);
        assert_eq!(place(observations(ABREAST - 1, 10), now), None);
        let end = ago(10) + COUNTS;
        assert_eq!(place(observations(ABREAST, 10), now), Some(end));
        assert_eq!(place(observations(1, 500).chain(observations(ABREAST, 10)), now), Some(end));
        assert_eq!(place(observations(1_000, 2_000), now), None, "all of them hang");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_comes_when_one_ends_or_after_a_while() {
        let limiter = Arc::new(Limiter::default());
        let mut turns = Vec::new();
        let began = Instant::now();
        for _ in 0..ABREAST {
            turns.push(limiter.acquire().await);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        // Rule 11: although nothing ends.
        turns.push(limiter.acquire().await);
        assert_eq!(began.elapsed(), LONGEST);
        // One that ends makes room at once, and only for one.
        turns.truncate(ABREAST - 1);
        turns.push(limiter.acquire().await);
        assert_eq!(began.elapsed(), LONGEST);
        assert_eq!(limiter.under_way().began.len(), ABREAST);
        turns.push(limiter.acquire().await);
        assert_eq!(began.elapsed(), LONGEST * 2);
    }
}
