//! Rule 13: version order. The matrix and the skew rules are repeated here on purpose.
//! Kubelets count wherever they run: on a machine that discovery hides, or without a Talos
//! machine unless the user lists the node as foreign.

use upgrade_core::image::ImageRef;
use upgrade_core::jiff::Timestamp;
use upgrade_core::plan::Change;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::{Minor, Version};
use upgrade_engine::drive::End;

use super::driver::Driver;
use super::facts::{self, Kubelet, Node};
use super::{Rule, Scene};
use crate::trace::{Act, Fate, TraceEvent, TraceKind};

/// What a Talos minor accepts: the oldest host that may upgrade to it, the first that may not go
/// back to it, and the oldest and newest Kubernetes. All are minors of 1.
const TABLE: &[(u64, u64, u64, u64, u64)] = &[
    // Talos, host from, host below, Kubernetes from, Kubernetes up to
    (9, 8, 11, 27, 32),
    (10, 8, 12, 28, 33),
    (11, 9, 13, 29, 34),
    (12, 10, 14, 30, 35),
    (13, 11, 15, 31, 36),
    (14, 12, 16, 32, 37),
    (15, 13, 17, 33, 38),
];

/// The newest patches of the minors that an upgrade leaves: it passes through each of them.
const NEWEST: &[(u64, u64)] = &[(10, 9), (11, 6), (12, 11), (13, 12), (14, 4)];

/// The first minor of Talos whose upgrade keeps the node's data.
const KEEPS_DATA: u64 = 8;

/// The etcd 3 minor of a Talos minor.
pub(super) fn etcd_of(talos: &Version) -> u64 {
    match minor(talos) {
        0..=10 => 5,
        11..=13 => 6,
        _ => 7,
    }
}

/// How many minors a kubelet may be behind its API server.
const KUBELET_BEHIND: u64 = 3;

fn minor(version: &Version) -> u64 {
    Minor::new(1, 0).steps_to(version.minor()).unwrap_or(0)
}

fn supports(talos: &Version, kubernetes: &Version) -> bool {
    let (talos, kubernetes) = (minor(talos), minor(kubernetes));
    let row = TABLE.iter().find(|row| row.0 == talos);
    row.is_some_and(|(.., oldest, newest)| (*oldest..=*newest).contains(&kubernetes))
}

#[derive(Default)]
pub(super) struct Versions {
    /// When the current plan was made.
    planned: Option<Timestamp>,
}

impl Versions {
    /// No kubelet that existed when the plan was made is left on an older minor, unless the user
    /// holds its node.
    fn left_behind(&self, driver: &Driver, scene: &Scene<'_>, found: &mut Vec<String>) {
        let Some(wanted) = driver.wanted.intent.kubernetes.as_ref() else { return };
        let held =
            |node: &NodeName| driver.wanted.intent.nodes.get(node).is_some_and(|own| own.hold);
        for Kubelet { node, version, .. } in kubelets(self.planned, driver, scene) {
            if minor(&version) < minor(wanted) && !held(&node) {
                found.push(format!("done, but the kubelet of {node} is left on {version}"));
            }
        }
    }
}

/// The kubelets that Kubernetes had before this moment, without those that the user lists as
/// foreign.
fn kubelets(before: Option<Timestamp>, driver: &Driver, scene: &Scene<'_>) -> Vec<Kubelet> {
    let foreign = &driver.wanted.policy.foreign_nodes;
    let old = |kubelet: &Kubelet| match (kubelet.registered, before) {
        (Some(registered), Some(before)) => registered < before,
        _ => true,
    };
    let all = facts::kubelets(scene.view, &scene.notes.facts).into_iter();
    all.filter(|it| old(it) && !foreign.contains(&it.node)).collect()
}

impl Rule for Versions {
    fn number(&self) -> u8 {
        13
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        if let TraceKind::Starts { fresh: true, .. } = &seen.what {
            self.planned = Some(seen.at);
        }
        if let TraceKind::Ends { runner, end: Ok(End::Done) } = &seen.what
            && let Some(driver) = scene.notes.drivers.get(runner).filter(|it| !it.plan.rollback)
        {
            self.left_behind(driver, scene, found);
        }
        let TraceKind::Act { runner, act, fate: Fate::Arrives } = &seen.what else { return };
        let driver = scene.notes.drivers.get(runner);
        let node = act.node().and_then(|name| scene.notes.facts.node(name));
        let (Some(driver), Some(node)) = (driver, node) else { return };
        if takes_talos(act) && facts::in_container(scene.view, node) {
            found.push(format!("{act:?}, but nothing can be installed in a container"));
        }
        if act.boots() && node.control_plane {
            etcd_starts(act, driver, scene, found);
        }
        match act {
            Act::Install { image, .. } | Act::Upgrade { image, .. } => {
                talos(image, node, driver, scene, found);
            }
            Act::Rollback { .. } if !driver.plan.rollback => {
                found.push(format!("{act:?}, but the user wants no rollback"));
            }
            Act::Downgrade { to, .. } if !driver.plan.rollback => {
                found.push(format!("etcd goes down to {to}, but the user wants no rollback"));
            }
            Act::Configure { images, .. } => {
                for (component, image) in images {
                    let Some(to) = image.parse::<ImageRef>().ok().and_then(|it| it.version())
                    else {
                        found.push(format!("{component} is set to {image}, which has no version"));
                        continue;
                    };
                    kubernetes(component, &to, node, driver, scene, found);
                }
            }
            _ => {}
        }
    }
}

/// Whether an act installs or boots another version of Talos.
fn takes_talos(act: &Act) -> bool {
    match act {
        Act::Pull { image, .. } => image.repository.contains("installer"),
        Act::Install { .. } | Act::Upgrade { .. } | Act::Rollback { .. } => true,
        _ => false,
    }
}

/// A rollback must not boot an etcd that would exit: one of an older minor than the cluster's,
/// which an observation shows.
fn etcd_starts(act: &Act, driver: &Driver, scene: &Scene<'_>, found: &mut Vec<String>) {
    let Some(basis) = driver.basis(act).filter(|_| driver.plan.rollback) else { return };
    let Some(hop) = driver.plan.hops.iter().find(|hop| hop.number == basis.hop) else { return };
    let Change::Talos { to, .. } = &hop.change else { return };
    let cluster = &scene.notes.facts.etcd_minor;
    if etcd_of(to) < cluster.value && cluster.was(&cluster.value, basis.etcd.any) {
        let (runs, newest) = (etcd_of(to), cluster.value);
        found.push(format!("{act:?} to etcd 3.{runs}, but the cluster is at 3.{newest}"));
    }
}

fn talos(
    image: &ImageRef,
    node: &Node,
    driver: &Driver,
    scene: &Scene<'_>,
    found: &mut Vec<String>,
) {
    let name = &node.name;
    let Some((from, _)) = facts::installed(scene.view, node) else { return };
    let Some(to) = image.version() else {
        found.push(format!("{name} gets {image}, which has no version"));
        return;
    };
    let (here, there) = (minor(&from), minor(&to));
    let back = driver.plan.rollback;
    if to < from && !back {
        found.push(format!("{name} goes back from {from} to {to}, but the user wants no rollback"));
    }
    if here < KEEPS_DATA {
        found.push(format!("{name} is upgraded from {from}, which wipes its data"));
    }
    let skips = driver.wanted.intent.skip_minors;
    let newest = NEWEST.iter().find(|(line, _)| *line == here).map_or(0, |(_, patch)| *patch);
    if !back && !skips && there > here && from.patch() < newest {
        found.push(format!("{name} goes from {from} to {to} without 1.{here}.{newest} in between"));
    }
    let most = if skips { 2 } else { 1 };
    if !back && there > here + most {
        found.push(format!("{name} goes from {from} to {to} and skips a minor"));
    }
    let row = TABLE.iter().find(|row| row.0 == there);
    if !row.is_some_and(|(_, oldest, below, ..)| (*oldest..*below).contains(&here)) {
        found.push(format!("{name} cannot go from {from} to {to}"));
    }
    let others = scene.notes.facts.control_planes().filter(|other| other.name != *name);
    for other in others.filter(|_| node.control_plane) {
        let runs = facts::installed(scene.view, other).map(|(talos, _)| etcd_of(&talos));
        if runs.is_some_and(|runs| runs.abs_diff(etcd_of(&to)) > 1) {
            found.push(format!("{name} goes to {to}, two minors of etcd from {}", other.name));
        }
    }
    for (component, version) in facts::components(scene.view, node) {
        if !supports(&to, &version) {
            found.push(format!("{name} goes to Talos {to} with {component} {version}"));
        }
    }
}

fn kubernetes(
    component: &str,
    to: &Version,
    node: &Node,
    driver: &Driver,
    scene: &Scene<'_>,
    found: &mut Vec<String>,
) {
    let name = &node.name;
    let said = format!("{component} of {name} is set to {to}");
    if let Some((talos, _)) = facts::installed(scene.view, node)
        && !supports(&talos, to)
    {
        found.push(format!("{said} on Talos {talos}"));
    }
    let from = facts::components(scene.view, node).get(component).cloned();
    let back = driver.plan.rollback;
    if from.as_ref().is_some_and(|from| to < from) && !back {
        found.push(format!("{said}, but the user wants no rollback"));
    }
    if let Some(from) = &from
        && minor(to).abs_diff(minor(from)) > 1
        && component == "kube-apiserver"
    {
        found.push(format!("{said} from {from} and skips a minor"));
    }
    if back {
        return;
    }
    let facts = &scene.notes.facts;
    let servers: Vec<u64> = facts
        .control_planes()
        .filter_map(|node| facts::components(scene.view, node).get("kube-apiserver").map(minor))
        .collect();
    let (Some(oldest), Some(newest)) = (servers.iter().min(), servers.iter().max()) else { return };
    if component == "kube-apiserver" {
        if minor(to) > oldest + 1 {
            found.push(format!("{said}, but there is one of 1.{oldest}"));
        }
        // A kubelet that registered after the last observation cannot be known.
        let asked = driver.nodes.good;
        for Kubelet { node, version, .. } in kubelets(asked, driver, scene) {
            if minor(&version) + KUBELET_BEHIND < minor(to) {
                found.push(format!("{said}, but the kubelet of {node} is too old"));
            }
        }
        // A node that joined meanwhile is in no plan; one that was left behind is.
        let left = |node: &&Node| driver.wanted.intent.nodes.contains_key(&node.name);
        for node in facts.nodes().filter(left) {
            let talos = facts::installed(scene.view, node).map(|(talos, _)| talos);
            if talos.is_some_and(|talos| !supports(&talos, to)) {
                found.push(format!("{said}, but the Talos of {} does not support it", node.name));
            }
        }
    } else if minor(to) > *oldest {
        found.push(format!("{said}, but there is a kube-apiserver of 1.{oldest}"));
    } else if component == "kubelet" && minor(to) + KUBELET_BEHIND < *newest {
        found.push(format!("{said}, but there is a kube-apiserver of 1.{newest}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, NONE, installer, wanted};
    use super::*;

    fn image(version: &str) -> ImageRef {
        installer().with_tag(version)
    }

    /// From Talos 1.12.11 and Kubernetes 1.34.2.
    fn installs(version: &str, skip_minors: bool, rollback: bool) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.intent.skip_minors = skip_minors;
        wanted.rollback = rollback;
        let mut bench = Bench::with(1, 1, wanted);
        bench.ready(1);
        let act = Act::Install { node: "worker-1".into(), image: image(version) };
        bench.step(1, "1/worker-1/install", Some(act));
        bench.broken()
    }

    #[test]
    fn talos_goes_minor_by_minor() {
        assert_eq!(installs("v1.12.12", false, false), NONE);
        assert_eq!(installs("v1.13.12", false, false), NONE);
        assert_eq!(installs("v1.14.4", false, false), [13]);
        assert_eq!(installs("v1.14.4", true, false), NONE);
        assert_eq!(installs("v1.15.0", true, false), [13]);
        assert_eq!(installs("v1.11.6", false, false), [13]);
        assert_eq!(installs("v1.11.6", false, true), NONE);
        assert_eq!(installs("v1.9.6", false, true), [13]);
    }

    fn sets(node: &str, component: &str, tag: &str, rollback: bool) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.rollback = rollback;
        let mut bench = Bench::with(3, 1, wanted);
        bench.ready(1);
        let images = vec![(component.to_owned(), format!("registry.k8s.io/{component}:{tag}"))];
        let act = Act::Configure { node: node.into(), images };
        let step = format!("1/{node}/set-{component}");
        bench.step(1, &step, Some(act));
        bench.broken()
    }

    #[test]
    fn kubernetes_follows_its_api_servers() {
        assert_eq!(sets("cp-1", "kube-apiserver", "v1.35.1", false), NONE);
        assert_eq!(sets("cp-1", "kube-apiserver", "v1.36.1", false), [13]);
        assert_eq!(sets("cp-1", "kube-scheduler", "v1.34.3", false), NONE);
        assert_eq!(sets("cp-1", "kube-scheduler", "v1.35.1", false), [13]);
        assert_eq!(sets("worker-1", "kubelet", "v1.35.1", false), [13]);
        assert_eq!(sets("worker-1", "kubelet", "v1.34.1", false), [13]);
        assert_eq!(sets("worker-1", "kubelet", "v1.34.1", true), NONE);
    }

    #[test]
    fn an_api_server_does_not_leave_a_kubelet_too_far_behind() {
        for (version, listed, rules) in [
            ("1.32.9", false, &NONE[..]),
            ("1.31.9", false, &[13]),
            // The user is responsible for foreign nodes.
            ("1.31.9", true, &NONE[..]),
        ] {
            let mut wanted = wanted();
            if listed {
                wanted.policy.foreign_nodes.insert("edge-1".into());
            }
            let mut bench = Bench::with(3, 1, wanted);
            bench.register("edge-1", version);
            bench.ready(1);
            let image = "registry.k8s.io/kube-apiserver:v1.35.1".to_owned();
            let images = vec![("kube-apiserver".to_owned(), image)];
            let act = Act::Configure { node: "cp-1".into(), images };
            bench.step(1, "1/cp-1/set-kube-apiserver", Some(act));
            // A node without a machine is also a breach of rule 10.
            let broken: Vec<u8> = bench.broken().into_iter().filter(|rule| *rule == 13).collect();
            assert_eq!(broken, rules, "{version} {listed}");
        }
    }

    /// Ends a run as done after moving some kubelets to Kubernetes 1.35.
    fn done(moved: &[&str], edge: &str, listed: bool) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.intent.talos = None;
        wanted.intent.kubernetes = Some(Version::new(1, 35, 1));
        if listed {
            wanted.policy.foreign_nodes.insert("edge-1".into());
        }
        let mut bench = Bench::with(1, 1, wanted);
        bench.register("edge-1", edge);
        bench.ready(1);
        for node in moved {
            bench.move_kubernetes(node, "v1.34.2", "v1.35.1");
        }
        bench.wait(120);
        bench.ended(1, End::Done);
        bench.broken()
    }

    #[test]
    fn no_kubelet_is_left_behind_even_on_a_hidden_machine() {
        assert_eq!(done(&["cp-1", "worker-1"], "1.35.1", false), NONE);
        // A kubelet on a machine that discovery may hide.
        assert_eq!(done(&["cp-1"], "1.35.1", false), [0, 13]);
        // A kubelet without a Talos machine.
        assert_eq!(done(&["cp-1", "worker-1"], "1.34.9", false), [13]);
        assert_eq!(done(&["cp-1", "worker-1"], "1.34.9", true), NONE);
    }

    #[test]
    fn the_table_matches_talos() {
        let version = |text: &str| -> Version { text.parse().unwrap() };
        assert!(supports(&version("1.12.0"), &version("1.35.9")));
        assert!(!supports(&version("1.12.0"), &version("1.36.0")));
        assert!(!supports(&version("1.14.0"), &version("1.31.0")));
        assert!(supports(&version("1.14.0-rc.1"), &version("1.37.0")));
    }
}
