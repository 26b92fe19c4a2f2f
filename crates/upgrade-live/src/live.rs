//! A live cluster: both its sides and the time.

use std::path::PathBuf;

use talos_client::deadline::Deadlines;
use talos_client::talosconfig::{ConfigError, Context, Problem};
use talos_client::{Client, Talosconfig};
use thiserror::Error;
use upgrade_engine::io::{Clock, Io, Machine, NoExternal};

use crate::kubernetes::{KubeconfigError, LiveKubernetes};
use crate::snapshots::LiveSnapshots;
use crate::talos::{Known, LiveTalos};

/// How to reach a cluster, and where its snapshots go.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The talosconfig; one of the usual places if it is not said.
    pub talosconfig: Option<PathBuf>,
    /// The context in it; its current one if it is not said.
    pub context: Option<String>,
    /// The kubeconfig; fetched through Talos, when it is first needed, if it is
    /// not said.
    pub kubeconfig: Option<PathBuf>,
    /// Where etcd snapshots go.
    pub snapshots: LiveSnapshots,
}

/// The same for a cluster whose credentials are not files: what a Secret holds.
pub struct Credentials<'a> {
    /// The talosconfig; its current context counts.
    pub talosconfig: &'a [u8],
    /// The kubeconfig; fetched through Talos if there is none. It may refer to
    /// no file and run no program: another user wrote it.
    pub kubeconfig: Option<&'a [u8]>,
    /// Machines that the caller lists. Discovery may know more; a listed machine is
    /// never left out.
    pub machines: Vec<Machine>,
    /// Where etcd snapshots go.
    pub snapshots: LiveSnapshots,
}

/// Why there is nothing to reach a cluster with. No network is asked here.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The talosconfig.
    #[error(transparent)]
    Talosconfig(#[from] ConfigError),
    /// What the talosconfig says of us.
    #[error("the talosconfig's credentials cannot be used")]
    Credentials(#[source] Problem),
    /// The kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}

/// A live cluster.
pub struct Live<C> {
    talos: LiveTalos,
    kubernetes: LiveKubernetes,
    snapshots: LiveSnapshots,
    clock: C,
    client: Client,
    context: String,
}

impl<C: Clock + 'static> Live<C> {
    /// Reads what says how to reach it. Nothing is connected yet, so a cluster
    /// that is down is still one that can be asked later. Needs a runtime.
    pub async fn connect(options: &Options, clock: C) -> Result<Self, ConnectError> {
        let context = Talosconfig::load(options.talosconfig.as_deref())?
            .context(options.context.as_deref())?;
        let (path, name) = (options.talosconfig.clone(), context.name.clone());
        let reload = move || Talosconfig::load(path.as_deref()).ok()?.context(Some(&name)).ok();
        let client = Client::reloading(&context, Deadlines::default(), reload)
            .map_err(ConnectError::Credentials)?;
        let kubernetes = match &options.kubeconfig {
            Some(path) => LiveKubernetes::from_file(path).await?.beside(client.clone()),
            None => LiveKubernetes::through(client.clone()),
        };
        let snapshots = options.snapshots.clone();
        Ok(Self::new(client, kubernetes, &context, Vec::new(), snapshots, clock))
    }

    /// The same from what is in memory already.
    pub async fn with(credentials: Credentials<'_>, clock: C) -> Result<Self, ConnectError> {
        let Credentials { talosconfig, kubeconfig, machines, snapshots } = credentials;
        let context = Talosconfig::parse(talosconfig, "the Secret's talosconfig")?.context(None)?;
        let client = Client::new(&context).map_err(ConnectError::Credentials)?;
        let kubernetes = match kubeconfig {
            Some(text) => {
                LiveKubernetes::from_text(text, "of the Secret").await?.beside(client.clone())
            }
            None => LiveKubernetes::through(client.clone()),
        };
        Ok(Self::new(client, kubernetes, &context, machines, snapshots, clock))
    }

    fn new(
        client: Client,
        kubernetes: LiveKubernetes,
        context: &Context,
        listed: Vec<Machine>,
        snapshots: LiveSnapshots,
        clock: C,
    ) -> Self {
        let known =
            Known { named: context.nodes.iter().map(ToString::to_string).collect(), listed };
        let talos = LiveTalos::new(client.clone(), known);
        Self { talos, kubernetes, snapshots, clock, client, context: context.name.clone() }
    }

    /// The Talos client, for what the engine does not ask.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The context of the talosconfig that was taken.
    pub fn context(&self) -> &str {
        &self.context
    }
}

impl<C: Clock + 'static> Io for Live<C> {
    type Machines = LiveTalos;
    type Upgrader = LiveTalos;
    type External = NoExternal;
    type Etcd = LiveTalos;
    type Snapshots = LiveSnapshots;
    type Kubernetes = LiveKubernetes;
    type Clock = C;

    fn machines(&self) -> &Self::Machines {
        &self.talos
    }

    fn upgrader(&self) -> &Self::Upgrader {
        &self.talos
    }

    fn etcd(&self) -> &Self::Etcd {
        &self.talos
    }

    fn snapshots(&self) -> &LiveSnapshots {
        &self.snapshots
    }

    fn kubernetes(&self) -> &Self::Kubernetes {
        &self.kubernetes
    }

    fn clock(&self) -> &C {
        &self.clock
    }
}
