//! The process: a client, the sources of versions, the listener and the operator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use upgrade_core::catalogue::Catalogue;

use crate::files;
use crate::http::{self, Health, Metrics};
use crate::operator::{Operator, Options};
use crate::versions::{Source, Versions};

/// Name, socket and TLS.
const CONNECT: Duration = Duration::from_secs(5);

/// How often the sources of versions are asked. Releases come every few weeks.
const REFRESH: Duration = Duration::from_mins(30);

/// How soon a source that failed is asked again.
const REFRESH_AGAIN: Duration = Duration::from_mins(1);

/// What the process is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hub's kubeconfig; the pod's own account if there is none.
    pub kubeconfig: Option<PathBuf>,
    /// Where health and metrics are told.
    pub listen: Option<SocketAddr>,
    /// Where releases are known from, beside the catalogue.
    pub sources: Vec<Source>,
    /// What was known when this was built, or in a file.
    pub catalogue: Catalogue,
    /// How the operator works.
    pub options: Options,
}

/// Why it does not begin.
#[derive(Debug, Error)]
pub enum ServeError {
    /// There is no way to the hub.
    #[error("the hub's API cannot be reached: {0}")]
    Hub(String),
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

/// Works until `stop` comes back.
pub async fn serve(
    settings: Settings,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let Settings { kubeconfig, listen, sources, catalogue, options } = settings;
    let most = files::allow_many();
    tracing::info!(most, "files and sockets that may be open");
    let client = client(kubeconfig.as_deref()).await?;
    let metrics = Arc::new(Metrics::default());
    let mut versions = Versions::new(catalogue, sources);
    let operator = Operator::new(client.clone(), options, versions.known(), Arc::clone(&metrics));
    let (waiting, waiting_for) = watch::channel(Some("the clusters of the hub"));
    let (ended, mut end) = watch::channel(false);
    let mut background = tokio::task::JoinSet::new();
    if let Some(address) = listen {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        // Port 0 is one that the system picks; this says which.
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "health and metrics are told");
        }
        let health = Health { waiting_for, metrics: Arc::clone(&metrics) };
        background.spawn(async move {
            let end = async move {
                let _ = end.changed().await;
            };
            if let Err(error) = http::serve(listener, health, end).await {
                tracing::error!(%error, "health and metrics are not told any more");
            }
        });
    }
    let mut ready = operator.ready();
    background.spawn(async move {
        if ready.wait_for(|ready| *ready).await.is_ok() {
            waiting.send_replace(None);
        }
        // Whoever asks later still finds an answer.
        std::future::pending::<()>().await;
    });
    background.spawn(async move {
        loop {
            let mut well = true;
            for (source, asked) in versions.refresh(&client).await {
                metrics.refreshed(source, asked.is_ok());
                if let Err(error) = asked {
                    well = false;
                    tracing::warn!(source, %error, "available versions are as they were");
                }
            }
            tokio::time::sleep(if well { REFRESH } else { REFRESH_AGAIN }).await;
        }
    });
    operator.run(stop).await;
    ended.send_replace(true);
    Ok(())
}

/// The way to the hub.
async fn client(kubeconfig: Option<&Path>) -> Result<Client, ServeError> {
    let hub = |error: &dyn std::error::Error| ServeError::Hub(error.to_string());
    let mut config = match kubeconfig {
        Some(path) => {
            // Rule 14: what a reader says of a file may quote it.
            let unusable = || {
                let path = path.display();
                ServeError::Hub(format!("{path} cannot be used; does kubectl accept it?"))
            };
            let read = Kubeconfig::read_from(path).map_err(|_| unusable())?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(read, &options).await.map_err(|_| unusable())?
        }
        None => Config::incluster()
            .map_err(|_| ServeError::Hub("this is no pod with an account".to_owned()))?,
    };
    config.connect_timeout = Some(CONNECT);
    // Watches are silent for long; every other call has a deadline of its own.
    config.read_timeout = None;
    // What is tried again, and for how long, is said where it is asked.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| hub(&error))
}
