//! Rule 11: every wait has a deadline, and its reason is visible.
//!
//! Time counts while a process is awake: one that is suspended with its machine asks nothing and
//! cannot keep a deadline.

use std::collections::BTreeMap;

use upgrade_core::event::EventKind;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::Record;
use upgrade_core::policy::Policy;
use upgrade_core::step::{Action, StepId};

use super::{Rule, Scene};
use crate::trace::{ProcessId, TraceEvent, TraceKind};

/// A waiting process observes every few seconds; a longer gap between two signs of life counts as
/// this much.
const BREATH: SignedDuration = SignedDuration::from_secs(30);

/// The time for a step to report why it missed its deadline, and for the engine to process that.
const GRACE: SignedDuration = SignedDuration::from_mins(2);

/// The time between recording a wait and reporting it.
const TELLS: SignedDuration = SignedDuration::from_secs(5);

/// The visible signs of life of a process.
struct ProcessEnd {
    seen: Timestamp,
    /// The total time awake.
    awake: SignedDuration,
    /// The time awake when it last reported or recorded anything.
    said: SignedDuration,
    /// How long it may stay silent.
    patience: SignedDuration,
    /// Until when it has announced to wait.
    waits: Option<Timestamp>,
    /// Since when it waits without a reported reason.
    unreported: Option<Timestamp>,
    /// Steps in progress, with the time awake at their deadline.
    steps: BTreeMap<StepId, SignedDuration>,
    first: SignedDuration,
}

impl ProcessEnd {
    fn new(at: Timestamp, policy: &Policy) -> Self {
        let longest = Action::ALL.into_iter().map(|action| limit(action, policy)).max();
        let longest = longest.unwrap_or_default().max(policy.timeouts.gate);
        Self {
            seen: at,
            awake: SignedDuration::ZERO,
            said: SignedDuration::ZERO,
            patience: longest.saturating_add(GRACE),
            waits: None,
            unreported: None,
            steps: BTreeMap::new(),
            first: SignedDuration::MAX,
        }
    }

    fn lives(&mut self, at: Timestamp) {
        let gap = at.duration_since(self.seen).min(BREATH);
        self.awake = self.awake.saturating_add(gap);
        self.seen = at;
    }

    fn speaks(&mut self, waits: Option<Timestamp>) {
        self.said = self.awake;
        self.waits = waits;
        self.unreported = None;
    }

    fn note(&mut self, at: Timestamp, record: &Record, policy: &Policy) {
        match record {
            // The wait for a window is reported before it is recorded.
            Record::Waiting { key } if key != "window" => {
                self.unreported = Some(at);
                return;
            }
            Record::Started { step, .. } => {
                let deadline = limit(step.action, policy).saturating_add(GRACE);
                self.steps.insert(step.clone(), self.awake.saturating_add(deadline));
            }
            Record::Finished { step, .. } => {
                self.steps.remove(step);
            }
            _ => return,
        }
        self.first = self.steps.values().copied().min().unwrap_or(SignedDuration::MAX);
    }

    fn judge(&mut self, at: Timestamp, found: &mut Vec<String>) {
        if self.awake > self.first {
            let late = self.steps.iter().filter(|(_, deadline)| self.awake > **deadline);
            found.extend(late.map(|(step, _)| format!("{step} is far past its deadline")));
            self.first = SignedDuration::MAX;
        }
        if self.unreported.take_if(|since| at.duration_since(*since) > TELLS).is_some() {
            found.push("a wait is not reported".to_owned());
        }
        let waits = self
            .waits
            .is_some_and(|until| at <= until.saturating_add(GRACE).unwrap_or(Timestamp::MAX));
        if !waits && self.awake.saturating_sub(self.said) > self.patience {
            found.push("nothing was reported or recorded for longer than any deadline".to_owned());
            self.said = self.awake;
        }
    }
}

#[derive(Default)]
pub(super) struct Deadline {
    lives: BTreeMap<ProcessId, ProcessEnd>,
}

impl Rule for Deadline {
    fn number(&self) -> u8 {
        11
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        let runner = match &seen.what {
            TraceKind::Starts { runner, .. } => {
                self.lives.insert(*runner, ProcessEnd::new(seen.at, &scene.wanted.policy));
                return;
            }
            TraceKind::Dies { runner } | TraceKind::Ends { runner, .. } => {
                self.lives.remove(runner);
                return;
            }
            TraceKind::Wrote { runner, .. }
            | TraceKind::Reported { runner, .. }
            | TraceKind::Asked { runner, .. } => runner,
            // An act may arrive after its sender has died.
            _ => return,
        };
        let (Some(life), Some(driver)) =
            (self.lives.get_mut(runner), scene.notes.drivers.get(runner))
        else {
            return;
        };
        life.lives(seen.at);
        match &seen.what {
            TraceKind::Wrote { entry, .. } => {
                life.speaks(None);
                life.note(seen.at, &entry.record, &driver.wanted.policy);
            }
            TraceKind::Reported { event, .. } => life.speaks(match &event.kind {
                EventKind::Waiting { why, until } => {
                    if why.to_string().is_empty() {
                        found.push("a wait has no reason".to_owned());
                    }
                    Some(*until)
                }
                _ => None,
            }),
            _ => {}
        }
        life.judge(seen.at, found);
    }
}

/// The user's time limit for a step.
fn limit(action: Action, policy: &Policy) -> SignedDuration {
    let times = &policy.timeouts;
    match action {
        Action::Pull => times.pull,
        // It pulls the image again right before.
        Action::Install => times.pull.saturating_add(times.install),
        Action::SnapshotEtcd => times.snapshot,
        Action::DowngradeEtcd => times.gate,
        Action::Drain => policy.drain.timeout,
        Action::Reboot | Action::Rollback => times.reboot,
        Action::Upgrade | Action::ExternalUpgrade => times.install.saturating_add(times.reboot),
        Action::Verify => times.verify,
        Action::Soak => policy.soak.saturating_add(times.call),
        Action::SyncManifests => times.manifests,
        Action::SetKubeApiserver
        | Action::SetKubeControllerManager
        | Action::SetKubeScheduler
        | Action::SetKubelet => times.component,
        Action::CheckRemovals
        | Action::Forfeit
        | Action::Cordon
        | Action::Uncordon
        | Action::SetKubeProxy => times.call,
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::reason::WaitReason;

    use super::super::testing::Bench;
    use super::*;
    use crate::trace::Question;

    /// Observes every ten seconds, and reports nothing.
    fn silence(bench: &mut Bench, minutes: i64) {
        for _ in 0..minutes * 6 {
            bench.wait(10);
            bench.ask(1, Question::Nodes, true);
        }
    }

    #[test]
    fn a_step_ends_before_its_deadline() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.begins(1, "1/worker-1/verify");
        silence(&mut bench, 16);
        bench.assert_broken(&[]);
        silence(&mut bench, 2);
        bench.assert_broken(&[11]);
    }

    #[test]
    fn silence_has_a_deadline() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        let until = bench.at + SignedDuration::from_mins(60);
        let why = WaitReason::Window { why: "outside every window".to_owned() };
        bench.reported(1, EventKind::Waiting { why, until });
        silence(&mut bench, 60);
        bench.assert_broken(&[]);
        silence(&mut bench, 40);
        bench.assert_broken(&[11]);
    }

    #[test]
    fn a_wait_is_reported() {
        for tells in [true, false] {
            let mut bench = Bench::new(1, 1);
            bench.ready(1);
            bench.wrote(1, Record::Waiting { key: "no-room/*".to_owned() });
            if tells {
                let until = bench.at + SignedDuration::from_mins(15);
                let why = WaitReason::NodeUnknown { node: "cp-1".into(), why: "why".to_owned() };
                bench.reported(1, EventKind::Waiting { why, until });
            }
            silence(&mut bench, 1);
            bench.assert_broken(if tells { &[] } else { &[11] });
        }
    }

    #[test]
    fn a_suspended_process_is_excused() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.begins(1, "1/worker-1/verify");
        bench.wait(3600);
        bench.ask(1, Question::Nodes, true);
        bench.assert_broken(&[]);
    }
}
