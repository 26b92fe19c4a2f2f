//! Clusters to plan for, made from a few words.

#![expect(dead_code, reason = "every test file uses its own part of this")]
#![expect(unreachable_pub, reason = "a module of several test binaries")]

pub mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use upgrade_core::catalogue::Catalogue;
use upgrade_core::image::ImageRef;
use upgrade_core::intent::Intent;
use upgrade_core::jiff::Timestamp;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{
    Component, EtcdFacts, EtcdMember, Fact, KubernetesFacts, MemberId, MemberStatus, Node,
    NodeName, Role, Snapshot, Stage, TalosFacts,
};
use upgrade_core::version::Version;
use upgrade_planner::report::Report;
use upgrade_planner::{Planned, Request, plan};

pub const SCHEMATIC: &str = "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245";

pub fn version(text: &str) -> Version {
    text.parse().unwrap()
}

pub fn image(text: &str) -> ImageRef {
    text.parse().unwrap()
}

/// A healthy cluster: `cp-1` leads, every node runs the same.
pub fn cluster(control_planes: usize, workers: usize, talos: &str, kubernetes: &str) -> Snapshot {
    let mut nodes = BTreeMap::new();
    for number in 1..=control_planes {
        let name = NodeName(format!("cp-{number}"));
        nodes.insert(name, node(Role::ControlPlane, number, talos, kubernetes));
    }
    for number in 1..=workers {
        let name = NodeName(format!("worker-{number}"));
        nodes.insert(name, node(Role::Worker, 100 + number, talos, kubernetes));
    }
    let everyone: BTreeSet<MemberId> = (1..=control_planes as u64).map(MemberId).collect();
    let members = (1..=control_planes as u64)
        .map(|number| EtcdMember {
            id: MemberId(number),
            node: NodeName(format!("cp-{number}")),
            learner: false,
            status: Fact::Known(MemberStatus {
                leader: Some(MemberId(1)),
                term: 7,
                applied_index: 5_000,
                sees: everyone.clone(),
                errors: vec![],
            }),
        })
        .collect();
    Snapshot {
        cluster: "prod".to_owned(),
        taken_at: Timestamp::UNIX_EPOCH,
        nodes,
        etcd: Fact::Known(EtcdFacts { members, alarms: vec![] }),
        kubernetes: Fact::Known(version(kubernetes)),
    }
}

fn node(role: Role, number: usize, talos: &str, kubernetes: &str) -> Node {
    let tag = version(kubernetes).tag();
    let mut images =
        BTreeMap::from([(Component::Kubelet, image(&format!("ghcr.io/siderolabs/kubelet:{tag}")))]);
    if role == Role::ControlPlane {
        for component in [
            Component::KubeApiserver,
            Component::KubeControllerManager,
            Component::KubeScheduler,
            Component::KubeProxy,
        ] {
            let name = format!("registry.k8s.io/{component}:{tag}");
            images.insert(component, image(&name));
        }
    }
    let installer =
        format!("factory.talos.dev/metal-installer/{SCHEMATIC}:{}", version(talos).tag());
    Node {
        address: format!("10.5.{}.{}", number / 250, number % 250 + 1),
        role,
        pool: None,
        talos: Fact::Known(TalosFacts {
            version: version(talos),
            boot_id: format!("boot-{number}-0"),
            stage: Stage::Running,
            ready: true,
            schematic: Some(SCHEMATIC.to_owned()),
            extensions: vec![],
            installer: Some(image(&installer)),
            platform: "metal".to_owned(),
            secure_boot: false,
        }),
        kubernetes: Fact::Known(KubernetesFacts {
            kubelet: version(kubernetes),
            ready: true,
            unschedulable: false,
        }),
        images: Fact::Known(images),
    }
}

/// What Talos told of a node, to be changed by a test.
pub fn talos<'a>(snapshot: &'a mut Snapshot, node: &str) -> &'a mut TalosFacts {
    match &mut snapshot.nodes.get_mut(&node.into()).unwrap().talos {
        Fact::Known(facts) => facts,
        _ => panic!("{node} is unknown"),
    }
}

/// What Kubernetes told of a node, to be changed by a test.
pub fn kubernetes<'a>(snapshot: &'a mut Snapshot, node: &str) -> &'a mut KubernetesFacts {
    match &mut snapshot.nodes.get_mut(&node.into()).unwrap().kubernetes {
        Fact::Known(facts) => facts,
        _ => panic!("{node} is unknown"),
    }
}

/// What etcd told, to be changed by a test.
pub fn etcd(snapshot: &mut Snapshot) -> &mut EtcdFacts {
    match &mut snapshot.etcd {
        Fact::Known(facts) => facts,
        _ => panic!("etcd is unknown"),
    }
}

pub fn intent(talos: Option<&str>, kubernetes: Option<&str>) -> Intent {
    Intent { talos: talos.map(version), kubernetes: kubernetes.map(version), ..Intent::default() }
}

pub fn plan_for(snapshot: &Snapshot, intent: &Intent, policy: &Policy) -> Result<Planned, Report> {
    let (matrix, catalogue) = (Matrix::builtin(), Catalogue::builtin());
    let (matrix, catalogue) = (&matrix, &catalogue);
    plan(&Request { snapshot, intent, policy, matrix, catalogue, workloads: &Fact::Unasked })
}

/// A plan as people would sketch it: a line a hop and a line a wave.
pub fn sketch(planned: &Planned) -> String {
    let mut text = String::new();
    for hop in &planned.plan.hops {
        let (from, to) = (hop.change.from(), hop.change.to());
        let _ = writeln!(text, "{} {from} -> {to}", hop.change.product());
        for wave in &hop.waves {
            let lanes: Vec<String> = wave
                .lanes
                .iter()
                .map(|lane| {
                    let node = lane.node.as_ref().map_or("*", |node| node.0.as_str());
                    let steps: Vec<_> = lane.steps.iter().map(|step| step.name()).collect();
                    format!("{node}[{}]", steps.join(" "))
                })
                .collect();
            let _ = writeln!(text, "  {:?}: {}", wave.group, lanes.join(", "));
        }
    }
    text
}

/// Everything the planner had to say, a line each.
pub fn told(report: &Report) -> String {
    let mut text = String::new();
    for refusal in &report.refusals {
        let _ = writeln!(text, "refused: {refusal}\n   next: {}", refusal.advice());
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
