//! A healthy cluster made of numbers and versions, for plans without a real one.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::image::ImageRef;
use upgrade_core::jiff::Timestamp;
use upgrade_core::matrix::Matrix;
use upgrade_core::snapshot::{
    Component, EtcdFacts, EtcdMember, Fact, KubernetesFacts, MemberId, MemberStatus, Node,
    NodeName, Role, Snapshot, Stage, TalosFacts,
};
use upgrade_core::version::Version;
use upgrade_planner::installer::{EMPTY_SCHEMATIC, FACTORY, schematic_of};

/// The name of an offline cluster.
pub const CLUSTER: &str = "offline";

/// The cluster as the flags describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The number of control planes.
    pub control_planes: usize,
    /// The number of workers.
    pub workers: usize,
    /// The running Talos, if it is given.
    pub talos: Option<Version>,
    /// The running Kubernetes, if it is given.
    pub kubernetes: Option<Version>,
    /// The installer of the nodes, if it is given.
    pub installer: Option<ImageRef>,
}

impl Cluster {
    /// The observation of this cluster, with everything healthy.
    pub fn snapshot(&self) -> Snapshot {
        let control_planes = names("cp", self.control_planes);
        let workers = names("worker", self.workers);
        let etcd = etcd(&control_planes, self.talos.as_ref());
        let node = |role, network: u8| {
            move |(index, name): (usize, NodeName)| (name, self.node(role, network, index))
        };
        let nodes = control_planes.into_iter().enumerate().map(node(Role::ControlPlane, 0));
        let nodes = nodes.chain(workers.into_iter().enumerate().map(node(Role::Worker, 1)));
        Snapshot {
            cluster: CLUSTER.to_owned(),
            // Nothing was observed, and the planner does not use the time.
            taken_at: Timestamp::UNIX_EPOCH,
            nodes: nodes.collect(),
            etcd: Fact::Known(etcd),
            kubernetes: self.kubernetes.clone().map_or(Fact::Unasked, Fact::Known),
            unmatched: BTreeMap::new(),
        }
    }

    fn node(&self, role: Role, network: u8, index: usize) -> Node {
        Node {
            address: format!("10.{network}.{}.{}", index / 250, index % 250 + 1),
            role,
            pool: None,
            talos: self.talos_facts(role),
            kubernetes: self.kubernetes_facts(),
            images: self.images(role),
            api_server: Fact::Unasked,
        }
    }

    fn talos_facts(&self, role: Role) -> Fact<TalosFacts> {
        let Some(version) = self.talos.clone() else {
            return Fact::Unasked;
        };
        let installer = self.installer.clone().unwrap_or_else(|| ImageRef {
            registry: Some(FACTORY.to_owned()),
            repository: format!("metal-installer/{EMPTY_SCHEMATIC}"),
            tag: Some(version.tag()),
            digest: None,
        });
        let built = Built::read(&installer);
        Fact::Known(TalosFacts {
            version,
            boot_id: "offline".to_owned(),
            stage: Stage::Running,
            ready: true,
            static_pods: match role {
                Role::ControlPlane => TalosFacts::control_plane_pods(true),
                Role::Worker => Vec::new(),
            },
            schematic: built.schematic,
            extensions: Vec::new(),
            installer: Some(installer),
            platform: built.platform,
            secure_boot: built.secure_boot,
            unmet: Vec::new(),
            uki: true,
            container: false,
            factory: None,
        })
    }

    fn kubernetes_facts(&self) -> Fact<KubernetesFacts> {
        self.kubernetes.clone().map_or(Fact::Unasked, |kubelet| {
            Fact::Known(KubernetesFacts {
                kubelet,
                ready: true,
                unschedulable: false,
                marked: false,
                addresses: Vec::new(),
            })
        })
    }

    /// The default images of a Talos cluster.
    fn images(&self, role: Role) -> Fact<BTreeMap<Component, ImageRef>> {
        let Some(version) = &self.kubernetes else {
            return Fact::Unasked;
        };
        let mut components = vec![Component::Kubelet];
        if role == Role::ControlPlane {
            components.extend([
                Component::KubeApiserver,
                Component::KubeControllerManager,
                Component::KubeScheduler,
                Component::KubeProxy,
            ]);
        }
        let image = |component: Component| ImageRef {
            registry: Some(match component {
                Component::Kubelet => "ghcr.io".to_owned(),
                _ => "registry.k8s.io".to_owned(),
            }),
            repository: match component {
                Component::Kubelet => "siderolabs/kubelet".to_owned(),
                other => other.name().to_owned(),
            },
            tag: Some(version.tag()),
            digest: None,
        };
        Fact::Known(components.into_iter().map(|part| (part, image(part))).collect())
    }
}

fn names(prefix: &str, count: usize) -> Vec<NodeName> {
    (1..=count).map(|number| NodeName(format!("{prefix}-{number}"))).collect()
}

/// All members healthy and in sync. The first one leads: the leader goes last, and a plan shows
/// that best if its name would put it first.
fn etcd(control_planes: &[NodeName], talos: Option<&Version>) -> EtcdFacts {
    let version = talos.and_then(|talos| Matrix::builtin().etcd(talos));
    let ids: Vec<MemberId> = (1..).map(MemberId).take(control_planes.len()).collect();
    let everyone: BTreeSet<MemberId> = ids.iter().copied().collect();
    let members = ids.iter().zip(control_planes).map(|(id, node)| EtcdMember {
        id: *id,
        node: node.clone(),
        learner: false,
        status: Fact::Known(MemberStatus {
            leader: ids.first().copied(),
            term: 1,
            applied_index: 1,
            sees: everyone.clone(),
            errors: Vec::new(),
            version,
            storage: version,
        }),
    });
    EtcdFacts { members: members.collect(), alarms: Vec::new() }
}

/// What an Image Factory reference says about the node:
/// `<platform>-installer[-secureboot]/<schematic>`.
struct Built {
    platform: String,
    secure_boot: bool,
    schematic: Option<String>,
}

impl Built {
    fn read(installer: &ImageRef) -> Self {
        let schematic = schematic_of(installer);
        // The last part of the name, or the one before the schematic.
        let name = installer.repository.rsplit('/').nth(usize::from(schematic.is_some()));
        let name = name.unwrap_or_default();
        let (name, secure_boot) =
            name.strip_suffix("-secureboot").map_or((name, false), |name| (name, true));
        Self {
            platform: name.strip_suffix("-installer").unwrap_or("metal").to_owned(),
            secure_boot,
            schematic: schematic.map(ToOwned::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(control_planes: usize, workers: usize) -> Cluster {
        Cluster {
            control_planes,
            workers,
            talos: Some(Version::new(1, 11, 6)),
            kubernetes: Some(Version::new(1, 33, 4)),
            installer: None,
        }
    }

    #[test]
    fn an_offline_cluster_is_known_and_healthy() {
        let snapshot = cluster(3, 5).snapshot();
        assert_eq!(snapshot.nodes.len(), 8);
        assert!(snapshot.nodes.values().all(Node::is_up));
        assert_eq!(snapshot.nodes_with(Role::ControlPlane).count(), 3);
        let etcd = snapshot.etcd.known().unwrap();
        assert_eq!(etcd.leader(), Some(&"cp-1".into()));
        let installers: BTreeSet<_> = snapshot
            .nodes
            .values()
            .map(|node| node.talos.known().unwrap().installer.clone().unwrap().to_string())
            .collect();
        assert_eq!(
            installers.into_iter().collect::<Vec<_>>(),
            [format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:v1.11.6")]
        );
    }

    #[test]
    fn addresses_differ() {
        let snapshot = cluster(3, 1000).snapshot();
        let addresses: BTreeSet<_> =
            snapshot.nodes.values().map(|node| node.address.clone()).collect();
        assert_eq!(addresses.len(), 1003);
    }

    #[test]
    fn an_installer_tells_the_platform() {
        let read = |text: &str| Built::read(&text.parse().unwrap());
        let schematic = "ab".repeat(32);
        let built =
            read(&format!("factory.talos.dev/nocloud-installer-secureboot/{schematic}:v1.12.0"));
        assert_eq!(built.platform, "nocloud");
        assert!(built.secure_boot);
        assert_eq!(built.schematic, Some(schematic));
        let built = read("ghcr.io/siderolabs/installer:v1.12.0");
        assert_eq!((built.platform.as_str(), built.secure_boot), ("metal", false));
        assert_eq!(built.schematic, None);
    }
}
