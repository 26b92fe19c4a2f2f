//! The run as plain lines, for pipes, files and logs of other programs.

use std::collections::HashMap;

use upgrade_core::event::{Event, EventKind, StepProgress};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::Outcome;
use upgrade_core::plan::Versions;
use upgrade_core::reason::WaitReason;
use upgrade_core::step::{Action, StepId};

use super::board::Board;
use crate::render::time;

/// A step that talks on gets a line this often.
const QUIET: SignedDuration = SignedDuration::from_secs(30);

/// Makes lines of events. It remembers what it said, so as not to say it again.
#[derive(Debug, Default)]
pub struct Lines {
    since: HashMap<StepId, Timestamp>,
    spoke: HashMap<StepId, Timestamp>,
    waited: Option<String>,
}

impl Lines {
    /// The line for an event, if it is worth one. The board has taken the event
    /// in already.
    pub fn line(&mut self, event: &Event, board: &Board) -> Option<String> {
        let text = self.text(event, board)?;
        Some(format!("{}  {text}\n", time::of_day(event.at)))
    }

    fn text(&mut self, event: &Event, board: &Board) -> Option<String> {
        let (done, total) = board.progress();
        let width = total.to_string().len();
        let count = format!("[{done:width$}/{total}]");
        if !matches!(event.kind, EventKind::Waiting { .. }) {
            self.waited = None;
        }
        match &event.kind {
            EventKind::RunBegan { from, to, steps } => {
                Some(format!("{count} begins: {}, {steps} steps in all", moves(from, to)))
            }
            EventKind::StepStarted { step, attempt } => {
                self.since.insert(step.clone(), event.at);
                self.spoke.insert(step.clone(), event.at);
                let again =
                    if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                // What ends at once is worth one line, at its end.
                let long = takes_long(step.action) || *attempt > 1;
                long.then(|| format!("{count} {}: {} begins{again}", node(step), step.action))
            }
            EventKind::StepProgress { step, progress: StepProgress { message, .. } } => {
                let spoke = self.spoke.get(step).copied();
                if spoke.is_some_and(|spoke| event.at.duration_since(spoke) < QUIET) {
                    return None;
                }
                self.spoke.insert(step.clone(), event.at);
                Some(format!("{count} {}: {}: {message}", node(step), step.action))
            }
            EventKind::StepFinished { step, attempt: _, outcome } => {
                self.spoke.remove(step);
                let since = self.since.remove(step);
                let took = since.map(|since| time::took(event.at.duration_since(since)));
                let took = took.unwrap_or_else(|| "no time".to_owned());
                let what = match outcome {
                    Outcome::Done { .. } => format!("done in {took}"),
                    Outcome::Skipped { why } => format!("nothing to do: {why}"),
                    Outcome::Failed { failure } => format!("failed after {took}: {failure}"),
                };
                Some(format!("{count} {}: {} {what}", node(step), step.action))
            }
            EventKind::Waiting { why: WaitReason::Running { .. }, .. } => None,
            EventKind::Waiting { why, until } => {
                let key = why.key();
                if self.waited.as_ref() == Some(&key) {
                    return None;
                }
                self.waited = Some(key);
                Some(format!("{count} waits until {} at the latest: {why}", time::of_day(*until)))
            }
            EventKind::Halted { why } => Some(format!("{count} halted: {why}")),
            EventKind::Paused { by } => Some(format!("{count} paused by {by}")),
            EventKind::Resumed { by } => Some(format!("{count} resumed by {by}")),
            EventKind::Completed => Some(format!("{count} everything is done")),
            _ => None,
        }
    }
}

fn node(step: &StepId) -> String {
    step.node.as_ref().map_or_else(|| "cluster".to_owned(), ToString::to_string)
}

const fn takes_long(action: Action) -> bool {
    matches!(
        action,
        Action::Drain
            | Action::Install
            | Action::Reboot
            | Action::Upgrade
            | Action::Rollback
            | Action::SyncManifests
    )
}

/// What moves, in words.
pub(crate) fn moves(from: &Versions, to: &Versions) -> String {
    let pairs =
        [("Talos", &from.talos, &to.talos), ("Kubernetes", &from.kubernetes, &to.kubernetes)];
    let words: Vec<String> = pairs
        .into_iter()
        .filter_map(|(product, from, to)| match (from, to) {
            (Some(from), Some(to)) if from != to => Some(format!("{product} {from} → {to}")),
            _ => None,
        })
        .collect();
    if words.is_empty() { "nothing moves".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use upgrade_core::journal::State;
    use upgrade_core::reason::{Failure, FailureKind, HaltReason};

    use super::*;
    use crate::sample;

    #[test]
    fn a_run_in_lines() {
        let plan = sample::plan();
        let mut board = Board::new(&plan, &State::new(&plan));
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
        let until = sample::time(900);
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
                at: sample::time(seconds),
                cluster: "prod".to_owned(),
                plan: plan.hash(),
                kind,
            };
            board.apply(&event);
            text += &lines.line(&event, &board).unwrap_or_default();
        }
        insta::assert_snapshot!(text);
    }
}
