//! The state of the running machine.

use talos_proto::resource::enums::{BlockVolumePhase, RuntimeMachineStage};
use talos_proto::resource::{block, extensions, runtime, v1alpha1};
pub use upgrade_core::readiness::UnmetCondition;
use upgrade_core::snapshot::{Extension, Stage};

use super::view;
use crate::client::Node;
use crate::error::{Error, Failure};

/// The pseudo extension that names the schematic: its version is the schematic's ID.
const SCHEMATIC: &str = "schematic";

/// The pseudo extension for the index of kernel modules, which is rebuilt when an extension adds
/// modules. Its version is the kernel's.
const MODULES: &str = "modules.dep";

/// The stage of the machine, and whether it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineStatus {
    /// The current stage.
    pub stage: Stage,
    /// Whether all conditions are met.
    pub ready: bool,
    /// The unmet conditions.
    pub unmet: Vec<UnmetCondition>,
}

view!(MachineStatus of runtime::MachineStatusSpec as MACHINE_STATUS at "machine", |spec| {
    let stage = match spec.stage() {
        RuntimeMachineStage::MachineStageUnknown => Stage::Unknown,
        RuntimeMachineStage::MachineStageBooting => Stage::Booting,
        RuntimeMachineStage::MachineStageInstalling => Stage::Installing,
        RuntimeMachineStage::MachineStageMaintenance => Stage::Maintenance,
        RuntimeMachineStage::MachineStageRunning => Stage::Running,
        RuntimeMachineStage::MachineStageRebooting => Stage::Rebooting,
        RuntimeMachineStage::MachineStageShuttingDown => Stage::ShuttingDown,
        RuntimeMachineStage::MachineStageResetting => Stage::Resetting,
        RuntimeMachineStage::MachineStageUpgrading => Stage::Upgrading,
    };
    let status = spec.status.unwrap_or_default();
    Ok(MachineStatus {
        stage,
        ready: status.ready,
        unmet: status
            .unmet_conditions
            .into_iter()
            .map(|runtime::UnmetCondition { name, reason }| UnmetCondition { name, reason })
            .collect(),
    })
});

impl MachineStatus {
    /// Running and ready.
    pub fn is_up(&self) -> bool {
        self.stage == Stage::Running && self.ready
    }
}

/// A service of Talos, such as `kubelet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Whether it runs.
    pub running: bool,
    /// The result of its health check; `None` if it has none or it has not run yet.
    pub healthy: Option<bool>,
}

view!(ServiceStatus of v1alpha1::ServiceSpec as SERVICE, |spec| {
    Ok(ServiceStatus {
        running: spec.running,
        healthy: (!spec.unknown).then_some(spec.healthy),
    })
});

impl ServiceStatus {
    /// Running, and healthy if it has a health check.
    pub fn is_up(self) -> bool {
        self.running && self.healthy != Some(false)
    }
}

/// An extension in the node's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionStatus {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The image layer it came in.
    pub image: String,
    /// Its author.
    pub author: String,
    /// Additional information.
    pub extra_info: String,
}

view!(ExtensionStatus of extensions::Layer as EXTENSION_STATUS, |layer| {
    let metadata = layer.metadata.ok_or("it has no metadata")?;
    Ok(ExtensionStatus {
        name: metadata.name,
        version: metadata.version,
        image: layer.image,
        author: metadata.author,
        extra_info: metadata.extra_info,
    })
});

impl ExtensionStatus {
    /// Whether it is the pseudo extension for the schematic.
    pub fn is_schematic(&self) -> bool {
        self.name == SCHEMATIC
    }

    /// Whether it was requested; Talos and the Image Factory add some themselves.
    pub fn was_asked_for(&self) -> bool {
        !self.is_schematic() && self.name != MODULES
    }
}

/// The schematic of the node's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schematic {
    /// Its ID.
    pub id: String,
    /// The kind of image, if the node reports it.
    pub flavor: String,
    /// The factory's URL, if the node reports it.
    pub api_url: String,
}

view!(Schematic of runtime::ImageFactorySchematicSpec as IMAGE_FACTORY_SCHEMATIC
    at "image-factory-schematic", |spec| {
    Ok(Schematic {
        id: spec.schematic_id,
        flavor: spec.flavor,
        api_url: spec.apiurl,
    })
});

/// Splits the author of the schematic extension: a name, and the factory's URL in parentheses.
fn read_author(author: &str) -> (String, String) {
    match author.rsplit_once(" (") {
        Some((flavor, url)) => (flavor.to_owned(), url.trim_end_matches(')').to_owned()),
        None => (author.to_owned(), String::new()),
    }
}

/// An ID that changes with every boot (Talos 1.14 and newer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootId(pub String);

view!(BootId of runtime::BootIdSpec as BOOT_ID at "boot-id", |spec| {
    if spec.boot_id.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(BootId(spec.boot_id))
});

/// The running version, as a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionResource(pub String);

view!(VersionResource of runtime::VersionSpec as VERSION at "version", |spec| {
    Ok(VersionResource(spec.version))
});

/// A diagnostic message of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The message.
    pub message: String,
    /// Its details.
    pub details: Vec<String>,
}

view!(Diagnostic of runtime::DiagnosticSpec as DIAGNOSTIC, |spec| {
    Ok(Diagnostic {
        message: spec.message,
        details: spec.details,
    })
});

/// How the machine was booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecurityState {
    /// Whether Secure Boot is enabled.
    pub secure_boot: bool,
    /// Whether it booted a unified kernel image.
    pub booted_with_uki: bool,
}

view!(SecurityState of runtime::SecurityStateSpec as SECURITY_STATE at "securitystate", |spec| {
    Ok(SecurityState {
        secure_boot: spec.secure_boot,
        booted_with_uki: spec.booted_with_uki,
    })
});

/// The boot loader entry that was booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootedEntry(pub String);

view!(BootedEntry of runtime::BootedEntrySpec as BOOTED_ENTRY at "bootedentry", |spec| {
    Ok(BootedEntry(spec.booted_entry))
});

/// The process of a service or of an installer, while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePid(pub i32);

view!(ServicePid of runtime::ServicePidSpec as SERVICE_PID, |spec| Ok(ServicePid(spec.pid)));

/// A volume, such as `EPHEMERAL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Whether it is ready.
    pub ready: bool,
    /// Its size in bytes.
    pub size: u64,
    /// Its device.
    pub location: String,
    /// Its error, if any.
    pub error: String,
}

view!(VolumeStatus of block::VolumeStatusSpec as VOLUME_STATUS, |spec| {
    Ok(VolumeStatus {
        ready: spec.phase() == BlockVolumePhase::VolumePhaseReady,
        size: spec.size,
        location: spec.location,
        error: spec.error_message,
    })
});

impl Node {
    /// The node's schematic; `None` if its image is not from a factory. Talos 1.14 has a resource
    /// for it; older versions use a pseudo extension.
    pub async fn schematic(&self) -> Result<Option<Schematic>, Error> {
        match self.get::<Schematic>().await {
            Ok(Some(resource)) if !resource.spec.id.is_empty() => return Ok(Some(resource.spec)),
            Ok(_) => {}
            Err(error) if matches!(error.failure(), Failure::NotSupported(_)) => {}
            Err(error) => return Err(error),
        }
        let extensions = self.list::<ExtensionStatus>().await?;
        Ok(extensions
            .into_iter()
            .map(|resource| resource.spec)
            .find(ExtensionStatus::is_schematic)
            .map(|extension| {
                let (flavor, api_url) = read_author(&extension.author);
                Schematic { id: extension.version, flavor, api_url }
            }))
    }

    /// The requested extensions in the node's image, sorted.
    pub async fn extensions(&self) -> Result<Vec<Extension>, Error> {
        let mut extensions: Vec<_> = self
            .list::<ExtensionStatus>()
            .await?
            .into_iter()
            .map(|resource| resource.spec)
            .filter(ExtensionStatus::was_asked_for)
            .map(|extension| Extension { name: extension.name, version: extension.version })
            .collect();
        extensions.sort();
        Ok(extensions)
    }
}
