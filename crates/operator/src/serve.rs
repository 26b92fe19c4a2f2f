//! The process: a client, what the hub has to have, the sources of versions, the listener
//! and the operator.

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

use crate::api_call::describe;
use crate::error_log::ErrorLog;
use crate::http::{self, Health, Metrics};
use crate::hub_config::{self, HubConfig, HubConfigError, HubOptions};
use crate::needs::{Needs, State};
use crate::operator::{Operator, Options};
use crate::rlimit;
use crate::versions::{Source, Versions};

/// How often the sources of versions are asked. Releases come every few weeks.
const REFRESH: Duration = Duration::from_mins(30);

/// How soon a source that failed is asked again.
const REFRESH_AGAIN: Duration = Duration::from_mins(1);

/// What the process is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is said about the hub.
    pub hub: HubOptions,
    /// The listen address of health and metrics.
    pub listen: Option<SocketAddr>,
    /// Where releases are known from, beside the catalogue.
    pub sources: Vec<Source>,
    /// What was known when this was built, or in a file.
    pub catalogue: Catalogue,
    /// How the operator works.
    pub options: Options,
}

/// Why it does not begin. Only what waiting cannot mend ends the process: files and flags
/// are read once.
#[derive(Debug, Error)]
pub enum ServeError {
    /// There is no way to the hub.
    #[error(transparent)]
    HubConfig(#[from] HubConfigError),
    /// The way to the hub cannot be used.
    #[error("the hub's credentials cannot be used: {0}")]
    Client(String),
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

/// Works until `stop` comes back.
pub async fn serve(
    settings: Settings,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let Settings { hub, listen, sources, catalogue, options } = settings;
    let client = client(hub_config::find(&hub).await?)?;
    let most = rlimit::raise_nofile_limit();
    tracing::info!(most, "files and sockets that may be open");
    let needs = Needs {
        client: client.clone(),
        namespace: options.namespace.clone(),
        watch_namespace: options.watch_namespace.clone(),
        reads_config_map: sources.iter().any(|it| matches!(it, Source::ConfigMap { .. })),
    };
    let metrics = Arc::new(Metrics::default());
    let versions = Versions::new(catalogue, sources);
    let operator = Operator::new(client.clone(), options, versions.known(), Arc::clone(&metrics));
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
    background.spawn(tell_readiness(state.clone(), operator.ready(), tell));
    background.spawn(refresh(versions, client, metrics));
    tokio::pin!(stop);
    // Nothing is touched before: without leases nobody is fenced (rule 9), without
    // machines some are not seen (rule 10).
    let begin = tokio::select! {
        found = state.wait_for(State::suffices) => found.is_ok(),
        () = &mut stop => false,
    };
    if begin {
        operator.run(stop).await;
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
        "the operator starts"
    );
    if !absent.is_empty() {
        let absent = hub_config::list(&absent);
        tracing::warn!("KUBECONFIG names files that do not exist: {absent}");
    }
    Client::try_from(config).map_err(|error| ServeError::Client(describe(&error)))
}

async fn listener(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
    // Port 0 is one that the system picks; this says which.
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "serving health and metrics");
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
            tracing::info!("{}", if ready { "ready" } else { "not ready any more" });
        }
        tell.send_replace(not_ready);
        // An end of either is the end of the operator; whoever asks later still finds
        // an answer.
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
                    "available versions stay as they were",
                    "available versions are known",
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
