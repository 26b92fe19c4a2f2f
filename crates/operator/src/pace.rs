//! Clusters take turns at being looked at.
//!
//! A look at a cluster is a hundred small questions, each with a deadline. A
//! thousand looks that begin at once would only make each other late, until
//! every answer came after its deadline and healthy clusters counted as away.
//! So looks begin one after the other, and while this process is late itself,
//! none does: those that are under way get done first.
//!
//! Nobody holds a turn, so a cluster that hangs keeps nobody from theirs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use upgrade_cluster::Live;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::Io;

/// The shortest time between two looks that begin: a thousand within five
/// seconds, if the machine can do it.
const APART: Duration = Duration::from_millis(5);

/// Whoever wakes up this much later than it wanted has too much to do.
const LATE: Duration = Duration::from_millis(40);

/// A turn comes after this long even then (rule 11): it may be the machine's
/// usual state.
const LONGEST: Duration = Duration::from_millis(500);

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Pace(Mutex<()>);

impl Pace {
    /// Comes back when the next look may begin. Those who asked first come first.
    pub async fn turn(&self) {
        let _next = self.0.lock().await;
        let began = Instant::now();
        loop {
            let before = Instant::now();
            sleep(APART).await;
            if may_begin(before.elapsed(), began.elapsed()) {
                return;
            }
        }
    }
}

/// Whether a look may begin: after one pause that took this long, and all of
/// them together.
fn may_begin(pause: Duration, all: Duration) -> bool {
    pause < APART + LATE || all >= LONGEST
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
    type Talos = <Live<SystemClock> as Io>::Talos;
    type Kubernetes = <Live<SystemClock> as Io>::Kubernetes;
    type Clock = SystemClock;

    fn talos(&self) -> &Self::Talos {
        self.live.talos()
    }

    fn kubernetes(&self) -> &Self::Kubernetes {
        self.live.kubernetes()
    }

    fn clock(&self) -> &SystemClock {
        self.live.clock()
    }

    async fn turn(&self) {
        self.pace.turn().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_late_waits_but_not_for_ever() {
        assert!(may_begin(APART, APART));
        assert!(may_begin(APART + LATE / 2, LATE), "a little late is usual");
        assert!(!may_begin(APART + LATE, LATE * 2));
        assert!(!may_begin(LONGEST / 2, LONGEST / 2));
        // Rule 11.
        assert!(may_begin(LONGEST, LONGEST));
    }
}
