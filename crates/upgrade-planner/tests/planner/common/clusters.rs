//! Clusters to plan for, made from a few words. The mutants and the benchmark
//! take this file too.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::image::ImageRef;
use upgrade_core::intent::Intent;
use upgrade_core::jiff::Timestamp;
use upgrade_core::matrix::Matrix;
use upgrade_core::snapshot::{
    Component, EtcdFacts, EtcdMember, Fact, KubernetesFacts, MemberId, MemberStatus, Node,
    NodeName, Role, Snapshot, Stage, TalosFacts,
};
use upgrade_core::version::Version;

pub(crate) const SCHEMATIC: &str =
    "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245";

pub(crate) fn version(text: &str) -> Version {
    text.parse().unwrap()
}

pub(crate) fn image(text: &str) -> ImageRef {
    text.parse().unwrap()
}

/// A healthy cluster: `cp-1` leads, every node runs the same.
pub(crate) fn cluster(
    control_planes: usize,
    workers: usize,
    talos: &str,
    kubernetes: &str,
) -> Snapshot {
    let mut nodes = BTreeMap::new();
    for number in 1..=control_planes {
        let name = NodeName(format!("cp-{number}"));
        nodes.insert(name, node(Role::ControlPlane, number, talos, kubernetes));
    }
    for number in 1..=workers {
        let name = NodeName(format!("worker-{number}"));
        nodes.insert(name, node(Role::Worker, 100 + number, talos, kubernetes));
    }
    let etcd = Matrix::builtin().etcd(&version(talos));
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
                version: etcd,
                storage: etcd,
            }),
        })
        .collect();
    Snapshot {
        cluster: "prod".to_owned(),
        taken_at: Timestamp::UNIX_EPOCH,
        nodes,
        etcd: Fact::Known(EtcdFacts { members, alarms: vec![] }),
        kubernetes: Fact::Known(version(kubernetes)),
        unmatched: BTreeMap::new(),
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
            static_pods: match role {
                Role::ControlPlane => TalosFacts::control_plane_pods(true),
                Role::Worker => vec![],
            },
            schematic: Some(SCHEMATIC.to_owned()),
            extensions: vec![],
            installer: Some(image(&installer)),
            platform: "metal".to_owned(),
            secure_boot: false,
            unmet: vec![],
            uki: true,
            container: false,
            factory: None,
        }),
        kubernetes: Fact::Known(KubernetesFacts {
            kubelet: version(kubernetes),
            ready: true,
            unschedulable: false,
            marked: false,
            addresses: vec![],
        }),
        images: Fact::Known(images),
        api_server: match role {
            Role::ControlPlane => Fact::Known(()),
            Role::Worker => Fact::Unasked,
        },
    }
}

/// What was told, to be changed by a test.
pub(crate) fn known<T>(fact: &mut Fact<T>) -> &mut T {
    match fact {
        Fact::Known(facts) => facts,
        Fact::Unknown(why) => panic!("it is unknown: {why}"),
        Fact::Unasked => panic!("it was not asked"),
    }
}

pub(crate) fn intent(talos: Option<&str>, kubernetes: Option<&str>) -> Intent {
    Intent { talos: talos.map(version), kubernetes: kubernetes.map(version), ..Intent::default() }
}
