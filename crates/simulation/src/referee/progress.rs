//! Rule 0, progress: when faults are over, a run reaches its target, or a halt
//! that a person can act on. It never hangs.

use std::collections::BTreeSet;

use upgrade_core::snapshot::NodeName;
use upgrade_engine::drive::End;

use super::facts;
use super::{Rule, Scene};
use crate::seen::{Seen, What, Wish};

#[derive(Default)]
pub(super) struct Progress {
    /// The machines that there were when the last plan was made.
    planned: BTreeSet<NodeName>,
    /// The user's last word.
    word: Option<Wish>,
}

impl Rule for Progress {
    fn number(&self) -> u8 {
        0
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            What::Starts { fresh: true, .. } => {
                self.planned = scene.notes.facts.nodes().map(|node| node.name.clone()).collect();
                self.word = None;
            }
            What::Says { word } => self.word = Some(*word),
            What::Ends { end: Ok(End::Halted { reason, .. }), .. } => {
                if reason.to_string().trim().is_empty() || reason.advice().trim().is_empty() {
                    found.push("a halt does not say why, or what to do".to_owned());
                }
            }
            What::Ends { runner, end: Ok(End::Done) } => {
                let driver = scene.notes.drivers.get(runner);
                if let Some(driver) = driver.filter(|it| !it.plan.rollback) {
                    self.reached(&driver.wanted, scene, found);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &Scene<'_>, last: Option<&End>, found: &mut Vec<String>) {
        match last {
            None => found.push("the run hangs: it came to no end".to_owned()),
            Some(End::Paused { .. }) => {
                if !matches!(self.word, Some(Wish::Pause | Wish::Retarget)) {
                    found.push("the run ended paused, and nobody wants that".to_owned());
                }
            }
            Some(End::Stopped) => {
                if self.word != Some(Wish::Stop) {
                    found.push("the run ended stopped, and nobody wants that".to_owned());
                }
            }
            Some(End::Done | End::Halted { .. }) => {}
        }
    }
}

impl Progress {
    /// Done is done: every machine that was there runs what the user wants, or
    /// was ahead of it.
    fn reached(&self, wanted: &super::Wanted, scene: &Scene<'_>, found: &mut Vec<String>) {
        let intent = &wanted.intent;
        for node in scene.notes.facts.nodes().filter(|node| self.planned.contains(&node.name)) {
            let name = &node.name;
            let talos = facts::installed(scene.view, node).map(|(version, _)| version);
            if let (Some(wanted), Some(talos)) = (&intent.talos, talos)
                && talos < *wanted
            {
                found.push(format!("done, and {name} runs Talos {talos}, not {wanted}"));
            }
            let Some(wanted) = &intent.kubernetes else { continue };
            for (component, version) in facts::components(scene.view, node) {
                if version < *wanted {
                    found.push(format!("done, and {component} of {name} is {version}"));
                }
            }
        }
    }
}
