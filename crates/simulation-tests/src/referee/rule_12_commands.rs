//! Rule 12, the user's commands: after a pause, a new target or a stop, and outside the windows,
//! nothing new begins; nodes in flight reach a safe state.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Outcome, Record};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};
use upgrade_engine::drive::End;

use super::driver::disrupts;
use super::rule_12_window::was_open;
use super::{Rule, Scene};
use crate::trace::{Act, ProcessId, TraceEvent, TraceKind, UserCommand};

/// How long after a command a step may still begin: it was decided before, and its process may be
/// suspended in between for as long as it keeps the run.
const HEARD: SignedDuration = SignedDuration::from_secs(30);

#[derive(Default)]
pub(super) struct Commands {
    /// Since when nothing new may begin.
    quiet: Option<Timestamp>,
    /// Whether that is recorded.
    written: bool,
    /// Nodes in flight, by plan and hop, and since when. A node that is back but not verified may
    /// continue later.
    flights: BTreeMap<(PlanHash, u32, NodeName), Timestamp>,
    verified: BTreeSet<(PlanHash, u32, NodeName)>,
    /// Whether the last process ended by itself: the person who starts the next one wants it to
    /// continue.
    ended: bool,
}

impl Commands {
    fn wrote(&mut self, at: Timestamp, entry: &Entry, plan: &Plan) {
        match &entry.record {
            Record::Paused { .. } => self.written = true,
            Record::Started { step: StepId { hop, node: Some(node), action, .. }, .. }
                if disrupts(*action) || *action == Action::Forfeit =>
            {
                let key = (entry.plan.clone(), *hop, node.clone());
                self.flights.entry(key).or_insert(at);
            }
            Record::Finished {
                step,
                outcome: Outcome::Done { .. } | Outcome::Skipped { .. },
                ..
            } => {
                let Some(node) = &step.node else { return };
                let key = (entry.plan.clone(), step.hop, node.clone());
                if step.action == Action::Verify {
                    self.verified.insert(key.clone());
                }
                let not_verified = step.action == Action::Uncordon && !self.verified.contains(&key);
                if is_last(step, plan) && !not_verified {
                    self.flights.remove(&key);
                }
            }
            _ => {}
        }
    }

    fn judge(&self, runner: ProcessId, act: &Act, scene: &Scene<'_>) -> Option<String> {
        let begins = act.boots()
            || matches!(
                act,
                Act::Install { .. } | Act::Configure { .. } | Act::Cordon { on: true, .. }
            );
        let driver = scene.notes.drivers.get(&runner).filter(|_| begins)?;
        let (hash, basis) = (driver.hash.clone()?, driver.basis(act)?);
        let flight = self.flights.get(&(hash, basis.hop, act.node()?.clone()));
        let since = flight.map_or(basis.at, |since| *since);
        if !was_open(&driver.wanted.policy, since, HEARD) {
            return Some(format!("{act:?} begins outside the windows, at {since}"));
        }
        let heard = self.quiet?.saturating_add(HEARD).ok()?;
        (since > heard).then(|| format!("{act:?} begins after the user's command"))
    }
}

/// Whether a step is the last one of its lane.
fn is_last(step: &StepId, plan: &Plan) -> bool {
    let hops = plan.hops.iter().filter(|hop| hop.number == step.hop);
    let lanes = hops.flat_map(|hop| &hop.waves).flat_map(|wave| &wave.lanes);
    let mut lanes = lanes.filter(|lane| lane.node == step.node);
    lanes.any(|lane| lane.steps.last().is_some_and(|last| step.is(last)))
}

impl Rule for Commands {
    fn number(&self) -> u8 {
        12
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::User { command: UserCommand::Resume } => {
                (self.quiet, self.written) = (None, false);
            }
            // A stop of a dead process has nothing to wait for.
            TraceKind::User { command: UserCommand::Stop }
                if !scene.notes.drivers.values().any(|it| it.lives) => {}
            TraceKind::User {
                command: UserCommand::Pause | UserCommand::Retarget | UserCommand::Stop,
            } => {
                self.quiet.get_or_insert(seen.at);
            }
            TraceKind::Starts { fresh, .. } if *fresh || std::mem::take(&mut self.ended) => {
                (self.quiet, self.written) = (None, false);
            }
            TraceKind::Dies { .. } => {
                // A command that the process has not received yet is lost with it.
                let young = |since: Timestamp| seen.at.duration_since(since) <= HEARD;
                if !self.written && self.quiet.is_some_and(young) {
                    self.quiet = None;
                }
                self.ended = false;
            }
            TraceKind::Wrote { runner, entry } => {
                if let Some(driver) = scene.notes.drivers.get(runner) {
                    self.wrote(seen.at, entry, &driver.plan);
                }
            }
            TraceKind::Act { runner, act, .. } => found.extend(self.judge(*runner, act, scene)),
            TraceKind::Ends { end, .. } => {
                self.ended = true;
                if let Ok(End::Paused { .. }) = end {
                    let notes = scene.notes;
                    let ours = |it: &&NodeName| !notes.is_broken(it) && !notes.is_theirs(it);
                    let left = notes.disturbed().filter(ours);
                    found.extend(left.map(|node| format!("paused, but {node} is still disrupted")));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_engine::drive::End;

    use super::super::testing::{Bench, wanted};
    use crate::trace::{ExternalAction, TraceKind, UserCommand};

    #[test]
    fn nothing_new_begins_after_a_pause() {
        for command in [UserCommand::Pause, UserCommand::Retarget, UserCommand::Stop] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.see(TraceKind::User { command });
            bench.wait(60);
            // Nodes in flight continue.
            bench.drain(1, "worker-1");
            bench.boot(1, "worker-1");
            bench.verify_and_uncordon(1, "worker-1");
            bench.assert_broken(&[]);
            bench.take(1, "worker-2");
            bench.assert_broken(&[12]);
        }
    }

    #[test]
    fn a_resumed_run_may_begin_steps() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.see(TraceKind::User { command: UserCommand::Pause });
        bench.wait(60);
        bench.see(TraceKind::User { command: UserCommand::Resume });
        bench.take(1, "worker-2");
        bench.assert_broken(&[]);
    }

    #[test]
    fn a_pause_leaves_nothing_in_flight() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.see(TraceKind::User { command: UserCommand::Pause });
        bench.ended(1, End::Paused { by: "user".to_owned() });
        assert!(bench.broken().contains(&12));
    }

    #[test]
    fn a_node_broken_by_others_may_stay_disrupted() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.inject("worker-1", &talos_sim::model::Fault::NotReady);
        bench.see(TraceKind::User { command: UserCommand::Pause });
        bench.ended(1, End::Paused { by: "user".to_owned() });
        assert!(!bench.broken().contains(&12), "{:?}", bench.referee.breaches());
    }

    #[test]
    fn a_node_rebooted_by_others_may_stay_disrupted() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.take(1, "worker-1");
        let node = "worker-1".into();
        bench.see(TraceKind::External { action: ExternalAction::Reboot { node } });
        bench.see(TraceKind::User { command: UserCommand::Pause });
        bench.ended(1, End::Paused { by: "user".to_owned() });
        assert!(!bench.broken().contains(&12), "{:?}", bench.referee.breaches());
    }

    #[test]
    fn a_stop_without_a_process_is_over() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.see(TraceKind::Dies { runner: 1 });
        bench.wait(60);
        bench.see(TraceKind::User { command: UserCommand::Stop });
        bench.wait(60);
        bench.starts(2);
        bench.wait(1);
        bench.observe(2);
        bench.take(2, "worker-2");
        assert!(!bench.broken().contains(&12), "{:?}", bench.referee.breaches());
    }

    #[test]
    fn no_node_starts_outside_the_windows() {
        // It is 20:00.
        for (window, rules) in [("19:00", &[] as &[u8]), ("21:00", &[12])] {
            let mut wanted = wanted();
            let json = format!(r#"[{{"start": "{window}", "duration": "2h"}}]"#);
            wanted.policy.windows = serde_json::from_str(&json).unwrap();
            let mut bench = Bench::with(1, 2, wanted);
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.assert_broken(rules);
        }
    }
}
