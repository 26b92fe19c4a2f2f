//! The process: a client, the needs of the hub, the sources of versions, the HTTP server and
//! the front end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use upgrade_core::catalogue::Catalogue;

use crate::api_call::CallError;
use crate::error_log::ErrorLog;
use crate::http::{self, Health, Metrics};
use crate::hub_config::{self, HubConfig, HubConfigError, HubOptions};
use crate::needs::{Needs, State};
use crate::rlimit;
use crate::versions::{Source, Versions};

/// How often the sources of versions are asked. Releases come every few weeks.
const REFRESH: Duration = Duration::from_mins(30);

/// How soon a source that failed is asked again.
const REFRESH_AGAIN: Duration = Duration::from_mins(1);

/// What a process is made of, whichever front end it serves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the hub is.
    pub hub: HubOptions,
    /// The listen address of health and metrics.
    pub listen: Option<SocketAddr>,
    /// The sources of releases, beside the catalogue.
    pub sources: Vec<Source>,
    /// The releases that are known without a source.
    pub catalogue: Catalogue,
}

/// What a process has before its front end starts.
pub struct Parts {
    /// The hub.
    pub client: Client,
    /// The known releases, which may change.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// A front end that is served.
pub trait Service {
    /// What it needs of the hub before it runs.
    fn needs(&self) -> Needs;

    /// True once its clusters are listed.
    fn ready(&self) -> watch::Receiver<bool>;

    /// Works until `stop` returns.
    fn run(self, stop: impl Future<Output = ()>) -> impl Future<Output = ()>;
}

/// Why a process does not start. Only errors that waiting cannot fix end it: files and flags
/// are read once.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The hub cannot be found.
    #[error(transparent)]
    HubConfig(#[from] HubConfigError),
    /// The credentials of the hub cannot be used.
    #[error("the hub's credentials cannot be used: {0}")]
    Client(CallError),
    /// The listener.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl ServeError {
    /// What to do about it.
    pub const fn next(&self) -> &'static str {
        match self {
            Self::HubConfig(error) => error.next(),
            Self::Client(_) => "correct the kubeconfig until `kubectl get namespaces` works",
            Self::Listen { .. } => "name another address with --listen",
        }
    }
}

/// Works until `stop` returns.
pub async fn serve<S: Service>(
    settings: Settings,
    service: impl FnOnce(Parts) -> S,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let Settings { hub, listen, sources, catalogue } = settings;
    let client = client(hub_config::find(&hub).await?)?;
    let most = rlimit::raise_nofile_limit();
    tracing::info!(most, "limit of open files and sockets");
    let metrics = Arc::new(Metrics::default());
    let versions = Versions::new(catalogue, sources);
    let service = service(Parts {
        client: client.clone(),
        catalogue: versions.known(),
        metrics: Arc::clone(&metrics),
    });
    let needs = service.needs();
    let (known, mut state) = watch::channel(State::default());
    let (tell, not_ready) = watch::channel(State::default().not_ready(false));
    let (ended, end) = watch::channel(false);
    let mut background = JoinSet::new();
    if let Some(address) = listen {
        let listener = listener(address).await?;
        let health = Health { not_ready, metrics: Arc::clone(&metrics) };
        background.spawn(serve_http(listener, health, end));
    }
    background.spawn(needs.keep_asking(known));
    background.spawn(tell_readiness(state.clone(), service.ready(), tell));
    background.spawn(refresh(versions, client, metrics));
    tokio::pin!(stop);
    // No cluster is touched before: without leases there is no fence (rule 9), and without
    // machines some are unknown (rule 10).
    let begin = tokio::select! {
        found = state.wait_for(State::suffices) => found.is_ok(),
        () = &mut stop => false,
    };
    if begin {
        service.run(stop).await;
    }
    ended.send_replace(true);
    Ok(())
}

/// The way to the hub; says which it is.
fn client(found: HubConfig) -> Result<Client, ServeError> {
    let HubConfig { config, origin, files, absent, context } = found;
    tracing::info!(
        hub = %config.cluster_url,
        by = %origin,
        files = (!files.is_empty()).then(|| hub_config::list(&files)),
        context,
        version = env!("CARGO_PKG_VERSION"),
        "starting"
    );
    if !absent.is_empty() {
        let absent = hub_config::list(&absent);
        tracing::warn!("KUBECONFIG names files that do not exist: {absent}");
    }
    Client::try_from(config).map_err(|error| ServeError::Client(error.into()))
}

async fn listener(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
    // Port 0 is one that the system picks; this says which.
    if let Ok(address) = listener.local_addr() {
        tracing::info!(listen = %address, "serving health and metrics");
    }
    Ok(listener)
}

async fn serve_http(listener: TcpListener, health: Health, mut end: watch::Receiver<bool>) {
    let end = async move {
        let _ = end.changed().await;
    };
    if let Err(error) = http::serve(listener, health, end).await {
        tracing::error!(%error, "the server of health and metrics stopped");
    }
}

/// Keeps up to date why this replica is not ready.
async fn tell_readiness(
    mut state: watch::Receiver<State>,
    mut listed: watch::Receiver<bool>,
    tell: watch::Sender<Option<String>>,
) {
    let mut was_ready = false;
    loop {
        let known = *listed.borrow_and_update();
        let not_ready = state.borrow_and_update().not_ready(known);
        let ready = not_ready.is_none();
        if ready != std::mem::replace(&mut was_ready, ready) {
            tracing::info!("{}", if ready { "ready" } else { "no longer ready" });
        }
        tell.send_replace(not_ready);
        // If either ends, the process ends; later requests still get an answer.
        tokio::select! {
            Ok(()) = state.changed() => {}
            Ok(()) = listed.changed() => {}
            else => std::future::pending().await,
        }
    }
}

/// Asks the sources of versions, again and again.
async fn refresh(mut versions: Versions, client: Client, metrics: Arc<Metrics>) {
    let mut troubles = BTreeMap::new();
    loop {
        let mut well = true;
        for (source, asked) in versions.refresh(&client).await {
            metrics.refreshed(source, asked.is_ok());
            let trouble = troubles.entry(source).or_insert_with(|| {
                ErrorLog::new(
                    "could not refresh available versions; keeping the previous list",
                    "available versions are refreshed again",
                )
            });
            match asked {
                Ok(()) => trouble.recovered(),
                Err(error) => {
                    well = false;
                    trouble.failed(&error.to_string());
                }
            }
        }
        tokio::time::sleep(if well { REFRESH } else { REFRESH_AGAIN }).await;
    }
}
