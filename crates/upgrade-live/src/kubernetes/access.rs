//! Who we are to Kubernetes: from a kubeconfig, or from Talos.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use talos_client::Client as Talos;
use thiserror::Error;
use tokio::sync::Mutex as Hold;
use upgrade_core::reason::FailureKind;
use upgrade_engine::io::IoError;

use crate::talos_error;

/// Name, socket and TLS: an API server that is gone should not be waited for.
const CONNECT: Duration = Duration::from_secs(5);

/// A kubeconfig that cannot be used. The file holds keys, so nothing of it is
/// quoted (rule 14).
#[derive(Debug, Error)]
pub enum KubeconfigError {
    /// It cannot be read or parsed.
    #[error("the kubeconfig {}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It switches the verification of certificates off.
    #[error(
        "the kubeconfig {} sets `insecure-skip-tls-verify`; give the cluster's \
         `certificate-authority-data` instead",
        path.display()
    )]
    Insecure {
        /// The file.
        path: PathBuf,
    },
}

/// A connection that is made when it is first needed, and again when the API
/// server no longer knows us. Cheap to clone.
#[derive(Clone)]
pub(super) struct Access(Arc<Inner>);

struct Inner {
    source: Source,
    made: Hold<Option<Made>>,
    /// Connections to single API servers.
    own: Mutex<BTreeMap<SocketAddr, kube::Client>>,
}

/// How a connection is made, and the connection.
type Made = (Config, kube::Client);

/// Where a kubeconfig is had from.
enum Source {
    /// A file, which may be written again.
    File(PathBuf),
    /// A fixed text, which cannot be read again.
    Text,
    /// A control plane, which issues a new one on request.
    Talos(Talos),
}

impl Access {
    fn new(source: Source, made: Option<Made>) -> Self {
        Self(Arc::new(Inner { source, made: Hold::new(made), own: Mutex::default() }))
    }

    /// Reads a kubeconfig, and takes its current context.
    pub(super) async fn from_file(path: &Path) -> Result<Self, KubeconfigError> {
        let client = read_file(path).await?;
        Ok(Self::new(Source::File(path.to_owned()), Some(client)))
    }

    /// Takes the text of a kubeconfig that another user wrote.
    pub(super) async fn from_text(text: &[u8], whose: &str) -> Result<Self, KubeconfigError> {
        let path = PathBuf::from(whose);
        let unusable = |why: String| KubeconfigError::Unusable { path: path.clone(), why };
        let text = str::from_utf8(text).map_err(|_| unusable("it is not text".to_owned()))?;
        let read = Kubeconfig::from_yaml(text).map_err(|error| unusable(read_problem(&error)))?;
        if let Some(what) = reaches_out(&read) {
            return Err(unusable(format!("it has `{what}`; put what is needed into it instead")));
        }
        Ok(Self::new(Source::Text, Some(connected(read, &path).await?)))
    }

    /// Asks a control plane for a kubeconfig once one is needed.
    pub(super) fn through(talos: Talos) -> Self {
        Self::new(Source::Talos(talos), None)
    }

    /// The connection.
    pub(super) async fn client(&self) -> Result<kube::Client, IoError> {
        Ok(self.made().await?.1)
    }

    /// A connection to the API server at this very address, as the same user and with
    /// the same authority: its certificate has to be for that address.
    pub(super) async fn at(&self, address: SocketAddr) -> Result<kube::Client, IoError> {
        let known = |own: &Mutex<BTreeMap<SocketAddr, kube::Client>>| {
            own.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
        };
        if let Some(client) = known(&self.0.own) {
            return Ok(client);
        }
        let unusable = |why: String| {
            let text = format!("the API server at {address} cannot be asked: {why}");
            IoError::new(FailureKind::Mismatch, &text)
        };
        let mut config = self.made().await?.0;
        let url = format!("https://{address}");
        config.cluster_url = url.parse().map_err(|_| unusable(format!("{url} is no URL")))?;
        config.tls_server_name = None;
        config.proxy_url = None;
        let client = client(config).map_err(|error| unusable(error.to_string()))?;
        let mut own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(own.entry(address).or_insert(client).clone())
    }

    async fn made(&self) -> Result<Made, IoError> {
        let Inner { source, made, own: _ } = &*self.0;
        let mut held = made.lock().await;
        if let Some(made) = &*held {
            return Ok(made.clone());
        }
        let made = match source {
            Source::File(path) => read_file(path).await.map_err(|error| {
                // It may be about to be written.
                IoError::new(FailureKind::Unavailable, &error.to_string())
            })?,
            Source::Talos(talos) => fetched(talos).await?,
            Source::Text => unreachable!("a text is made into a connection at once"),
        };
        Ok(held.insert(made).clone())
    }

    /// The API server does not know us (any more): certificates of a kubeconfig
    /// that Talos makes may be good for an hour only. The next call has a new
    /// one; `false` if there is none to be had.
    pub(super) async fn forget(&self) -> bool {
        let Inner { source, made, own } = &*self.0;
        if matches!(source, Source::Text) {
            return false;
        }
        *made.lock().await = None;
        own.lock().unwrap_or_else(PoisonError::into_inner).clear();
        true
    }
}

async fn read_file(path: &Path) -> Result<Made, KubeconfigError> {
    let read = Kubeconfig::read_from(path).map_err(|error| KubeconfigError::Unusable {
        path: path.to_owned(),
        why: read_problem(&error),
    })?;
    connected(read, path).await
}

/// A connection with a kubeconfig's current context.
async fn connected(read: Kubeconfig, path: &Path) -> Result<Made, KubeconfigError> {
    let unusable = |why: String| KubeconfigError::Unusable { path: path.to_owned(), why };
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| unusable(read_problem(&error)))?;
    if config.accept_invalid_certs {
        return Err(KubeconfigError::Insecure { path: path.to_owned() });
    }
    let client = client(config.clone()).map_err(|error| unusable(error.to_string()))?;
    Ok((config, client))
}

/// A connection with a kubeconfig that a node makes.
async fn fetched(talos: &Talos) -> Result<Made, IoError> {
    let text = talos.endpoint().kubeconfig().await;
    let text = text.map_err(|error| talos_error::read(&error))?;
    let unusable = |_| {
        let text = "the kubeconfig that the node made cannot be used";
        IoError::new(FailureKind::Mismatch, text)
    };
    let read = Kubeconfig::from_yaml(text.expose()).map_err(unusable)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let config = config.map_err(unusable)?;
    let client = client(config.clone()).map_err(|error| {
        IoError::new(FailureKind::Mismatch, &format!("the node's kubeconfig: {error}"))
    })?;
    Ok((config, client))
}

/// What in a kubeconfig would read a file here or run a program here.
fn reaches_out(read: &Kubeconfig) -> Option<&'static str> {
    let users = read.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    for user in users {
        for (name, there) in [
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("tokenFile", user.token_file.is_some()),
            ("client-certificate", user.client_certificate.is_some()),
            ("client-key", user.client_key.is_some()),
        ] {
            if there {
                return Some(name);
            }
        }
    }
    let mut clusters = read.clusters.iter().filter_map(|named| named.cluster.as_ref());
    clusters
        .any(|cluster| cluster.certificate_authority.is_some())
        .then_some("certificate-authority")
}

fn client(mut config: Config) -> Result<kube::Client, kube::Error> {
    config.connect_timeout = Some(CONNECT);
    // Watches are silent for long; every call has a deadline of its own.
    config.read_timeout = None;
    // What is tried again, and for how long, is said in one place: `call`.
    config.default_retry = false;
    kube::Client::try_from(config)
}

/// What is wrong with a kubeconfig, in words that do not quote it.
fn read_problem(error: &kube::config::KubeconfigError) -> String {
    use kube::config::KubeconfigError as E;
    match error {
        E::ReadConfig(error, _) => format!("it cannot be read: {error}"),
        E::CurrentContextNotSet => "it has no `current-context`; set one".to_owned(),
        E::LoadContext(_) => "its current context does not exist in it".to_owned(),
        E::LoadClusterOfContext(_) => "the cluster of its context does not exist in it".to_owned(),
        _ => "it is not a kubeconfig that can be used; does kubectl accept it?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_elsewhere_runs_nothing_and_reads_nothing() {
        let of = |user: &str, cluster: &str| {
            let text = format!(
                "users:\n- name: u\n  user: {user}\nclusters:\n- name: c\n  cluster: {cluster}\n"
            );
            reaches_out(&Kubeconfig::from_yaml(&text).expect("a kubeconfig"))
        };
        let plain = "{server: \"https://127.0.0.1:6443\"}";
        assert_eq!(of("{token: abc}", plain), None);
        assert_eq!(of("{exec: {command: sh, apiVersion: v1}}", plain), Some("exec"));
        assert_eq!(of("{tokenFile: /etc/passwd}", plain), Some("tokenFile"));
        assert_eq!(of("{client-key: /etc/passwd}", plain), Some("client-key"));
        let file = "{server: \"https://127.0.0.1:6443\", certificate-authority: /ca}";
        assert_eq!(of("{token: abc}", file), Some("certificate-authority"));
    }
}
