//! A cluster profile: a file about a cluster that its user keeps under version control.
//!
//! ```yaml
//! name: prod
//! talosconfig: ./talosconfig
//! kubeconfig: ./kubeconfig        # optional; else fetched through Talos
//! talos:
//!   version: "1.12.11"
//!   kubernetes_version: "1.34.2"
//!   factory: {url: "https://factory.talos.dev", schematic_id: "3765..."}
//!   image: registry.lan/talos/installer   # optional; your own, instead of a factory's
//!   keep_extensions: true                 # it has the nodes' extensions
//! policy: {order: control-planes-first, workers: {max_unavailable: 2}}
//! nodes:                                  # what is different for single nodes
//!   gpu-1: {hold: true}
//!   edge-1: {version: "1.12.11"}
//! ```
//!
//! It is read strictly, and every problem has its line. After a run its versions are replaced
//! by the running ones; every other byte stays as it was.

mod check;
mod document;
mod problem;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use upgrade_core::image::ImageRef;
use upgrade_core::intent::NodeIntent;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;

pub use problem::{Problem, ProfileError};
pub use write::Written;

/// The largest profile; one with a page of comments has a few kilobytes.
const LARGEST: u64 = 1 << 20;

/// A valid profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its path.
    pub path: PathBuf,
    /// The name of the cluster.
    pub name: String,
    /// The talosconfig, if it is named.
    pub talosconfig: Option<PathBuf>,
    /// The kubeconfig, if it is named.
    pub kubeconfig: Option<PathBuf>,
    /// The Talos that runs, or is wanted.
    pub talos: Option<Version>,
    /// The Kubernetes that runs, or is wanted.
    pub kubernetes: Option<Version>,
    /// The Image Factory.
    pub factory_url: Option<String>,
    /// The schematic that runs.
    pub schematic: Option<String>,
    /// An installer image of the user, if one is named.
    pub image: Option<ImageRef>,
    /// Whether that image has the nodes' extensions.
    pub keep_extensions: bool,
    /// The policy of upgrades.
    pub policy: Policy,
    /// The intents of single nodes.
    pub nodes: BTreeMap<NodeName, NodeIntent>,
}

impl Profile {
    fn empty(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            name: String::new(),
            talosconfig: None,
            kubeconfig: None,
            talos: None,
            kubernetes: None,
            factory_url: None,
            schematic: None,
            image: None,
            keep_extensions: false,
            policy: Policy::default(),
            nodes: BTreeMap::new(),
        }
    }

    /// Reads a profile.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        Self::parse(path, &read(path)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ProfileError> {
        let bad = |problems| ProfileError::Bad { path: path.to_owned(), problems };
        let root = document::parse(text).map_err(|problem| bad(vec![problem]))?;
        check::check(path, root.as_ref()).map_err(bad)
    }

    /// A path as the profile means it: relative to its own folder.
    pub fn beside(&self, path: &str) -> PathBuf {
        beside(&self.path, path)
    }

    /// Updates the versions, and returns whether any was different. The file is read again
    /// first: its author may have edited it in the meantime.
    pub fn write_back(&self, written: &Written) -> Result<bool, ProfileError> {
        let text = read(&self.path)?;
        let new = write::replace(&text, written)
            .map_err(|what| ProfileError::Changed { path: self.path.clone(), what })?;
        if new == text {
            return Ok(false);
        }
        write::store(&self.path, &new)?;
        Ok(true)
    }
}

fn beside(profile: &Path, path: &str) -> PathBuf {
    // An absolute path replaces the folder; that is what `join` does. Without
    // its `./` a path reads better in messages.
    profile.parent().unwrap_or(Path::new("")).join(path).components().collect()
}

fn read(path: &Path) -> Result<String, ProfileError> {
    let fail = |error| ProfileError::Read { path: path.to_owned(), error };
    let size = fs::metadata(path).map_err(fail)?.len();
    if size > LARGEST {
        return Err(fail(std::io::Error::other("it is larger than 1 MiB")));
    }
    fs::read_to_string(path).map_err(fail)
}

#[cfg(test)]
mod tests;
