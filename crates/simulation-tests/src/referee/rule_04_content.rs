//! Rule 4: an installer keeps the node's platform, schematic and extensions unless the user wants
//! otherwise; the node has them when the run is done.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::image::ImageRef;
use upgrade_core::intent::Installer;
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::plan::Change;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};
use upgrade_engine::drive::End;

use super::driver::Driver;
use super::facts::{self, Facts, Node, schematic_in};
use super::{Rule, Scene, Wanted};
use crate::trace::{Act, Fate, TraceEvent, TraceKind, View};

type Schematic = Option<String>;

/// The extension of these worlds that has another name in newer releases.
const RENAMED: (&str, &str) = ("siderolabs/i915-ucode", "siderolabs/i915");

/// Whether an extension is among these, under either name.
fn has(all: &[String], name: &str) -> bool {
    let renamed = |it: &str| (name, it) == RENAMED || (it, name) == RENAMED;
    all.iter().any(|it| it == name || renamed(it))
}

pub(super) struct Content {
    /// The schematic of each node when the current plan began.
    before: BTreeMap<NodeName, Schematic>,
    /// All schematics that each node ever had: possible targets of a rollback.
    ever: BTreeMap<NodeName, BTreeSet<Schematic>>,
    /// Nodes that got an installer since the plan began.
    written: BTreeSet<NodeName>,
    /// The extensions of each node at that time.
    extensions: BTreeMap<NodeName, Vec<String>>,
    /// Nodes that booted our installer without some of these extensions.
    lacking: BTreeSet<NodeName>,
}

impl Content {
    pub(super) fn new(view: &View<'_>) -> Self {
        let mut new = Self {
            before: BTreeMap::new(),
            ever: BTreeMap::new(),
            written: BTreeSet::new(),
            extensions: BTreeMap::new(),
            lacking: BTreeSet::new(),
        };
        new.begin(&Facts::new(view.world.now().to_jiff(), view), view);
        new
    }

    fn begin(&mut self, facts: &Facts, view: &View<'_>) {
        // An installer of an earlier plan that has not booted yet will still boot.
        let is_armed = |name: &NodeName| {
            facts.node(name).is_some_and(|node| facts::armed(view, node).is_some())
        };
        self.written.retain(is_armed);
        self.lacking.clear();
        for node in facts.nodes() {
            let schematic = schematic(view, node);
            self.ever.entry(node.name.clone()).or_default().insert(schematic.clone());
            self.before.insert(node.name.clone(), schematic);
            self.extensions.insert(node.name.clone(), extensions(view, node));
        }
    }

    /// A booted node must have its earlier extensions, unless the user wants others.
    fn boots(&mut self, node: &Node, wanted: &Wanted, view: &View<'_>) {
        let keeps = keeps(wanted, &node.name);
        if keeps && self.written.contains(&node.name) && !self.has_all(node, view) {
            self.lacking.insert(node.name.clone());
        }
    }

    /// Whether a node has its earlier extensions.
    fn has_all(&self, node: &Node, view: &View<'_>) -> bool {
        let now = extensions(view, node);
        let before = self.extensions.get(&node.name);
        before.is_some_and(|before| before.iter().all(|name| has(&now, name)))
    }

    /// A node with the right content must not be reported as mismatched.
    fn mistaken(&self, hop: u32, node: &Node, driver: &Driver, view: &View<'_>) -> bool {
        let hops = driver.plan.hops.iter();
        let to = hops.filter(|it| it.number == hop).find_map(|hop| match &hop.change {
            Change::Talos { to, .. } => Some(to),
            Change::Kubernetes { .. } => None,
        });
        let truth = view.world.truth(node.index);
        keeps(&driver.wanted, &node.name)
            && !driver.plan.rollback
            && facts::installed(view, node).map(|(version, _)| version).as_ref() == to
            && self.before.get(&node.name) == Some(&schematic(view, node))
            && truth.is_some_and(|truth| truth.runs_as() == truth.flavour().0)
            && self.has_all(node, view)
    }

    fn installs(
        &mut self,
        image: &ImageRef,
        node: &Node,
        rollback: bool,
        wanted: &Wanted,
        view: &View<'_>,
    ) -> Option<String> {
        self.written.insert(node.name.clone());
        let named = schematic_in(image).map(str::to_owned);
        let name = &node.name;
        if let Some(other) = other_flavour(view, node, image) {
            return Some(format!("{name} is {other}, but gets {image}"));
        }
        if rollback {
            let known = self.ever.get(name).is_some_and(|ever| ever.contains(&named));
            return (!known).then(|| format!("{name} never had the schematic of {image}"));
        }
        match wanted.intent.installer_of(name) {
            Installer::Keep => {
                let has = schematic(view, node);
                (named != has).then(|| {
                    let has = has.as_deref().unwrap_or("no schematic");
                    format!("{name} has {has}, but gets {image}")
                })
            }
            Installer::Schematic(wanted) => (named.as_ref() != Some(wanted))
                .then(|| format!("{name} should get {wanted}, but gets {image}")),
            Installer::Image(wanted) => {
                let same =
                    wanted.registry == image.registry && wanted.repository == image.repository;
                (!same).then(|| format!("{name} should get {wanted}, but gets {image}"))
            }
        }
    }

    fn done(&self, scene: &Scene<'_>, wanted: &Wanted, found: &mut Vec<String>) {
        for node in scene.notes.facts.nodes() {
            let Some(before) = self.before.get(&node.name) else { continue };
            let expected = match wanted.intent.installer_of(&node.name) {
                Installer::Schematic(wanted) if self.written.contains(&node.name) => {
                    Some(wanted.clone())
                }
                Installer::Image(image) if self.written.contains(&node.name) => {
                    schematic_in(image).map(str::to_owned)
                }
                _ => before.clone(),
            };
            if self.lacking.contains(&node.name) {
                found.push(format!("done, but {} booted without its extensions", node.name));
            }
            let truth = scene.view.world.truth(node.index);
            if truth.is_some_and(|truth| truth.runs_as() != truth.flavour().0) {
                found.push(format!("done, but {} has the content of another machine", node.name));
            }
            let has = schematic(scene.view, node);
            if has != expected {
                let name = &node.name;
                found.push(format!("done, but {name} has {has:?} instead of {expected:?}"));
            }
        }
    }
}

/// Whether a node has to keep its schematic.
fn keeps(wanted: &Wanted, node: &NodeName) -> bool {
    *wanted.intent.installer_of(node) == Installer::Keep || wanted.intent.keep_extensions
}

/// The platform and Secure Boot of a node, if the installer is for others.
fn other_flavour(view: &View<'_>, node: &Node, image: &ImageRef) -> Option<String> {
    let (platform, secure_boot) = view.world.truth(node.index)?.flavour();
    let given = view.world.flavour_of(image)?;
    let secure = if secure_boot { "with" } else { "without" };
    (given != (platform, secure_boot)).then(|| format!("{platform} {secure} Secure Boot"))
}

fn extensions(view: &View<'_>, node: &Node) -> Vec<String> {
    let truth = view.world.truth(node.index);
    truth.map(|truth| truth.extensions()).unwrap_or_default()
}

impl Rule for Content {
    fn number(&self) -> u8 {
        4
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::Starts { fresh: true, .. } => self.begin(&scene.notes.facts, scene.view),
            TraceKind::Boots { node } => {
                if let Some(node) = scene.notes.facts.node(node) {
                    self.boots(node, scene.wanted, scene.view);
                }
            }
            TraceKind::Act {
                runner,
                act: Act::Install { node, image } | Act::Upgrade { node, image, .. },
                fate: Fate::Arrives,
            } => {
                let notes = scene.notes;
                let (Some(driver), Some(node)) =
                    (notes.drivers.get(runner), notes.facts.node(node))
                else {
                    return;
                };
                let rollback = driver.plan.rollback;
                found.extend(self.installs(image, node, rollback, &driver.wanted, scene.view));
            }
            TraceKind::Wrote { runner, entry } => {
                if let Record::Finished {
                    step: StepId { hop, node: Some(name), action: Action::Verify, .. },
                    outcome: Outcome::Failed { failure },
                    ..
                } = &entry.record
                    && failure.kind == FailureKind::Mismatch
                    && let Some(driver) = scene.notes.drivers.get(runner)
                    && let Some(node) = scene.notes.facts.node(name)
                    && self.mistaken(*hop, node, driver, scene.view)
                {
                    found.push(format!("{name} fails although its content is right"));
                }
            }
            TraceKind::Ends { runner, end: Ok(End::Done) } => {
                // A rollback changes the content on purpose.
                let driver = scene.notes.drivers.get(runner);
                if let Some(driver) = driver.filter(|driver| !driver.plan.rollback) {
                    self.done(scene, &driver.wanted, found);
                }
            }
            _ => {}
        }
    }
}

fn schematic(view: &View<'_>, node: &Node) -> Schematic {
    facts::installed(view, node).and_then(|(_, schematic)| schematic)
}

#[cfg(test)]
mod tests {
    use upgrade_core::reason::Failure;

    use super::super::testing::{Bench, NONE, installer, wanted};
    use super::*;

    fn given(image: &str, kept: Installer) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.intent.installer = kept;
        let mut bench = Bench::with(1, 1, wanted);
        bench.ready(1);
        let act = Act::Install { node: "worker-1".into(), image: image.parse().unwrap() };
        bench.step(1, "1/worker-1/install", Some(act));
        bench.broken()
    }

    /// Reports a node's content as mismatched.
    fn doubted(boots: bool) -> Vec<u8> {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.drain(1, "worker-1");
        if boots {
            bench.boot(1, "worker-1");
        }
        let failure = Failure::new(FailureKind::Mismatch, "it lacks its extensions");
        let (step, outcome) = ("1/worker-1/verify".parse().unwrap(), Outcome::Failed { failure });
        bench.wrote(1, Record::Finished { step, attempt: 1, outcome });
        bench.broken().into_iter().filter(|rule| *rule == 4).collect()
    }

    #[test]
    fn a_node_with_the_right_content_is_not_rejected() {
        assert_eq!(doubted(true), [4]);
        // It runs the old version.
        assert_eq!(doubted(false), NONE);
    }

    #[test]
    fn a_renamed_extension_counts_as_present() {
        let names = |short: &str| vec![format!("siderolabs/{short}")];
        assert!(has(&names("i915"), "siderolabs/i915-ucode"));
        assert!(has(&names("i915-ucode"), "siderolabs/i915"));
        assert!(has(&names("iscsi-tools"), "siderolabs/iscsi-tools"));
        assert!(!has(&names("iscsi-tools"), "siderolabs/i915"));
    }

    #[test]
    fn an_installer_names_the_schematic() {
        let other = "a".repeat(64);
        let plain = "ghcr.io/siderolabs/installer:v1.13.12";
        let factory = format!("factory.talos.dev/metal-installer/{other}:v1.13.12");
        assert_eq!(given(&installer().to_string(), Installer::Keep), NONE);
        let empty = schematic_in(&installer()).unwrap().to_owned();
        for kind in ["nocloud-installer", "metal-installer-secureboot", "installer-secureboot"] {
            let other = format!("factory.talos.dev/{kind}/{empty}:v1.13.12");
            assert_eq!(given(&other, Installer::Keep), [4], "{kind}");
            assert_eq!(given(&other, Installer::Image(other.parse().unwrap())), [4], "{kind}");
        }
        assert_eq!(given(plain, Installer::Keep), [4]);
        assert_eq!(given(&factory, Installer::Keep), [4]);
        assert_eq!(given(&factory, Installer::Schematic(other.clone())), NONE);
        assert_eq!(given(&installer().to_string(), Installer::Schematic(other)), [4]);
        assert_eq!(given(plain, Installer::Image(plain.parse().unwrap())), NONE);
    }
}
