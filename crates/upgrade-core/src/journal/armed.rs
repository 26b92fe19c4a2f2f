//! Nodes that an installer ran on and that have not booted since. Their next boot
//! changes the version, and a second installer deletes the version that runs
//! (rule 5). Not every boot loader shows it, so the journal remembers it, across
//! runs too.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::image::ImageRef;
use crate::plan::{Plan, Target};
use crate::reason::FailureKind;
use crate::snapshot::NodeName;
use crate::step::{Action, StepId};

use super::{Outcome, Proof};

/// What is known of a node's next boot. A node of which nothing is remembered is
/// not armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arming {
    /// The next boot is into the new version.
    Armed,
    /// The installer's end was not heard: the next boot may be into it.
    Unheard,
    /// The installer failed, and may have changed the default before: the next
    /// boot may be into it.
    Failed,
    /// The installer failed after it had changed the default: the next boot is
    /// into what it wrote.
    FailedArmed,
}

impl Arming {
    /// Whether the next boot is known to be into the new version.
    pub const fn is_certain(self) -> bool {
        matches!(self, Self::Armed | Self::FailedArmed)
    }

    /// Whether the installer failed.
    pub const fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::FailedArmed)
    }
}

/// What an installer left on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Armed {
    /// The installer.
    pub image: ImageRef,
    /// The boot in which it ran. In any other the node has booted since, and
    /// nothing of this holds any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// What is known.
    pub state: Arming,
}

/// What a failed install left behind, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The attempt did nothing: all is as it was before.
    None,
    /// The boot loader was asked: the next boot is into what runs.
    NotArmed,
    /// The boot loader was asked: the next boot is into something else.
    Armed,
}

/// The armed nodes of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct ArmedNodes {
    /// The installer of each step that runs one.
    images: BTreeMap<(u32, NodeName), ImageRef>,
    nodes: BTreeMap<NodeName, Armed>,
    /// What was known before the attempt that is under way.
    before: BTreeMap<NodeName, Armed>,
    /// Nodes that were asked to install and to boot by one call.
    booting: BTreeSet<NodeName>,
}

impl ArmedNodes {
    pub(super) fn new(plan: &Plan) -> Self {
        let images = plan.lanes().filter_map(|(hop, lane)| match (&lane.target, &lane.node) {
            (Target::Talos(target), Some(node)) => {
                Some(((hop.number, node.clone()), target.installer.clone()))
            }
            _ => None,
        });
        Self { images: images.collect(), ..Self::default() }
    }

    /// Those of an earlier run; what is known here is newer.
    pub(super) fn inherit(&mut self, armed: &BTreeMap<NodeName, Armed>) {
        for (node, armed) in armed {
            self.nodes.entry(node.clone()).or_insert_with(|| armed.clone());
        }
    }

    pub(super) fn started(&mut self, step: &StepId, boot_id: Option<&str>) {
        let Some(node) = &step.node else { return };
        if matches!(step.action, Action::Upgrade | Action::ExternalUpgrade) {
            self.booting.insert(node.clone());
        }
        // A rollback changes the default as well, before it reboots.
        if !matches!(step.action, Action::Install | Action::Rollback) {
            return;
        }
        let Some(image) = self.images.get(&(step.hop, node.clone())) else { return };
        let armed = Armed {
            image: image.clone(),
            boot_id: boot_id.map(ToOwned::to_owned),
            state: Arming::Unheard,
        };
        match self.nodes.insert(node.clone(), armed) {
            Some(before) => self.before.insert(node.clone(), before),
            None => self.before.remove(node),
        };
    }

    pub(super) fn finished(&mut self, step: &StepId, outcome: &Outcome) {
        let Some(node) = &step.node else { return };
        match step.action {
            Action::Install => self.installed(node, outcome),
            Action::Rollback if matches!(outcome, Outcome::Failed { .. }) => {
                self.installed(node, outcome);
            }
            Action::Reboot
            | Action::Upgrade
            | Action::Rollback
            | Action::ExternalUpgrade
            | Action::Verify
                if !matches!(outcome, Outcome::Failed { .. }) =>
            {
                self.booted(node);
            }
            _ => {}
        }
    }

    /// The node has booted, whatever it runs now.
    pub(super) fn booted(&mut self, node: &NodeName) {
        self.nodes.remove(node);
        self.before.remove(node);
        self.booting.remove(node);
    }

    fn installed(&mut self, node: &NodeName, outcome: &Outcome) {
        let before = self.before.remove(node);
        let state = match outcome {
            Outcome::Done { proof: Some(Proof::Unheard) } => Arming::Unheard,
            Outcome::Done { .. } => Arming::Armed,
            Outcome::Skipped { .. } => return self.restore(node, before),
            Outcome::Failed { failure } => match failure.effect() {
                Some(Effect::None) => return self.restore(node, before),
                Some(Effect::NotArmed) => return self.restore(node, None),
                Some(Effect::Armed) => Arming::FailedArmed,
                None if failure.kind == FailureKind::Installer => Arming::Failed,
                None => Arming::Unheard,
            },
        };
        if let Some(armed) = self.nodes.get_mut(node) {
            armed.state = state;
        }
    }

    fn restore(&mut self, node: &NodeName, before: Option<Armed>) {
        match before {
            Some(before) => self.nodes.insert(node.clone(), before),
            None => self.nodes.remove(node),
        };
    }

    pub(super) fn nodes(&self) -> &BTreeMap<NodeName, Armed> {
        &self.nodes
    }

    pub(super) fn next_boots(&self) -> Vec<(NodeName, Arming)> {
        let armed = self.nodes.iter().map(|(node, armed)| (node.clone(), armed.state));
        let booting = self.booting.iter().filter(|node| !self.nodes.contains_key(*node));
        armed.chain(booting.map(|node| (node.clone(), Arming::Unheard))).collect()
    }
}
