//! A replica's connection to the cluster, which is an in-memory world of `simulation-tests`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use simulation_tests::world::SharedWorld;
use simulation_tests::world::process_io::{Process, ProcessIo};
use upgrade_controller::cluster::ClusterAccess;
use upgrade_controller::connect::{ClusterIo, ConnectError, Connector};
use upgrade_core::snapshot::Component;
use upgrade_engine::io::{Io, IoError, Machine, Machines as _, NoExternal};
use upgrade_live::talos::{Parts, RunningVersions};

use crate::hub::Hub;

/// Connects one replica to the world.
pub struct WorldConnector {
    /// Where the cluster's valid credentials are known.
    pub hub: Arc<Hub>,
    /// The world.
    pub shared: Arc<SharedWorld>,
    /// The replica.
    pub process: Arc<Process>,
}

impl Connector for WorldConnector {
    type Io = WorldIo;

    async fn open(&self, access: ClusterAccess) -> Result<WorldIo, ConnectError> {
        let revoked: Arc<AtomicBool> = self.hub.revocation(&access.talosconfig);
        Ok(WorldIo(ProcessIo {
            shared: Arc::clone(&self.shared),
            process: Arc::clone(&self.process),
            roster: Mutex::default(),
            revoked,
        }))
    }
}

/// One connection to the world.
pub struct WorldIo(ProcessIo);

impl Io for WorldIo {
    type Machines = ProcessIo;
    type Upgrader = ProcessIo;
    type External = NoExternal;
    type Etcd = ProcessIo;
    type Snapshots = ProcessIo;
    type Kubernetes = ProcessIo;
    type Clock = ProcessIo;

    fn machines(&self) -> &ProcessIo {
        &self.0
    }

    fn upgrader(&self) -> &ProcessIo {
        &self.0
    }

    fn etcd(&self) -> &ProcessIo {
        &self.0
    }

    fn snapshots(&self) -> &ProcessIo {
        &self.0
    }

    fn kubernetes(&self) -> &ProcessIo {
        &self.0
    }

    fn clock(&self) -> &ProcessIo {
        &self.0
    }
}

impl ClusterIo for WorldIo {
    async fn running_versions(
        &self,
        machine: &Machine,
        parts: Parts,
    ) -> Result<RunningVersions, IoError> {
        let version = self.0.facts(machine).await?.version;
        let mut images = match parts {
            Parts::None => BTreeMap::new(),
            Parts::Own | Parts::All => self.0.images(machine).await?,
        };
        images.retain(|component, _| match component {
            Component::Kubelet => false,
            Component::KubeProxy => parts == Parts::All,
            _ => true,
        });
        Ok(RunningVersions { version, images })
    }
}
