//! A run as plain lines, for pipes, files and logs of other programs.

use std::collections::HashMap;

use upgrade_core::event::{Event, EventKind, StepProgress};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::reason::WaitReason;
use upgrade_core::step::{Action, StepId, StepKind};
use upgrade_view::LiveRun;

use crate::render::{time, words};

/// A step that reports progress all the time gets one line in this time.
const QUIET: SignedDuration = SignedDuration::from_secs(30);

/// Makes lines of events. It remembers what it printed, to repeat nothing.
#[derive(Debug, Default)]
pub struct Lines {
    started: HashMap<StepId, Timestamp>,
    reported: HashMap<StepId, Timestamp>,
    /// The key of the wait that was printed last.
    waiting: Option<String>,
}

impl Lines {
    /// The line for an event, if it is worth one. `run` includes the event already.
    pub fn line(&mut self, event: &Event, run: &LiveRun) -> Option<String> {
        let text = self.text(event, run)?;
        Some(format!("{}  {text}\n", time::of_day(event.at)))
    }

    fn text(&mut self, event: &Event, run: &LiveRun) -> Option<String> {
        let (done, total) = run.view().progress();
        let width = total.to_string().len();
        let count = format!("[{done:width$}/{total}]");
        if !matches!(event.kind, EventKind::Waiting { .. }) {
            self.waiting = None;
        }
        match &event.kind {
            EventKind::RunBegan { from, to, steps } => {
                Some(format!("{count} starting: {}, {steps} steps", words::changes(from, to)))
            }
            EventKind::StepStarted { step, attempt } => {
                self.started.insert(step.clone(), event.at);
                self.reported.insert(step.clone(), event.at);
                // A short step gets one line, at its end.
                let long = takes_long(step.action) || *attempt > 1;
                let attempt = words::attempt(*attempt);
                long.then(|| format!("{count} {}: {} started{attempt}", node(step), step.action))
            }
            EventKind::StepProgress { step, progress: StepProgress { message, .. } } => {
                let before = self.reported.get(step).copied();
                if before.is_some_and(|before| event.at.duration_since(before) < QUIET) {
                    return None;
                }
                self.reported.insert(step.clone(), event.at);
                Some(format!("{count} {}: {}: {message}", node(step), step.action))
            }
            EventKind::StepFinished { step, attempt: _, outcome } => {
                self.reported.remove(step);
                let started = self.started.remove(step);
                let took = started.map(|started| time::took(event.at.duration_since(started)));
                let outcome = words::outcome(outcome, took.as_deref());
                Some(format!("{count} {}: {} {outcome}", node(step), step.action))
            }
            EventKind::Waiting { why: WaitReason::Running { .. }, .. } => None,
            EventKind::Waiting { why, until } => {
                let key = why.key();
                if self.waiting.as_ref() == Some(&key) {
                    return None;
                }
                self.waiting = Some(key);
                Some(format!("{count} waiting until {} at the latest: {why}", time::of_day(*until)))
            }
            EventKind::Halted { why } => Some(format!("{count} halted: {why}")),
            EventKind::Paused { by } => Some(format!("{count} paused by {by}")),
            EventKind::Resumed { by } => Some(format!("{count} resumed by {by}")),
            EventKind::Completed => Some(format!("{count} all steps are done")),
            _ => None,
        }
    }
}

fn node(step: &StepId) -> String {
    words::node(step.node.as_ref())
}

fn takes_long(action: Action) -> bool {
    action.kind() == StepKind::Reboot || matches!(action, Action::Drain | Action::SyncManifests)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use upgrade_core::journal::{Outcome, State};
    use upgrade_core::reason::{Failure, FailureKind, HaltReason};

    use super::*;
    use crate::test_fixtures as fixtures;

    #[test]
    fn a_run_in_lines() {
        let plan = fixtures::plan();
        let mut run = LiveRun::new(Arc::new(plan.clone()), State::new(&plan));
        let mut lines = Lines::default();
        let step = |text: &str| text.parse::<StepId>().unwrap();
        let progress = |text: &str| EventKind::StepProgress {
            step: step("1/cp-2/drain"),
            progress: StepProgress::text(text),
        };
        let finished =
            |name: &str, outcome| EventKind::StepFinished { step: step(name), attempt: 1, outcome };
        let started = |name: &str| EventKind::StepStarted { step: step(name), attempt: 1 };
        let failure = Failure::new(FailureKind::BootBack, "it came back on 1.12.11");
        let why = WaitReason::EtcdUnsafe { node: "cp-3".into(), why: "a learner".to_owned() };
        let until = fixtures::time(900);
        let events = [
            (0, EventKind::RunBegan { from: plan.from.clone(), to: plan.to.clone(), steps: 9 }),
            (1, started("1/cp-2/pull")),
            (31, finished("1/cp-2/pull", Outcome::Done { proof: None })),
            (32, started("1/cp-2/drain")),
            (33, progress("3 pods left")),
            (70, progress("web-1 waits for budget shop/web")),
            (80, progress("web-1 waits for budget shop/web")),
            (95, finished("1/cp-2/drain", Outcome::Skipped { why: "no pods".to_owned() })),
            (96, EventKind::Waiting { why: why.clone(), until }),
            (97, EventKind::Waiting { why, until }),
            (99, started("1/cp-2/upgrade")),
            (160, finished("1/cp-2/upgrade", Outcome::Failed { failure: failure.clone() })),
            (
                160,
                EventKind::Halted {
                    why: HaltReason::StepFailed {
                        step: step("1/cp-2/upgrade"),
                        attempt: 1,
                        failure,
                    },
                },
            ),
        ];
        let mut text = String::new();
        for (seconds, kind) in events {
            let event = Event {
                at: fixtures::time(seconds),
                cluster: "prod".to_owned(),
                plan: plan.hash(),
                kind,
            };
            run.apply(&event);
            text += &lines.line(&event, &run).unwrap_or_default();
        }
        insta::assert_snapshot!(text);
    }
}
