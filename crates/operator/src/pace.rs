//! Clusters take turns at being looked at.
//!
//! A look at a cluster is a hundred small questions, each with a deadline. A
//! thousand looks that begin at once would only make each other late, until
//! every answer came after its deadline and healthy clusters counted as away.
//! So a few are looked at side by side, and the others wait their turn.
//!
//! A cluster that hangs keeps nobody from theirs: after a moment it does not
//! count any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Short, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout_at};
use upgrade_cluster::Live;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::Io;

/// How many are looked at side by side: enough to keep a few cores busy while
/// most wait for a network.
const ABREAST: usize = 32;

/// How long a look counts. One that takes longer waits for an answer.
pub const COUNTS: Duration = Duration::from_secs(2);

/// A turn comes after this long in any case (rule 11): a slow machine may need
/// longer for every look.
const LONGEST: Duration = Duration::from_millis(250);

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Pace {
    next: Mutex<()>,
    under_way: Short<UnderWay>,
    ended: Notify,
}

/// When each look under way began.
#[derive(Debug, Default)]
struct UnderWay {
    began: BTreeMap<u64, Instant>,
    number: u64,
}

/// A look under way; it is over when this is dropped.
#[derive(Debug)]
pub struct Turn {
    pace: Arc<Pace>,
    number: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.pace.under_way().began.remove(&self.number);
        self.pace.ended.notify_one();
    }
}

impl Pace {
    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes back when the next look may begin. Those who asked first come first.
    pub async fn turn(self: &Arc<Self>) -> Turn {
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
        Turn { pace: Arc::clone(self), number }
    }
}

/// When there is a place for one more, if not now, and unless one ends before.
fn place(began: impl Iterator<Item = Instant>, now: Instant) -> Option<Instant> {
    let mut counted: Vec<Instant> = began.map(|at| at + COUNTS).filter(|end| *end > now).collect();
    counted.sort_unstable();
    let surplus = (counted.len() + 1).checked_sub(ABREAST).filter(|surplus| *surplus > 0)?;
    counted.get(surplus - 1).copied()
}

/// A cluster's live side, which takes turns with all others.
pub struct Paced {
    live: Live<SystemClock>,
    pace: Arc<Pace>,
}

impl Paced {
    /// With the pace of all.
    pub const fn new(live: Live<SystemClock>, pace: Arc<Pace>) -> Self {
        Self { live, pace }
    }

    /// Without it, for whoever has waited for a turn.
    pub const fn at_once(&self) -> &Live<SystemClock> {
        &self.live
    }
}

impl Io for Paced {
    type Machines = <Live<SystemClock> as Io>::Machines;
    type Upgrader = <Live<SystemClock> as Io>::Upgrader;
    type Etcd = <Live<SystemClock> as Io>::Etcd;
    type Snapshots = <Live<SystemClock> as Io>::Snapshots;
    type Kubernetes = <Live<SystemClock> as Io>::Kubernetes;
    type Clock = SystemClock;

    fn machines(&self) -> &Self::Machines {
        self.live.machines()
    }

    fn upgrader(&self) -> &Self::Upgrader {
        self.live.upgrader()
    }

    fn etcd(&self) -> &Self::Etcd {
        self.live.etcd()
    }

    fn snapshots(&self) -> &Self::Snapshots {
        self.live.snapshots()
    }

    fn kubernetes(&self) -> &Self::Kubernetes {
        self.live.kubernetes()
    }

    fn clock(&self) -> &SystemClock {
        self.live.clock()
    }

    fn turn(&self) -> impl Future<Output: Send> + Send {
        self.pace.turn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_side_by_side_and_one_that_hangs_does_not_count() {
        let now = Instant::now();
        let ago = |millis: u64| now.checked_sub(Duration::from_millis(millis)).unwrap();
        let looks = |count: usize, millis| std::iter::repeat_n(ago(millis), count);
        assert_eq!(place(looks(ABREAST - 1, 10), now), None);
        let end = ago(10) + COUNTS;
        assert_eq!(place(looks(ABREAST, 10), now), Some(end));
        assert_eq!(place(looks(1, 500).chain(looks(ABREAST, 10)), now), Some(end));
        assert_eq!(place(looks(1_000, 2_000), now), None, "all of them hang");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_comes_when_one_ends_or_after_a_while() {
        let pace = Arc::new(Pace::default());
        let mut turns = Vec::new();
        let began = Instant::now();
        for _ in 0..ABREAST {
            turns.push(pace.turn().await);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        // Rule 11: although nothing ends.
        turns.push(pace.turn().await);
        assert_eq!(began.elapsed(), LONGEST);
        // One that ends makes room at once, and only for one.
        turns.truncate(ABREAST - 1);
        turns.push(pace.turn().await);
        assert_eq!(began.elapsed(), LONGEST);
        assert_eq!(pace.under_way().began.len(), ABREAST);
        turns.push(pace.turn().await);
        assert_eq!(began.elapsed(), LONGEST * 2);
    }
}
