//! Rule 5: a boot fallback stops the run. The node's good slot is not written again, and no other
//! node follows. No installer runs on an armed node, regardless of who armed it, and none runs
//! twice.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::plan::PlanHash;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;
use upgrade_engine::drive::End;

use super::driver::action_of;
use super::facts::{self, Installed, schematic_in};
use super::{Rule, Scene};
use crate::trace::{Act, ExternalAction, Fate, ProcessId, TraceEvent, TraceKind, UserCommand};

/// How long after a node serves on its old version a process may take to notice it.
const TAKES_IN: SignedDuration = SignedDuration::from_secs(60);

/// A boot that we requested.
struct Asked {
    plan: PlanHash,
    boot_id: String,
    from: Installed,
    to: Installed,
}

/// A boot fallback.
struct Back {
    plan: PlanHash,
    /// Since when a process can know it: the node serves and was observed.
    known: Option<Timestamp>,
}

#[derive(Default)]
pub(super) struct BootBack {
    asked: BTreeMap<NodeName, Asked>,
    back: BTreeMap<NodeName, Back>,
    /// When the current process started, or the user chose to continue anyway.
    restarted: Option<Timestamp>,
    /// Nodes that the plan disrupted before.
    before: BTreeSet<NodeName>,
    /// Failed steps that touch a slot: only a person may retry them.
    failed: BTreeSet<(NodeName, Action)>,
    /// Nodes that someone else armed, and when.
    theirs: BTreeMap<NodeName, Timestamp>,
    /// Nodes whose installer was called in the current attempt.
    called: BTreeSet<NodeName>,
    /// Nodes on which an installer has started since that attempt began.
    ran: BTreeSet<NodeName>,
    /// Whether the last process ended by itself: then a person starts the next one.
    ended: bool,
}

impl BootBack {
    fn asks(&mut self, runner: ProcessId, act: &Act, scene: &Scene<'_>) {
        let Some(node) = act.node().and_then(|name| scene.notes.facts.node(name)) else { return };
        let driver = scene.notes.drivers.get(&runner);
        let Some(plan) = driver.and_then(|driver| driver.hash.clone()) else { return };
        let Some(from) = facts::installed(scene.view, node) else { return };
        let to = match act {
            Act::Reboot { .. } => facts::armed(scene.view, node),
            Act::Upgrade { image, .. } => {
                let schematic = schematic_in(image).map(str::to_owned);
                image.version().map(|version| (version, schematic))
            }
            _ => None,
        };
        if let Some(to) = to.filter(|to| *to != from) {
            let boot_id = node.boot_id.value.clone();
            self.asked.insert(node.name.clone(), Asked { plan, boot_id, from, to });
        }
    }

    /// The result of a boot that we requested, once the node runs again.
    fn booted(&mut self, name: &NodeName, scene: &Scene<'_>) {
        let (Some(asked), Some(node)) = (self.asked.get(name), scene.notes.facts.node(name)) else {
            return;
        };
        let on = scene.view.world.truth(node.index).is_some_and(|truth| truth.is_on());
        if !on || node.boot_id.value == asked.boot_id {
            return;
        }
        let runs = facts::installed(scene.view, node);
        if runs.as_ref() == Some(&asked.from) && runs.as_ref() != Some(&asked.to) {
            let plan = asked.plan.clone();
            self.back.insert(name.clone(), Back { plan, known: None });
        }
        self.asked.remove(name);
    }

    /// An installer on an armed node deletes the running system. Facts that cannot be seen do not
    /// count.
    fn deletes_what_runs(&self, runner: ProcessId, act: &Act, scene: &Scene<'_>) -> Option<String> {
        if !matches!(act, Act::Install { .. } | Act::Upgrade { .. }) {
            return None;
        }
        let node = scene.notes.facts.node(act.node()?)?;
        let (version, _) = facts::armed(scene.view, node)?;
        let driver = scene.notes.drivers.get(&runner)?;
        let tells = scene.view.world.truth(node.index)?.boot_entries().is_some();
        let unseen = self.theirs.get(&node.name).is_some_and(|since| {
            !tells || driver.slots(&node.name).is_none_or(|answered| answered <= *since)
        });
        (!unseen).then(|| format!("{act:?}, but it is already armed with {version}"))
    }

    fn judge(&self, runner: ProcessId, act: &Act, scene: &Scene<'_>) -> Option<String> {
        if let Some(deletes) = self.deletes_what_runs(runner, act, scene) {
            return Some(deletes);
        }
        let hash = scene.notes.drivers.get(&runner)?.hash.as_ref()?;
        let name = act.node()?;
        if matches!(act, Act::Install { .. }) && self.called.contains(name) {
            return Some(format!("{act:?} twice in one attempt"));
        }
        let writes = matches!(act, Act::Install { .. }) || act.boots();
        if writes && self.back.get(name).is_some_and(|back| back.plan == *hash) {
            return Some(format!("{act:?} after its boot fallback"));
        }
        let again = |action: Action| self.failed.contains(&(name.clone(), action));
        if action_of(act).is_some_and(again) {
            return Some(format!("{act:?} again after it failed, without a decision of the user"));
        }
        let takes_away = act.boots() || matches!(act, Act::Cordon { on: true, .. });
        if !takes_away || self.before.contains(name) {
            return None;
        }
        let late = |since: Timestamp| scene.at.duration_since(since) > TAKES_IN;
        let known = |back: &Back| {
            back.plan == *hash && back.known.is_some_and(late) && self.restarted.is_none_or(late)
        };
        let (back, _) = self.back.iter().find(|(_, back)| known(back))?;
        Some(format!("{act:?} after the boot fallback of {back}"))
    }
}

impl Rule for BootBack {
    fn number(&self) -> u8 {
        5
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::Starts { fresh, .. } => {
                self.restarted = Some(seen.at);
                if std::mem::take(&mut self.ended) || *fresh {
                    self.failed.clear();
                }
                if *fresh {
                    self.before.clear();
                    self.back.clear();
                    self.asked.clear();
                }
            }
            TraceKind::User { command: UserCommand::Resume } => {
                self.restarted = Some(seen.at);
                self.failed.clear();
            }
            TraceKind::Wrote { entry, .. } => match &entry.record {
                Record::Finished { step, outcome: Outcome::Failed { .. }, .. } => {
                    let Some(node) = &step.node else { return };
                    // An attempt wrote nothing if no installer started: none was called, the call
                    // did not reach the machine, or the image had been garbage collected.
                    let wrote = match step.action {
                        Action::Install => self.ran.contains(node),
                        action => action.boots(),
                    };
                    if wrote {
                        self.failed.insert((node.clone(), step.action));
                    }
                }
                Record::Started { step, .. } if step.action == Action::Install => {
                    if let Some(node) = &step.node {
                        self.called.remove(node);
                        self.ran.remove(node);
                    }
                }
                _ => {}
            },
            TraceKind::Installs { node } => {
                self.ran.insert(node.clone());
            }
            TraceKind::External { action: ExternalAction::Arms { node } } => {
                self.theirs.insert(node.clone(), seen.at);
            }
            TraceKind::Ends {
                end: Ok(End::Halted { .. } | End::Paused { .. } | End::Stopped),
                ..
            } => {
                self.ended = true;
            }
            TraceKind::Boots { node } => {
                self.theirs.remove(node);
                self.booted(node, scene);
            }
            TraceKind::Asked {
                question: crate::trace::Question::Facts(node), known: true, ..
            } => {
                if self.asked.contains_key(node) {
                    self.booted(node, scene);
                }
                let serves = scene.notes.facts.node(node).is_some_and(|it| it.serves.value);
                if let Some(back) = self.back.get_mut(node).filter(|_| serves) {
                    back.known.get_or_insert(seen.at);
                }
            }
            TraceKind::Act { runner, act, fate: Fate::Arrives } => {
                found.extend(self.judge(*runner, act, scene));
                if act.boots() {
                    self.asks(*runner, act, scene);
                }
                if let Act::Install { node, .. } = act {
                    self.called.insert(node.clone());
                }
                if act.boots() || matches!(act, Act::Cordon { on: true, .. }) {
                    self.before.extend(act.node().cloned());
                }
            }
            TraceKind::Ends { runner, end: Ok(End::Done) } => {
                let hash = scene.notes.drivers.get(runner).and_then(|it| it.hash.as_ref());
                let back = self.back.iter().filter(|(_, back)| Some(&back.plan) == hash);
                found.extend(
                    back.map(|(node, _)| {
                        format!("the run is done, but {node} had a boot fallback")
                    }),
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use talos_sim::model::Fault;
    use upgrade_core::reason::{Failure, FailureKind};

    use super::super::testing::{Bench, installer};
    use super::*;

    fn back() -> Bench {
        let mut bench = Bench::new(1, 3);
        bench.ready(1);
        bench.inject("worker-1", &Fault::BootBack);
        bench.take(1, "worker-1");
        bench.drain(1, "worker-1");
        bench.boot(1, "worker-1");
        bench.verify_and_uncordon(1, "worker-1");
        bench.assert_broken(&[]);
        bench
    }

    #[test]
    fn the_good_slot_is_not_written_again() {
        let mut bench = back();
        let act = Act::Install { node: "worker-1".into(), image: installer() };
        bench.step(1, "1/worker-1/install", Some(act));
        bench.assert_broken(&[5]);
    }

    #[test]
    fn no_other_node_follows_a_boot_fallback() {
        let mut bench = back();
        bench.wait(120);
        bench.take(1, "worker-2");
        bench.assert_broken(&[5]);
    }

    #[test]
    fn a_failed_installer_is_not_retried_without_the_user() {
        for resumed in [false, true] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            let act = || Some(Act::Install { node: "worker-1".into(), image: installer() });
            bench.step(1, "1/worker-1/install", act());
            let failure = Failure::new(FailureKind::Installer, "exit code 2");
            let step = "1/worker-1/install".parse().unwrap();
            let outcome = Outcome::Failed { failure };
            bench.wrote(1, Record::Finished { step, attempt: 1, outcome });
            if resumed {
                bench.see(TraceKind::User { command: UserCommand::Resume });
            }
            bench.step(1, "1/worker-1/install", act());
            bench.assert_broken(if resumed { &[] } else { &[5] });
        }
    }

    #[test]
    fn an_installer_that_never_started_may_be_retried() {
        // The call arrived, but its image had been garbage collected: nothing was written.
        for started in [false, true] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            bench.begins(1, "1/worker-1/install");
            let act = Act::Install { node: "worker-1".into(), image: installer() };
            bench.see(TraceKind::Act { runner: 1, act, fate: Fate::Arrives });
            if started {
                bench.see(TraceKind::Installs { node: "worker-1".into() });
            }
            let failure = Failure::new(FailureKind::Pull, "no such image");
            let step = "1/worker-1/install".parse().unwrap();
            let outcome = Outcome::Failed { failure };
            bench.wrote(1, Record::Finished { step, attempt: 1, outcome });
            install(&mut bench, 1);
            bench.assert_broken(if started { &[5] } else { &[] });
        }
    }

    fn install(bench: &mut Bench, runner: ProcessId) {
        let act = Act::Install { node: "worker-1".into(), image: installer() };
        bench.step(runner, "1/worker-1/install", Some(act));
    }

    fn arm(bench: &mut Bench) {
        let (now, node) = (bench.world.now(), bench.index("worker-1"));
        assert!(bench.world.arm(now, node, &installer().to_string()));
    }

    #[test]
    fn no_installer_runs_on_an_armed_node() {
        // We armed it ourselves, as the journal shows.
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        install(&mut bench, 1);
        bench.assert_broken(&[]);
        arm(&mut bench);
        install(&mut bench, 1);
        bench.assert_broken(&[5]);
    }

    #[test]
    fn a_node_armed_by_someone_else_can_be_seen() {
        for asked in [false, true] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            let action = ExternalAction::Arms { node: "worker-1".into() };
            bench.see(TraceKind::External { action });
            arm(&mut bench);
            bench.wait(1);
            if asked {
                bench.ask(1, crate::trace::Question::Slots("worker-1".into()), true);
            }
            install(&mut bench, 1);
            bench.assert_broken(if asked { &[5] } else { &[] });
        }
    }

    #[test]
    fn an_installer_is_called_once_per_attempt() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.begins(1, "1/worker-1/install");
        let act = || Act::Install { node: "worker-1".into(), image: installer() };
        bench.act(1, act());
        bench.assert_broken(&[]);
        bench.act(1, act());
        bench.assert_broken(&[5, 8]);
    }

    #[test]
    fn a_run_with_a_boot_fallback_is_not_done() {
        let mut bench = back();
        bench.ended(1, End::Done);
        assert!(bench.broken().contains(&5));
    }
}
