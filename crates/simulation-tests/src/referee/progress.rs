//! Rule 0, progress: when faults are over, a run reaches its target, or a halt with something a
//! person can do. It never hangs.

use std::collections::BTreeSet;

use upgrade_core::snapshot::NodeName;
use upgrade_engine::drive::End;

use super::driver::Driver;
use super::facts;
use super::{Rule, Scene};
use crate::trace::{TraceEvent, TraceKind, UserCommand};

#[derive(Default)]
pub(super) struct Progress {
    /// The machines that existed when the last plan was made.
    planned: BTreeSet<NodeName>,
    /// The user's last command.
    command: Option<UserCommand>,
    /// Whether the user wants a pause. It survives the stop of a process and the start of another
    /// one.
    paused: bool,
    /// Whether the user wants another target that has no plan yet.
    retargets: bool,
    /// Whether the last process that ended was stopped; false if no plan could be made.
    stopped: bool,
}

impl Rule for Progress {
    fn number(&self) -> u8 {
        0
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        if let TraceKind::Ends { end, .. } = &seen.what {
            self.stopped = *end == Ok(End::Stopped);
        }
        match &seen.what {
            TraceKind::Starts { fresh: true, .. } => {
                self.planned = scene.notes.facts.nodes().map(|node| node.name.clone()).collect();
                (self.command, self.retargets) = (None, false);
            }
            TraceKind::User { command } => {
                self.command = Some(*command);
                match command {
                    UserCommand::Pause => self.paused = true,
                    UserCommand::Resume => self.paused = false,
                    UserCommand::Retarget => self.retargets = true,
                    UserCommand::Stop => {}
                }
            }
            TraceKind::Ends { end: Ok(End::Halted { reason, .. }), .. }
                if reason.to_string().trim().is_empty() || reason.advice().is_empty() =>
            {
                found.push("a halt has no reason or no advice".to_owned());
            }
            TraceKind::Ends { runner, end: Ok(End::Done) } => {
                let driver = scene.notes.drivers.get(runner);
                if let Some(driver) = driver.filter(|it| !it.plan.rollback) {
                    self.reached(&driver.wanted, scene, found);
                    controls(driver, scene, found);
                    static_pods(driver, scene, found);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &Scene<'_>, last: Option<&End>, found: &mut Vec<String>) {
        match last {
            None => found.push("the run hangs: it has not ended".to_owned()),
            Some(End::Paused { .. }) => {
                if !(self.paused || self.retargets) {
                    found.push("the run ended paused, but the user wants no pause".to_owned());
                }
            }
            Some(End::Stopped) => {
                if self.stopped && self.command != Some(UserCommand::Stop) {
                    found.push("the run ended stopped, but the user did not stop it".to_owned());
                }
            }
            Some(End::Done | End::Halted { .. }) => {}
        }
    }
}

impl Progress {
    /// `Done` requires that every machine of the plan runs what the user wants, or something newer.
    /// Held machines do not count.
    fn reached(&self, wanted: &super::Wanted, scene: &Scene<'_>, found: &mut Vec<String>) {
        let intent = &wanted.intent;
        for node in scene.notes.facts.nodes().filter(|node| self.planned.contains(&node.name)) {
            let name = &node.name;
            let own = intent.nodes.get(name);
            if own.is_some_and(|own| own.hold) {
                continue;
            }
            let wanted = own.and_then(|own| own.talos.as_ref()).or(intent.talos.as_ref());
            let talos = facts::installed(scene.view, node).map(|(version, _)| version);
            if let (Some(wanted), Some(talos)) = (wanted, talos)
                && talos < *wanted
            {
                found.push(format!("done, but {name} runs Talos {talos}, not {wanted}"));
            }
            let Some(wanted) = &intent.kubernetes else { continue };
            for (component, version) in facts::components(scene.view, node) {
                if version < *wanted {
                    found.push(format!("done, but {component} of {name} is {version}"));
                }
            }
        }
    }
}

/// `Done` requires that every control plane we disrupted works. What broke it meanwhile, or after
/// the last observation of it, is not the run's fault.
fn controls(driver: &Driver, scene: &Scene<'_>, found: &mut Vec<String>) {
    let notes = scene.notes;
    for node in notes.facts.control_planes().filter(|node| notes.is_disturbed(&node.name)) {
        let excused = notes.is_broken(&node.name) || notes.is_theirs(&node.name);
        let seen = driver.facts(&node.name).any;
        if !excused && node.controls.was(&false, seen) {
            found.push(format!("done, but the API server of {} does not answer", node.name));
        }
    }
}

/// `Done` requires that every control plane shows its static pods as ready: a kubelet that has just
/// restarted shows none.
fn static_pods(driver: &Driver, scene: &Scene<'_>, found: &mut Vec<String>) {
    let notes = scene.notes;
    for node in notes.facts.control_planes() {
        let excused = notes.is_broken(&node.name) || notes.is_theirs(&node.name);
        if !excused && node.pods.was(&false, driver.facts(&node.name).any) {
            found.push(format!("done, but static pods of {} are not ready", node.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::intent::Intent;
    use upgrade_core::reason::HaltReason;

    use super::super::testing::{Bench, wanted};
    use super::*;

    #[test]
    fn a_run_ends() {
        let paused = End::Paused { by: "user".to_owned() };
        let reason = HaltReason::NoSnapshot { hop: 1 };
        let halted = End::Halted { reason, armed: vec![], cordoned: vec![] };
        for (last, rules) in
            [(None, vec![0]), (Some(paused.clone()), vec![0]), (Some(halted), vec![])]
        {
            let mut bench = Bench::new(1, 1);
            bench.ready(1);
            bench.finish(last.as_ref());
            bench.assert_broken(&rules);
        }
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.see(TraceKind::User { command: UserCommand::Pause });
        bench.see(TraceKind::User { command: UserCommand::Stop });
        bench.finish(Some(&paused));
        bench.assert_broken(&[]);
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.see(TraceKind::User { command: UserCommand::Pause });
        bench.see(TraceKind::User { command: UserCommand::Resume });
        bench.finish(Some(&paused));
        bench.assert_broken(&[0]);
    }

    #[test]
    fn done_requires_that_every_api_server_answers() {
        for waits in [false, true] {
            let mut bench = Bench::new(3, 0);
            bench.ready(1);
            let names = bench.control_planes();
            for name in &names {
                bench.take(1, name);
                bench.drain(1, name);
                if waits || Some(name) != names.last() {
                    bench.boot(1, name);
                } else {
                    bench.boot_until_ready(1, name);
                }
                bench.verify_and_uncordon(1, name);
            }
            bench.observe(1);
            bench.ended(1, End::Done);
            let broken = bench.broken();
            assert_eq!(broken.contains(&0), !waits, "{broken:?}");
        }
    }

    #[test]
    fn done_requires_that_kubelets_show_their_static_pods() {
        for waits in [false, true] {
            let mut wanted = wanted();
            wanted.intent = Intent::default();
            let mut bench = Bench::with(3, 0, wanted);
            bench.ready(1);
            bench.move_kubernetes("cp-1", "v1.34.2", "v1.35.1");
            // The driver could see it more than once.
            for _ in 0..if waits { 60 } else { 3 } {
                bench.wait(2);
                bench.observe(1);
            }
            bench.ended(1, End::Done);
            let broken = bench.broken();
            assert_eq!(broken.contains(&0), !waits, "{broken:?}");
        }
    }

    #[test]
    fn done_requires_that_every_component_runs_its_target() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.ended(1, End::Done);
        bench.assert_broken(&[0]);
    }
}
