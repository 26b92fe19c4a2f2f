//! Resources about the machine.

use talos_proto::resource::{block, enums, extensions, runtime, v1alpha1};
use talos_proto::{Kind, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::resource_value::{ResourceValue, map};
use super::super::services::State;
use super::super::spec::EMPTY_SCHEMATIC;
use super::View;

/// Size of the EPHEMERAL volume, in bytes.
const EPHEMERAL_SIZE: u64 = 20 << 30;

/// The process ID of an installer on the host.
const INSTALLER_PID: i32 = 4711;

impl World {
    pub(super) fn machine_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let here = &self.nodes[node.0];
        let factory = &self.spec.registry.factory;
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
                        apiurl: factory.clone(),
                    };
                    let yaml = map([
                        ("schematicId", id.clone().into()),
                        ("flavor", "".into()),
                        ("apiUrl", factory.clone().into()),
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
            // Healthy nodes have no diagnostics.
            kind::DIAGNOSTIC => Vec::new(),
            kind::SECURITY_STATE => {
                let (_, secure_boot, uki) = self.platform_of(node);
                let message = runtime::SecurityStateSpec {
                    secure_boot,
                    booted_with_uki: uki,
                    ..Default::default()
                };
                let yaml = map([("secureBoot", secure_boot.into()), ("bootedWithUKI", uki.into())]);
                vec![View::new("securitystate", &message, &yaml)]
            }
            kind::BOOTED_ENTRY if here.grub => Vec::new(),
            kind::BOOTED_ENTRY => {
                let entry = here.slots.entry().to_owned();
                let message = runtime::BootedEntrySpec { booted_entry: entry.clone() };
                vec![View::new("bootedentry", &message, &map([("bootedEntry", entry.into())]))]
            }
            kind::SERVICE_PID => here.install.iter().map(|_| installer_pid()).collect(),
            kind::SERVICE => self.services(node),
            kind::VOLUME_STATUS => vec![ephemeral_volume()],
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
        let conditions: Vec<ResourceValue> = unmet
            .into_iter()
            .map(|(name, reason)| map([("name", name.into()), ("reason", reason.into())]))
            .collect();
        let yaml = map([
            ("stage", here.stage.name().into()),
            (
                "status",
                map([
                    ("ready", conditions.is_empty().into()),
                    ("unmetConditions", ResourceValue::List(conditions)),
                ]),
            ),
        ]);
        View::new("machine", &message, &yaml)
    }

    /// Extensions of the running image (rule 4), the schematic among them.
    fn extension_statuses(&self, node: NodeIndex) -> Vec<View> {
        let here = &self.nodes[node.0];
        let id = here.slots.running().schematic.as_ref();
        let extensions = self.extensions_of(node);
        let version = here.version().tag();
        let mut layers: Vec<(String, String, String, String)> = extensions
            .iter()
            .map(|name| {
                let short = name.rsplit('/').next().unwrap_or(name).to_owned();
                (short, version.clone(), "Sidero Labs".to_owned(), String::new())
            })
            .collect();
        if let Some(id) = id {
            let author = format!("Image Factory ({}/)", self.spec.registry.factory);
            let schematic = self.spec.registry.schematics.get(id);
            let yaml = schematic.map(|it| it.yaml.clone()).unwrap_or_default();
            layers.push(("schematic".to_owned(), id.clone(), author, yaml));
        }
        // Kernel module dependencies are listed as soon as there are extensions.
        if !extensions.is_empty() && id.is_none_or(|id| id != EMPTY_SCHEMATIC) {
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
                if let (false, ResourceValue::Map(entries)) = (extra.is_empty(), &mut metadata) {
                    entries.push(("extraInfo".into(), extra.into()));
                }
                let yaml = map([("image", image.into()), ("metadata", metadata)]);
                View::new(number.to_string(), &message, &yaml)
            })
            .collect()
    }

    /// Names of the extensions in the running image.
    pub(in super::super) fn extensions_of(&self, node: NodeIndex) -> Vec<String> {
        let (running, registry) = (self.nodes[node.0].slots.running(), &self.spec.registry);
        let built: &[String] = match &running.schematic {
            Some(id) => registry.schematics.get(id).map_or(&[], |it| &it.extensions),
            None => &running.extensions,
        };
        registry.named_in(&running.version, built)
    }

    /// Only running services are resources.
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

/// The process of the running installer.
fn installer_pid() -> View {
    let message = runtime::ServicePidSpec {
        pid: INSTALLER_PID,
        mount_namespace: "mnt:[4026532614]".to_owned(),
    };
    let yaml = map([
        ("pid", i64::from(message.pid).into()),
        ("mountNamespace", message.mount_namespace.clone().into()),
    ]);
    View::new("installer", &message, &yaml)
}
