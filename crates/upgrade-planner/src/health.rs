//! How a cluster does, as a list of single checks with their reasons.
//!
//! It reports facts and gives no advice; the plan and `decide` have gates of their own,
//! built on the same facts.

use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::readiness;
use upgrade_core::snapshot::{Component, Fact, Node, NodeName, Role, Snapshot, Stage, Unmatched};
use upgrade_core::workload::{Pod, Workloads};

use crate::etcd;
use crate::report::Pods;

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// Machines and their Talos.
    Talos,
    /// etcd.
    Etcd,
    /// Nodes and control plane of Kubernetes.
    Kubernetes,
    /// What runs on it.
    Workloads,
}

impl Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Talos => "Talos",
            Self::Etcd => "etcd",
            Self::Kubernetes => "Kubernetes",
            Self::Workloads => "workloads",
        })
    }
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, and deserves a check.
    Doubtful,
    /// Not as it should be, or not to be seen (rule 10).
    Bad,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about.
    pub area: Area,
    /// The node, where it is about one.
    pub node: Option<NodeName>,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub text: String,
}

impl Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{}: {node}: {}", self.area, self.text),
            None => write!(f, "{}: {}", self.area, self.text),
        }
    }
}

/// Checks everything that was observed. The cluster is well if no check is
/// [`Verdict::Bad`]. Workloads that were not asked for are left out.
pub fn health(snapshot: &Snapshot, workloads: &Fact<Workloads>) -> Vec<Check> {
    let mut found = Found(Vec::new());
    for (name, node) in &snapshot.nodes {
        talos(name, node, &mut found);
    }
    one_version(snapshot, &mut found);
    etcd_checks(snapshot, &mut found);
    match &snapshot.kubernetes {
        Fact::Known(version) => found.good(Area::Kubernetes, None, format!("it is at {version}")),
        Fact::Unknown(why) => found.bad(Area::Kubernetes, None, why.clone()),
        Fact::Unasked => {}
    }
    for (name, node) in &snapshot.nodes {
        kubernetes(name, node, &mut found);
    }
    for (name, Unmatched { why, .. }) in &snapshot.unmatched {
        let text = format!("no machine is known for it: {why}");
        found.bad(Area::Talos, Some(name), text);
    }
    match workloads {
        Fact::Known(workloads) => {
            control_plane_pods(snapshot, workloads, &mut found);
            pods(workloads, &mut found);
        }
        Fact::Unknown(why) => found.bad(Area::Workloads, None, why.clone()),
        Fact::Unasked => {}
    }
    found.0
}

struct Found(Vec<Check>);

impl Found {
    fn add(&mut self, area: Area, node: Option<&NodeName>, verdict: Verdict, text: String) {
        self.0.push(Check { area, node: node.cloned(), verdict, text });
    }

    fn good(&mut self, area: Area, node: Option<&NodeName>, text: String) {
        self.add(area, node, Verdict::Good, text);
    }

    fn bad(&mut self, area: Area, node: Option<&NodeName>, text: String) {
        self.add(area, node, Verdict::Bad, text);
    }
}

fn talos(name: &NodeName, node: &Node, found: &mut Found) {
    let facts = match &node.talos {
        Fact::Known(facts) => facts,
        Fact::Unknown(why) => return found.bad(Area::Talos, Some(name), why.clone()),
        Fact::Unasked => return,
    };
    let version = &facts.version;
    if facts.stage != Stage::Running {
        let stage = format!("{:?}", facts.stage).to_lowercase();
        found.bad(Area::Talos, Some(name), format!("{version}, and it is {stage}, not running"));
    } else if facts.ready {
        found.good(Area::Talos, Some(name), format!("{version} runs and is ready"));
    } else if facts.unmet.is_empty() {
        found.bad(Area::Talos, Some(name), format!("{version} runs and is not ready"));
    } else {
        // What Kubernetes, etcd and static pods make of it is judged apart.
        let unmet = readiness::listed(&facts.unmet);
        let text = format!("{version} runs and is not ready: {unmet}");
        found.add(Area::Talos, Some(name), Verdict::Doubtful, text);
    }
}

fn one_version(snapshot: &Snapshot, found: &mut Found) {
    let versions = snapshot.nodes.values().filter_map(|node| Some(&node.talos.known()?.version));
    let (Some(oldest), Some(newest)) = (versions.clone().min(), versions.max()) else {
        return;
    };
    if oldest != newest {
        let text = format!("nodes run {oldest} to {newest}: an upgrade is under way or unfinished");
        found.add(Area::Talos, None, Verdict::Doubtful, text);
    }
}

fn etcd_checks(snapshot: &Snapshot, found: &mut Found) {
    if snapshot.etcd == Fact::Unasked {
        return;
    }
    let problems = etcd::problems(snapshot, None, false);
    if !problems.is_empty() {
        for problem in problems {
            found.bad(Area::Etcd, None, problem);
        }
        return;
    }
    let Some(facts) = snapshot.etcd.known() else { return };
    let leader = facts.leader().map_or("no member", |leader| leader.0.as_str());
    let count = facts.members.len();
    found.good(Area::Etcd, None, format!("{count} members agree, and {leader} leads"));
    if !etcd::survives_one_loss(count) {
        let text = format!("with {count} members it survives the loss of none");
        found.add(Area::Etcd, None, Verdict::Doubtful, text);
    }
}

fn kubernetes(name: &NodeName, node: &Node, found: &mut Found) {
    let facts = match &node.kubernetes {
        Fact::Known(facts) => facts,
        Fact::Unknown(why) => return found.bad(Area::Kubernetes, Some(name), why.clone()),
        Fact::Unasked => return,
    };
    let kubelet = &facts.kubelet;
    if facts.ready {
        found.good(Area::Kubernetes, Some(name), format!("Ready, kubelet {kubelet}"));
    } else {
        found.bad(Area::Kubernetes, Some(name), format!("not Ready, kubelet {kubelet}"));
    }
    if facts.unschedulable {
        let text = "cordoned: it takes no new pods".to_owned();
        found.add(Area::Kubernetes, Some(name), Verdict::Doubtful, text);
    }
}

/// The static pods of every control plane, as their mirrors show them.
fn control_plane_pods(snapshot: &Snapshot, workloads: &Workloads, found: &mut Found) {
    for (name, _) in snapshot.nodes_with(Role::ControlPlane) {
        for component in
            [Component::KubeApiserver, Component::KubeControllerManager, Component::KubeScheduler]
        {
            let is_it = |pod: &&Pod| {
                pod.mirror
                    && pod.node.as_ref() == Some(name)
                    && pod.name.name.strip_prefix(component.name()).is_some_and(|rest| {
                        rest.strip_prefix('-').is_some_and(|rest| rest == name.0)
                    })
            };
            match workloads.pods.iter().find(is_it) {
                Some(pod) if pod.ready => {}
                Some(pod) => {
                    let text = format!("{component} is not ready{}", waiting(pod));
                    found.bad(Area::Kubernetes, Some(name), text);
                }
                None => {
                    found.bad(Area::Kubernetes, Some(name), format!("{component} is not there"));
                }
            }
        }
    }
}

/// Pods that do not run well are no fault of the cluster: they are reported as doubtful.
fn pods(workloads: &Workloads, found: &mut Found) {
    let alive = || workloads.pods.iter().filter(|pod| !pod.is_finished() && !pod.mirror);
    let total = alive().count();
    let names = |wanted: &dyn Fn(&&Pod) -> bool| {
        Pods::new(alive().filter(wanted).map(|pod| pod.name.clone()).collect())
    };
    let unplaced = names(&|pod| pod.node.is_none());
    let unready = names(&|pod| pod.node.is_some() && !pod.ready && pod.deleting_since.is_none());
    if unplaced.count > 0 {
        let text = format!("pods that found no node: {unplaced}");
        found.add(Area::Workloads, None, Verdict::Doubtful, text);
    }
    if unready.count > 0 {
        let text = format!("pods that are not ready: {unready}");
        found.add(Area::Workloads, None, Verdict::Doubtful, text);
    }
    if unplaced.count + unready.count == 0 {
        found.good(Area::Workloads, None, format!("all {total} pods are ready"));
    }
    for budget in workloads.budgets.iter().filter(|budget| budget.never_allows()) {
        let text = format!(
            "budget {budget} wants {} of {} pods healthy and never lets one go",
            budget.desired_healthy, budget.expected_pods
        );
        found.add(Area::Workloads, None, Verdict::Doubtful, text);
    }
}

fn waiting(pod: &Pod) -> String {
    let reason = pod.containers.iter().find_map(|container| container.waiting.as_deref());
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}
