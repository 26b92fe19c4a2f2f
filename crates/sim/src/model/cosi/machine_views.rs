//! Resources about the machine.

use talos_proto::resource::{
    block, config, enums, extensions, kubeaccess, network, runtime, v1alpha1,
};
use talos_proto::{Kind, common, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::services::State;
use super::super::spec::EMPTY_SCHEMATIC;
use super::super::tree::{Tree, list, map};
use super::View;

/// The address of the factory that schematics are from.
const FACTORY: &str = "https://factory.talos.dev";

/// Size of the volume that holds what a node may lose.
const EPHEMERAL_SIZE: u64 = 20 << 30;

impl World {
    pub(super) fn machine_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let here = &self.nodes[node.0];
        let views = match *kind {
            kind::MACHINE_STATUS => vec![self.machine_status(node)],
            kind::EXTENSION_STATUS => self.extension_statuses(node),
            kind::IMAGE_FACTORY_SCHEMATIC => here
                .slots
                .running()
                .schematic
                .iter()
                .map(|id| {
                    let message = runtime::ImageFactorySchematicSpec {
                        schematic_id: id.clone(),
                        flavor: String::new(),
                        apiurl: FACTORY.to_owned(),
                    };
                    let yaml = map([
                        ("schematicId", id.clone().into()),
                        ("flavor", "".into()),
                        ("apiUrl", FACTORY.into()),
                    ]);
                    View::new("image-factory-schematic", &message, &yaml)
                })
                .collect(),
            kind::BOOT_ID => {
                let message = runtime::BootIdSpec { boot_id: here.boot_id.clone() };
                let yaml = map([("bootID", here.boot_id.clone().into())]);
                vec![View::new("boot-id", &message, &yaml)]
            }
            kind::VERSION => {
                let version = here.version().tag();
                let message = runtime::VersionSpec {
                    version: version.clone(),
                    name: if here.minor() >= 13 { "Talos" } else { "" }.to_owned(),
                };
                let yaml = if here.minor() >= 13 {
                    map([("name", "Talos".into()), ("version", version.into())])
                } else {
                    map([("version", version.into())])
                };
                vec![View::new("version", &message, &yaml)]
            }
            // Healthy nodes complain about nothing.
            kind::DIAGNOSTIC => Vec::new(),
            kind::SECURITY_STATE => {
                let message =
                    runtime::SecurityStateSpec { booted_with_uki: true, ..Default::default() };
                let yaml = map([("secureBoot", false.into()), ("bootedWithUKI", true.into())]);
                vec![View::new("securitystate", &message, &yaml)]
            }
            kind::BOOTED_ENTRY => {
                let entry = here.slots.entry();
                let message = runtime::BootedEntrySpec { booted_entry: entry.clone() };
                vec![View::new("bootedentry", &message, &map([("bootedEntry", entry.into())]))]
            }
            kind::SERVICE => self.services(node),
            kind::VOLUME_STATUS => vec![ephemeral_volume()],
            kind::MACHINE_CONFIG => {
                let message = config::MachineConfigSpec {
                    yaml_marshalled: here.config.active.clone().into(),
                };
                let mut view = View::new("v1alpha1", &message, &Tree::Bool(true));
                // Readers take the text of this one as it is.
                view.yaml.clone_from(&here.config.active);
                vec![view.version(here.config.version)]
            }
            kind::MACHINE_TYPE => {
                let (number, name) = if here.is_control_plane() {
                    (config::MachineType::ControlPlane, "controlplane")
                } else {
                    (config::MachineType::Worker, "worker")
                };
                let message = config::MachineTypeSpec { machine_type: number.into() };
                vec![View::new("machine-type", &message, &name.into())]
            }
            kind::KUBERNETES_ACCESS_CONFIG => {
                let message = kubeaccess::ConfigSpec::default();
                let yaml = map([
                    ("enabled", false.into()),
                    ("allowedAPIRoles", Tree::List(Vec::new())),
                    ("allowedKubernetesNamespaces", Tree::List(Vec::new())),
                ]);
                vec![View::new("config", &message, &yaml)]
            }
            kind::LINK_STATUS => links(node),
            kind::HOSTNAME_STATUS => {
                let message = network::HostnameStatusSpec {
                    hostname: here.hostname.clone(),
                    domainname: String::new(),
                };
                let yaml =
                    map([("hostname", here.hostname.clone().into()), ("domainname", "".into())]);
                vec![View::new("hostname", &message, &yaml)]
            }
            kind::NODE_ADDRESS => ["current", "default"]
                .into_iter()
                .map(|id| {
                    let count = if id == "default" { 1 } else { here.addresses.len() };
                    let addresses = here.addresses.iter().take(count);
                    let message = network::NodeAddressSpec {
                        addresses: addresses
                            .clone()
                            .map(|address| common::NetIpPrefix {
                                ip: octets(*address),
                                prefix_length: 24,
                            })
                            .collect(),
                    };
                    let yaml = map([
                        ("addresses", list(addresses.map(|address| format!("{address}/24")))),
                        ("sortAlgorithm", "v1".into()),
                    ]);
                    View::new(id, &message, &yaml)
                })
                .collect(),
            _ => return None,
        };
        Some(views)
    }

    fn machine_status(&self, node: NodeIndex) -> View {
        let here = &self.nodes[node.0];
        let unmet = self.unmet_conditions(node);
        let message = runtime::MachineStatusSpec {
            stage: here.stage as i32,
            status: Some(runtime::MachineStatusStatus {
                ready: unmet.is_empty(),
                unmet_conditions: unmet
                    .iter()
                    .map(|(name, reason)| runtime::UnmetCondition {
                        name: (*name).to_owned(),
                        reason: reason.clone(),
                    })
                    .collect(),
            }),
        };
        let conditions: Vec<Tree> = unmet
            .into_iter()
            .map(|(name, reason)| map([("name", name.into()), ("reason", reason.into())]))
            .collect();
        let yaml = map([
            ("stage", here.stage.name().into()),
            (
                "status",
                map([
                    ("ready", conditions.is_empty().into()),
                    ("unmetConditions", Tree::List(conditions)),
                ]),
            ),
        ]);
        View::new("machine", &message, &yaml)
    }

    /// Extensions of the running image (rule 4), the schematic among them.
    fn extension_statuses(&self, node: NodeIndex) -> Vec<View> {
        let here = &self.nodes[node.0];
        let Some(id) = &here.slots.running().schematic else {
            return Vec::new();
        };
        let schematic = self.spec.registry.schematics.get(id).cloned().unwrap_or_default();
        let version = here.version().tag();
        let mut layers: Vec<(String, String, String, String)> = schematic
            .extensions
            .iter()
            .map(|name| {
                let short = name.rsplit('/').next().unwrap_or(name).to_owned();
                (short, version.clone(), "Sidero Labs".to_owned(), String::new())
            })
            .collect();
        let author = format!("Image Factory ({FACTORY}/)");
        layers.push(("schematic".to_owned(), id.clone(), author, schematic.yaml));
        // The kernel's modules follow whatever extensions bring some.
        if !schematic.extensions.is_empty() && id != EMPTY_SCHEMATIC {
            layers.push((
                "modules.dep".to_owned(),
                "6.18.0-talos".to_owned(),
                "Talos Machinery".to_owned(),
                String::new(),
            ));
        }
        layers
            .into_iter()
            .enumerate()
            .map(|(number, (name, version, author, extra))| {
                let image = format!("{number}.{name}.sqsh");
                let message = extensions::Layer {
                    image: image.clone(),
                    metadata: Some(extensions::Metadata {
                        name: name.clone(),
                        version: version.clone(),
                        author: author.clone(),
                        extra_info: extra.clone(),
                        ..Default::default()
                    }),
                };
                let talos = map([("version", "".into())]);
                let mut metadata = map([
                    ("name", name.into()),
                    ("version", version.into()),
                    ("author", author.into()),
                    ("description", "".into()),
                    ("compatibility", map([("talos", talos)])),
                ]);
                if let (false, Tree::Map(entries)) = (extra.is_empty(), &mut metadata) {
                    entries.push(("extraInfo".into(), extra.into()));
                }
                let yaml = map([("image", image.into()), ("metadata", metadata)]);
                View::new(number.to_string(), &message, &yaml)
            })
            .collect()
    }

    /// Only services that run are resources.
    fn services(&self, node: NodeIndex) -> Vec<View> {
        self.nodes[node.0]
            .services
            .iter()
            .filter(|service| service.state == State::Running)
            .map(|service| {
                let healthy = service.healthy == Some(true);
                let unknown = service.healthy.is_none();
                let message = v1alpha1::ServiceSpec { running: true, healthy, unknown };
                let yaml = map([
                    ("running", true.into()),
                    ("healthy", healthy.into()),
                    ("unknown", unknown.into()),
                ]);
                View::new(service.id.to_string(), &message, &yaml)
            })
            .collect()
    }
}

pub(super) fn octets(address: std::net::IpAddr) -> Vec<u8> {
    match address {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn ephemeral_volume() -> View {
    let message = block::VolumeStatusSpec {
        phase: enums::BlockVolumePhase::VolumePhaseReady.into(),
        location: "/dev/sda6".to_owned(),
        parent_location: "/dev/sda".to_owned(),
        partition_index: 6,
        size: EPHEMERAL_SIZE,
        filesystem: enums::BlockFilesystemType::FilesystemTypeXfs.into(),
        mount_location: "/dev/sda6".to_owned(),
        pretty_size: "21 GB".to_owned(),
        r#type: enums::BlockVolumeType::VolumeTypePartition.into(),
        ..Default::default()
    };
    let yaml = map([
        ("phase", "ready".into()),
        ("type", "partition".into()),
        ("location", "/dev/sda6".into()),
        ("mountLocation", "/dev/sda6".into()),
        ("parentLocation", "/dev/sda".into()),
        ("partitionIndex", 6.into()),
        ("size", i64::try_from(EPHEMERAL_SIZE).unwrap_or(i64::MAX).into()),
        ("prettySize", "21 GB".into()),
        ("filesystem", "xfs".into()),
    ]);
    View::new("EPHEMERAL", &message, &yaml)
}

fn links(node: NodeIndex) -> Vec<View> {
    let number = u8::try_from(node.0 % 255).unwrap_or(0) + 1;
    let link = |index: u32, name: &'static str, loopback: bool| {
        let hardware = if loopback { vec![0; 6] } else { vec![2, 0, 0, 0, 0, number] };
        let mtu: u32 = if loopback { 65_536 } else { 1_500 };
        let message = network::LinkStatusSpec {
            index,
            r#type: if loopback {
                enums::NethelpersLinkType::LinkLoopbck
            } else {
                enums::NethelpersLinkType::LinkEther
            }
            .into(),
            hardware_addr: hardware.clone(),
            mtu,
            operational_state: if loopback {
                enums::NethelpersOperationalState::OperStateUnknown
            } else {
                enums::NethelpersOperationalState::OperStateUp
            }
            .into(),
            link_state: true,
            ..Default::default()
        };
        let text: Vec<String> = hardware.iter().map(|byte| format!("{byte:02x}")).collect();
        let yaml = map([
            ("index", i64::from(index).into()),
            ("type", if loopback { "loopback" } else { "ether" }.into()),
            ("linkIndex", 0.into()),
            ("flags", if loopback { "UP,LOOPBACK,RUNNING" } else { "UP,BROADCAST,RUNNING" }.into()),
            ("hardwareAddr", text.join(":").into()),
            ("mtu", i64::from(mtu).into()),
            ("queueDisc", if loopback { "noqueue" } else { "pfifo_fast" }.into()),
            ("operationalState", if loopback { "unknown" } else { "up" }.into()),
            ("kind", "".into()),
            ("slaveKind", "".into()),
            ("linkState", true.into()),
        ]);
        View::new(name, &message, &yaml)
    };
    vec![link(2, "eth0", false), link(1, "lo", true)]
}
