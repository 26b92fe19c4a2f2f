//! The locations of the programs, from the environment.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Component, Error};

/// The paths of the programs of a control plane.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The database.
    pub etcd: PathBuf,
    /// The API server.
    pub kube_apiserver: PathBuf,
    /// The controllers.
    pub kube_controller_manager: PathBuf,
    /// The scheduler.
    pub kube_scheduler: PathBuf,
    /// The client, used for readiness checks.
    pub kubectl: PathBuf,
}

impl Tools {
    /// Takes each path from the variable that `cargo xtask test` sets (`TALOS_OPERATOR_TOOL_ETCD`
    /// and so on), or from the user's cache, which `cargo xtask tools` fills.
    pub fn find() -> Result<Self, Error> {
        Ok(Self {
            etcd: find_tool("etcd")?,
            kube_apiserver: find_tool("kube-apiserver")?,
            kube_controller_manager: find_tool("kube-controller-manager")?,
            kube_scheduler: find_tool("kube-scheduler")?,
            kubectl: find_tool("kubectl")?,
        })
    }

    pub(crate) fn of(&self, component: Component) -> &Path {
        match component {
            Component::Etcd => &self.etcd,
            Component::ApiServer => &self.kube_apiserver,
            Component::ControllerManager => &self.kube_controller_manager,
            Component::Scheduler => &self.kube_scheduler,
        }
    }
}

/// The path of a real tool, by its name in `cargo xtask tools`: the file in its variable, or the
/// newest in the user's cache.
pub fn find_tool(name: &str) -> Result<PathBuf, Error> {
    let variable = format!("TALOS_OPERATOR_TOOL_{}", name.to_uppercase().replace(['-', '.'], "_"));
    if let Some(named) = environment(&variable) {
        return Ok(PathBuf::from(named));
    }
    let cached = cache().and_then(|cache| newest(&cache, name));
    cached.ok_or_else(|| Error::ToolMissing { name: name.to_owned(), variable })
}

/// The cache of `cargo xtask tools`; a relative `XDG_CACHE_HOME` is ignored.
fn cache() -> Option<PathBuf> {
    let cache = environment("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || environment("HOME").map(|home| PathBuf::from(home).join(".cache"));
    Some(cache.or_else(home)?.join("talos-operator/tools"))
}

/// The latest build: the folders are named after the tool, its version and a hash. A version starts
/// with a digit, so `etcd` does not match `etcd-x`.
fn newest(cache: &Path, name: &str) -> Option<PathBuf> {
    // Several minors of one tool have a file of the same name.
    let binary = if name.starts_with("talosctl-") { "talosctl" } else { name };
    let ours = |folder: &OsString| {
        let folder = folder.to_string_lossy();
        let rest = folder.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    fs::read_dir(cache)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| ours(&entry.file_name()))
        .map(|entry| entry.path().join(binary))
        .filter(|path| path.is_file())
        .max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok())
}

/// An empty variable counts as unset.
#[expect(clippy::disallowed_methods, reason = "the one place where this crate reads settings")]
fn environment(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_by_its_complete_name() {
        let cache = tempfile::tempdir().expect("a folder");
        for folder in ["etcd-extra-1.0.0-a", "etcd-3.6.16-0123", "etcd-3.6.17-empty"] {
            fs::create_dir(cache.path().join(folder)).expect("a folder");
        }
        assert_eq!(newest(cache.path(), "etcd"), None);
        for folder in ["etcd-extra-1.0.0-a", "etcd-3.6.16-0123"] {
            fs::write(cache.path().join(folder).join("etcd"), "").expect("a file");
        }
        assert_eq!(newest(cache.path(), "etcd"), Some(cache.path().join("etcd-3.6.16-0123/etcd")));
    }
}
