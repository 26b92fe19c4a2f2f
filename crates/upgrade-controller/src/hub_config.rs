//! Which hub: its kubeconfig is found as kubectl finds one.
//!
//! 1. `--kubeconfig`: that file and no other.
//! 2. `KUBECONFIG`: its files, merged; the first that says something counts, and one
//!    that does not exist is left out.
//! 3. `~/.kube/config`, if the variable is not set.
//! 4. The service account of the pod, if none of the files says anything.
//!
//! A file that is there and cannot be used is an error, never a reason to go to the next
//! place: that could be another hub.

use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use thiserror::Error;

/// Name, socket and TLS.
const CONNECT: Duration = Duration::from_secs(5);

/// What the user and the environment say about the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubOptions {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`; the current one if there is none.
    pub context: Option<String>,
    /// The variable `KUBECONFIG`.
    pub variable: Option<OsString>,
    /// The home folder.
    pub home: Option<PathBuf>,
}

impl HubOptions {
    /// This kubeconfig, whatever the environment says.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { kubeconfig: Some(path.into()), ..Self::default() }
    }
}

/// Where the way to the hub comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `--kubeconfig`.
    Flag,
    /// The variable `KUBECONFIG`.
    Variable,
    /// `~/.kube/config`.
    Home,
    /// The service account of the pod.
    Pod,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--kubeconfig",
            Self::Variable => "KUBECONFIG",
            Self::Home => "~/.kube/config",
            Self::Pod => "the service account of this pod",
        })
    }
}

/// The way to the hub, and how it was found.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// What a client is made of.
    pub config: Config,
    /// Where it comes from.
    pub origin: Origin,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// Files that `KUBECONFIG` names and that do not exist.
    pub absent: Vec<PathBuf>,
    /// The context in use.
    pub context: Option<String>,
}

/// Why there is no way to the hub. Waiting would not help: files are read once.
#[derive(Debug, Error)]
pub enum HubConfigError {
    /// A file cannot be read.
    #[error("the kubeconfig {} cannot be read", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is no kubeconfig. Rule 14: what a reader says of a file may quote it.
    #[error("{} is not a kubeconfig; does kubectl accept it?", .0.display())]
    Unusable(PathBuf),
    /// No context is chosen.
    #[error("no context is chosen in {0}")]
    NoContext(String),
    /// The context does not exist.
    #[error("there is no context `{name}` in {files}; it has {known}")]
    UnknownContext {
        /// Which.
        name: String,
        /// Where it was looked for.
        files: String,
        /// Those that exist.
        known: String,
    },
    /// The context cannot be used.
    #[error("the context `{name}` in {files}: {why}")]
    Context {
        /// Which.
        name: String,
        /// Where it is.
        files: String,
        /// What is wrong with it.
        why: String,
    },
    /// A context was asked for, and there is no kubeconfig.
    #[error("there is no kubeconfig that could have the context `{0}`")]
    NowhereForContext(String),
    /// There is nothing at all.
    #[error("no hub: {0}, and this is not a pod with a service account")]
    Nothing(String),
    /// This is a pod whose account cannot be used.
    #[error("no hub: {kubeconfig}, and the service account of this pod cannot be read: {why}")]
    Pod {
        /// Which files do not exist.
        kubeconfig: String,
        /// Why not.
        why: String,
    },
}

impl HubConfigError {
    /// What to do about it.
    pub const fn next(&self) -> &'static str {
        match self {
            Self::NoContext(_) | Self::UnknownContext { .. } => {
                "name one with --context, or choose it with `kubectl config use-context`"
            }
            Self::Pod { .. } => "give the pod a service account, with automountServiceAccountToken",
            Self::Unusable(_) | Self::Context { .. } => {
                "correct it until `kubectl get namespaces` works with it"
            }
            Self::Unreadable { .. } | Self::NowhereForContext(_) | Self::Nothing(_) => {
                "name the hub's kubeconfig with --kubeconfig or in KUBECONFIG, or run in a pod"
            }
        }
    }
}

/// The files to read, and who names them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Places {
    origin: Origin,
    files: Vec<PathBuf>,
}

/// Where kubectl would look; nowhere without a home folder.
fn places(given: &HubOptions) -> Option<Places> {
    let HubOptions { kubeconfig, variable, home, .. } = given;
    if let Some(path) = kubeconfig {
        return Some(Places { origin: Origin::Flag, files: vec![path.clone()] });
    }
    if let Some(list) = variable.as_ref().filter(|list| !list.is_empty()) {
        let named = std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty());
        return Some(Places { origin: Origin::Variable, files: named.collect() });
    }
    let home = home.as_ref()?;
    Some(Places { origin: Origin::Home, files: vec![home.join(".kube").join("config")] })
}

/// What the files say together.
#[derive(Debug)]
struct Read {
    places: Places,
    merged: Kubeconfig,
    absent: Vec<PathBuf>,
}

fn read(places: Places) -> Result<Read, HubConfigError> {
    let (mut files, mut absent) = (Vec::new(), Vec::new());
    let mut merged = Kubeconfig::default();
    for path in places.files {
        let mut next = match Kubeconfig::read_from(&path) {
            Ok(next) => next,
            Err(KubeconfigError::ReadConfig(source, _)) => {
                // A named file has to be there; of several, kubectl takes those that are.
                if source.kind() == ErrorKind::NotFound && places.origin != Origin::Flag {
                    absent.push(path);
                    continue;
                }
                return Err(HubConfigError::Unreadable { path, source });
            }
            Err(_) => return Err(HubConfigError::Unusable(path)),
        };
        // kubectl writes an empty name where none is chosen.
        next.current_context = next.current_context.filter(|name| !name.is_empty());
        merged = merged.merge(next).map_err(|_| HubConfigError::Unusable(path.clone()))?;
        files.push(path);
    }
    Ok(Read { places: Places { origin: places.origin, files }, merged, absent })
}

impl Read {
    /// Whether the files say nothing: then kubectl asks the pod's account.
    fn is_empty(&self) -> bool {
        let Kubeconfig { clusters, auth_infos, contexts, current_context, .. } = &self.merged;
        clusters.is_empty()
            && auth_infos.is_empty()
            && contexts.is_empty()
            && current_context.is_none()
    }

    async fn access(self, context: Option<&str>) -> Result<HubConfig, HubConfigError> {
        let Self { places: Places { origin, files }, merged, absent } = self;
        let listed = list(&files);
        let name = context.map(str::to_owned).or_else(|| merged.current_context.clone());
        let name = name.ok_or_else(|| HubConfigError::NoContext(listed.clone()))?;
        if !merged.contexts.iter().any(|known| known.name == name) {
            let known: Vec<_> = merged.contexts.iter().map(|it| it.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(HubConfigError::UnknownContext { name, files: listed, known });
        }
        let options =
            KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(merged, &options).await;
        let config = config.map_err(|error| HubConfigError::Context {
            name: name.clone(),
            files: listed,
            why: unusable(&error),
        })?;
        Ok(HubConfig { config: tuned(config), origin, files, absent, context: Some(name) })
    }
}

/// Finds the way to the hub. Nothing is asked of it yet.
pub async fn find(given: &HubOptions) -> Result<HubConfig, HubConfigError> {
    let read = places(given).map(read).transpose()?;
    let context = given.context.as_deref();
    let (files, absent) = match read {
        // A named file that says nothing is no reason to go elsewhere.
        Some(read) if !read.is_empty() || read.places.origin == Origin::Flag => {
            return read.access(context).await;
        }
        Some(read) => (read.places.files, read.absent),
        None => (Vec::new(), Vec::new()),
    };
    let kubeconfig = match (absent.is_empty(), files.is_empty()) {
        (true, true) => "there is no kubeconfig".to_owned(),
        (false, _) => format!("{} does not exist", list(&absent)),
        (true, false) => format!("{} is empty", list(&files)),
    };
    match Config::incluster() {
        Ok(_) if context.is_some() => {
            Err(HubConfigError::NowhereForContext(context.unwrap_or_default().to_owned()))
        }
        Ok(config) => Ok(HubConfig {
            config: tuned(config),
            origin: Origin::Pod,
            files: Vec::new(),
            absent,
            context: None,
        }),
        Err(InClusterError::ReadEnvironmentVariable(_)) => Err(HubConfigError::Nothing(kubeconfig)),
        Err(error) => Err(HubConfigError::Pod { kubeconfig, why: error.to_string() }),
    }
}

fn tuned(mut config: Config) -> Config {
    config.connect_timeout = Some(CONNECT);
    // Watches are silent for long; every other call has a deadline of its own.
    config.read_timeout = None;
    // What is tried again, and for how long, is said where it is asked.
    config.default_retry = false;
    config
}

/// Files for people.
pub fn list(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|path| Path::display(path).to_string()).collect();
    names.join(", ")
}

/// What is wrong with a context, without quoting its credentials (rule 14).
fn unusable(error: &KubeconfigError) -> String {
    let data = |what: &str, error: &LoadDataError| match error {
        LoadDataError::ReadFile(error, path) => {
            format!("{what} {} cannot be read: {error}", path.display())
        }
        _ => format!("{what} cannot be decoded"),
    };
    match error {
        KubeconfigError::LoadClusterOfContext(name) => format!("there is no cluster `{name}`"),
        KubeconfigError::MissingClusterUrl => "its cluster has no server".to_owned(),
        KubeconfigError::ParseClusterUrl(_) => "the server of its cluster is not a URL".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "its proxy is not a URL".to_owned(),
        KubeconfigError::LoadCertificateAuthority(error) => data("its authority", error),
        KubeconfigError::LoadClientCertificate(error) => data("its certificate", error),
        KubeconfigError::LoadClientKey(error) => data("its key", error),
        KubeconfigError::ParseCertificates(_) => "its authority is not PEM".to_owned(),
        _ => "it cannot be used; does kubectl accept it?".to_owned(),
    }
}

#[cfg(test)]
mod tests;
