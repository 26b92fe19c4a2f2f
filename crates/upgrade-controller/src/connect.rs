//! From resolved access to the live side of a cluster. [`Connector`] is the seam: simulations
//! connect to a cluster in memory.

use std::sync::Arc;

use thiserror::Error;
use upgrade_core::secret::scrub;
use upgrade_core::text::chain;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::{Io, IoError, Machine};
use upgrade_live::talos::{Parts, RunningVersions};
use upgrade_live::{Credentials, Live};

use crate::api_call::CallError;
use crate::cluster::ClusterAccess;
use crate::limits::{Limiter, Throttled};

/// Why a front end cannot say how a cluster is reached.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The object of the cluster lacks something.
    #[error("{0}")]
    Incomplete(String),
    /// A Secret cannot be read.
    #[error("the Secret {name}: {error}")]
    Secret {
        /// Its name.
        name: String,
        /// What went wrong, without any of its content (rule 14).
        error: CallError,
    },
    /// A Secret does not exist.
    #[error("there is no Secret {0}")]
    NoSecret(String),
    /// A Secret lacks a key.
    #[error("the Secret {name} has no `{key}`")]
    NoKey {
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A machine of the cluster cannot be reached yet: leaving it out would leave it to no
    /// rule (rule 10).
    #[error("the {kind} {name} {problem}")]
    Machine {
        /// The kind of its object.
        kind: &'static str,
        /// The name of its object.
        name: String,
        /// What its object lacks.
        problem: String,
    },
}

/// Why there is no connection to a cluster.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The front end cannot say how.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The credentials cannot be used. Nothing of them is in the text (rule 14).
    #[error("{0}")]
    Credentials(String),
}

/// The live side of a cluster: what the engine drives, and the cheap version probe.
pub trait ClusterIo: Io {
    /// The least that tells which versions run on a machine.
    fn running_versions(
        &self,
        machine: &Machine,
        parts: Parts,
    ) -> impl Future<Output = Result<RunningVersions, IoError>> + Send;
}

impl ClusterIo for Live<SystemClock> {
    async fn running_versions(
        &self,
        machine: &Machine,
        parts: Parts,
    ) -> Result<RunningVersions, IoError> {
        self.machines().running_versions(machine, parts).await
    }
}

/// Opens the live sides of clusters.
pub trait Connector: Send + Sync + 'static {
    /// The live side.
    type Io: ClusterIo;

    /// Opens the live side of a cluster. No request is sent yet.
    fn open(
        &self,
        access: ClusterAccess,
    ) -> impl Future<Output = Result<Self::Io, ConnectError>> + Send;
}

/// Over the network.
#[derive(Clone, Copy, Debug)]
pub struct LiveConnector;

impl Connector for LiveConnector {
    type Io = Live<SystemClock>;

    async fn open(&self, access: ClusterAccess) -> Result<Self::Io, ConnectError> {
        let ClusterAccess { talosconfig, kubeconfig, inventory, snapshots } = access;
        let credentials = Credentials {
            talosconfig: &talosconfig,
            kubeconfig: kubeconfig.as_deref(),
            machines: inventory,
            snapshots,
        };
        let live = Live::with(credentials, SystemClock::new()).await;
        // The parts of the error quote nothing of the files (rule 14).
        live.map_err(|error| ConnectError::Credentials(scrub(&chain(&error)).into_owned()))
    }
}

/// The live side of a cluster, and the digest of the credentials that opened it.
pub struct Connection<I> {
    /// Of the credentials.
    pub digest: [u8; 32],
    /// The live side.
    pub live: Throttled<I>,
}

/// Opens the live side of a cluster, under a limit. No request is sent yet.
pub async fn connect<C: Connector>(
    connector: &C,
    access: ClusterAccess,
    limiter: &Arc<Limiter>,
) -> Result<Connection<C::Io>, ConnectError> {
    let digest = access.digest();
    let live = connector.open(access).await?;
    Ok(Connection { digest, live: Throttled::new(live, Arc::clone(limiter)) })
}
