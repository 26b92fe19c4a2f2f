//! Typed views of the resources that upgrades read.
//!
//! Each view has only the fields we use. Kinds with secrets hide them in `Debug` output (rule 14).

mod cluster;
mod config;
mod kubernetes;
mod runtime;

pub use cluster::{ClusterInfo, EtcdMemberId, Member};
pub use config::{KubernetesAccess, MachineConfig, MachineKind};
pub use kubernetes::{
    ApiServerConfig, BootstrapManifests, ControllerManagerConfig, ExtraManifests, KubeletSpec,
    Manifest, NodeStatus, Nodename, SchedulerConfig, StaticPod, StaticPodStatus,
};
pub use runtime::{
    BootId, BootedEntry, Diagnostic, ExtensionStatus, MachineStatus, Schematic, SecurityState,
    ServicePid, ServiceStatus, UnmetCondition, VersionResource, VolumeStatus,
};

/// Implements [`Spec`](crate::cosi::Spec), and [`Single`](crate::cosi::Single) if an ID is given.
macro_rules! view {
    ($view:ident of $payload:ty as $kind:ident $(at $id:literal)?, $make:expr) => {
        impl $crate::cosi::Spec for $view {
            const KIND: talos_proto::Kind = talos_proto::kind::$kind;
            type Payload = $payload;

            fn view(payload: Self::Payload) -> Result<Self, String> {
                let make: fn($payload) -> Result<Self, String> = $make;
                make(payload)
            }
        }

        $(impl $crate::cosi::Single for $view {
            const ID: &'static str = $id;
        })?
    };
}
use view;
