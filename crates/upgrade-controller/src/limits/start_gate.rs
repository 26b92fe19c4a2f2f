//! Start gate: while many clusters get targets at once, runs that have not started take
//! priority over running ones.
//!
//! A thousand runs that start within seconds want the same hub and the same processor, and a
//! running one wants more of both than one that starts. So a run that was just created is
//! driven when no other one is starting, or after a while (rule 11). Resumed runs do not
//! wait: a node may be down.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long a run that was created waits for others that start.
const LONGEST: Duration = Duration::from_mins(2);

/// Counts the clusters that are starting.
#[derive(Debug)]
pub struct StartGate(watch::Sender<usize>);

impl Default for StartGate {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

/// A cluster that is starting, until this is dropped.
#[derive(Debug)]
pub struct StartTicket(Arc<StartGate>);

impl StartGate {
    /// One more is starting.
    pub fn enter(self: &Arc<Self>) -> StartTicket {
        self.change(|count| count + 1);
        StartTicket(Arc::clone(self))
    }

    /// Whether a cluster is starting.
    pub fn is_busy(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Until when a run that was created then waits for others, if it does.
    pub fn until(&self, made: Instant, now: Instant) -> Option<Instant> {
        let until = made + LONGEST;
        (self.is_busy() && now < until).then_some(until)
    }

    /// Waits until none is starting.
    pub async fn open(&self) {
        // The sender lives as long as this gate.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }

    fn change(&self, to: impl Fn(usize) -> usize) {
        self.0.send_if_modified(|count| {
            let before = std::mem::replace(count, to(*count));
            // A thousand may wait; they wake up only for what they wait for.
            (before == 0) != (*count == 0)
        });
    }
}

impl Drop for StartTicket {
    fn drop(&mut self) {
        self.0.change(|count| count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_over_when_the_last_has_begun() {
        let start_gate = Arc::new(StartGate::default());
        start_gate.open().await;
        let (one, two) = (start_gate.enter(), start_gate.enter());
        let mut over = waiting(&start_gate);
        assert!(start_gate.is_busy() && !over.is_finished());
        drop(one);
        tokio::task::yield_now().await;
        assert!(start_gate.is_busy() && !over.is_finished());
        drop(two);
        (&mut over).await.unwrap();
        assert!(!start_gate.is_busy());
    }

    #[test]
    fn a_run_waits_while_others_begin_and_not_for_ever() {
        let start_gate = Arc::new(StartGate::default());
        let made = Instant::now();
        assert_eq!(start_gate.until(made, made), None, "none is starting");
        let _other = start_gate.enter();
        assert_eq!(start_gate.until(made, made), Some(made + LONGEST));
        // Rule 11.
        assert_eq!(start_gate.until(made, made + LONGEST), None);
    }

    fn waiting(start_gate: &Arc<StartGate>) -> tokio::task::JoinHandle<()> {
        let start_gate = Arc::clone(start_gate);
        tokio::spawn(async move { start_gate.open().await })
    }
}
