//! The folder of a cluster: everything that survives a restart.
//!
//! ```text
//! cluster.json   shape and addresses of the cluster; the marker
//! state.json     the state of the world
//! ca.crt ca.key  the cluster's authority; kubernetes-ca.* that of Kubernetes
//! talosconfig    for the user; kubeconfig likewise
//! control.json   port and password of the running simulator
//! lock           held by the process that serves the folder
//! ```
//!
//! Files are written to a temporary name and renamed, readable by their owner only: most of them
//! hold keys.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::kubernetes::Kubernetes;
use crate::model::World;
use crate::pki::Pair;
use crate::schedule::Schedule;

const MARKER: &str = "cluster.json";
const STATE: &str = "state.json";
const CONTROL: &str = "control.json";

/// The name of the file that talosctl reads.
pub const TALOSCONFIG: &str = "talosconfig";

/// The name of the file that kubectl reads.
pub const KUBECONFIG: &str = "kubeconfig";

/// The file names of the authorities of Talos and of Kubernetes, without extension.
const TALOS_CA: &str = "ca";
const KUBERNETES_CA: &str = "kubernetes-ca";

/// The format version in every marker. Another number means another layout.
const FORMAT: u32 = 4;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It holds other files.
    #[error("{} is not empty and not a folder of this simulator", .0.display())]
    NotOurs(PathBuf),
    /// Another process holds its lock.
    #[error("{} is in use by another simulator", .0.display())]
    InUse(PathBuf),
    /// No simulator was ever started there.
    #[error("{} holds no simulated cluster", .0.display())]
    Missing(PathBuf),
    /// No simulator runs there.
    #[error("no simulator runs in {}", .0.display())]
    NotRunning(PathBuf),
    /// It was written by another version of the simulator.
    #[error("{} has format {found}; this simulator reads format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format in the file.
        found: u32,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The content of a file is invalid.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { what, path: path.to_owned(), source }
}

#[derive(Serialize, Deserialize)]
struct Marked<T> {
    format: u32,
    #[serde(flatten)]
    value: T,
}

/// A folder whose lock this process holds.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Whether this process created the folder.
    created: bool,
    /// Held while it is open.
    _lock: File,
}

impl Store {
    /// Opens a folder: an empty or missing one is set up, one of ours is reused, any other is
    /// refused.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let ours = path.join(MARKER).exists();
        if !ours && fs::read_dir(path).is_ok_and(|mut files| files.any(|file| !is_lock(&file))) {
            return Err(StoreError::NotOurs(path.to_owned()));
        }
        let created = !path.exists();
        fs::create_dir_all(path).map_err(io_error("create", path))?;
        let file = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&file)
            .map_err(io_error("open", &file))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &file)(source)),
        }
        Ok(Self { path: path.to_owned(), created, _lock: lock })
    }

    /// Undoes [`open`](Self::open) on a folder that did not get a marker.
    pub fn abandon(self) {
        if self.path.join(MARKER).exists() {
            return;
        }
        let _ = fs::remove_file(self.path.join("lock"));
        if self.created {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The marker; `None` in a new folder.
    pub fn marker<T: DeserializeOwned>(&self) -> Result<Option<T>, StoreError> {
        read_marker(&self.path)
    }

    /// Writes the marker: from now on the folder is a cluster's.
    pub fn set_marker<T: Serialize>(&self, value: &T) -> Result<(), StoreError> {
        let marked = Marked { format: FORMAT, value };
        write_json(&self.path.join(MARKER), &marked, true)
    }

    /// The saved state.
    pub fn state(&self) -> Result<Option<Restored>, StoreError> {
        read_json(&self.path.join(STATE))
    }

    /// Where the state is saved.
    pub fn state_file(&self) -> StateFile {
        StateFile { path: self.path.join(STATE), written: None }
    }

    /// The authority; `None` in a new folder.
    pub fn authority(&self) -> Result<Option<Pair>, StoreError> {
        read_authority(&self.path)
    }

    /// Stores the authority.
    pub fn set_authority(&self, pair: &Pair) -> Result<(), StoreError> {
        write_pair(&self.path, TALOS_CA, pair)
    }

    /// The authority of Kubernetes; `None` in a new folder.
    pub fn kubernetes_authority(&self) -> Result<Option<Pair>, StoreError> {
        read_pair(&self.path, KUBERNETES_CA)
    }

    /// Stores the authority of Kubernetes.
    pub fn set_kubernetes_authority(&self, pair: &Pair) -> Result<(), StoreError> {
        write_pair(&self.path, KUBERNETES_CA, pair)
    }

    /// Writes the kubeconfig.
    pub fn set_kubeconfig(&self, text: &str) -> Result<(), StoreError> {
        write(&self.path.join(KUBECONFIG), text.as_bytes())
    }

    /// Writes the talosconfig.
    pub fn set_talosconfig(&self, text: &str) -> Result<(), StoreError> {
        write(&self.path.join(TALOSCONFIG), text.as_bytes())
    }

    /// Writes the port and password of the running simulator.
    pub fn set_control<T: Serialize>(&self, value: &T) -> Result<(), StoreError> {
        write_json(&self.path.join(CONTROL), value, false)
    }

    /// Removes them.
    pub fn remove_control(&self) {
        // A stale file is harmless: its port no longer answers.
        let _ = fs::remove_file(self.path.join(CONTROL));
    }
}

fn is_lock(file: &io::Result<fs::DirEntry>) -> bool {
    file.as_ref().is_ok_and(|file| file.file_name() == "lock")
}

/// Reads the marker of a folder that another process may hold.
pub fn read_marker<T: DeserializeOwned>(folder: &Path) -> Result<Option<T>, StoreError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let path = folder.join(MARKER);
    match read_json::<Format>(&path)? {
        None => Ok(None),
        Some(Format { format: FORMAT }) => {
            Ok(read_json::<Marked<T>>(&path)?.map(|marked| marked.value))
        }
        Some(Format { format: found }) => Err(StoreError::Format { path, found }),
    }
}

/// Reads the port and password of the simulator that runs in a folder.
pub fn read_control<T: DeserializeOwned>(folder: &Path) -> Result<T, StoreError> {
    if !folder.join(MARKER).exists() {
        return Err(StoreError::Missing(folder.to_owned()));
    }
    read_json(&folder.join(CONTROL))?.ok_or_else(|| StoreError::NotRunning(folder.to_owned()))
}

/// Reads the authority of a folder.
pub fn read_authority(folder: &Path) -> Result<Option<Pair>, StoreError> {
    read_pair(folder, TALOS_CA)
}

fn write_pair(folder: &Path, name: &str, pair: &Pair) -> Result<(), StoreError> {
    write(&folder.join(format!("{name}.key")), pair.key.as_bytes())?;
    write(&folder.join(format!("{name}.crt")), pair.certificate.as_bytes())
}

fn read_pair(folder: &Path, name: &str) -> Result<Option<Pair>, StoreError> {
    let read = |ending: &str| {
        let path = folder.join(format!("{name}.{ending}"));
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    };
    let (key, certificate) = (read("key")?, read("crt")?);
    Ok(key.zip(certificate).map(|(key, certificate)| Pair { certificate, key }))
}

/// The saved state of a running cluster.
#[derive(Debug, Serialize)]
pub struct Saved<'a> {
    /// The cluster.
    pub world: &'a World,
    /// Faults that are due later.
    pub schedule: &'a Schedule,
    /// Its Kubernetes API.
    pub kubernetes: &'a Kubernetes,
}

/// The restored state.
#[derive(Debug, Deserialize)]
pub struct Restored {
    /// The cluster.
    pub world: World,
    /// Faults that are due later.
    pub schedule: Schedule,
    /// Its Kubernetes API.
    pub kubernetes: Kubernetes,
}

/// The file of a cluster's state.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// A digest of the last written state.
    written: Option<u64>,
}

impl StateFile {
    /// Writes the state, unless it has not changed.
    pub fn save(&mut self, saved: &Saved<'_>) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(saved)
            .map_err(|source| StoreError::Damaged { path: self.path.clone(), source })?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let digest = Some(hasher.finish());
        if digest != self.written {
            // It is written again and again, and a reader sees either the old or the new one: no
            // need to wait for the disk.
            replace(&self.path, &bytes, false)?;
            self.written = digest;
        }
        Ok(())
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read", path)(error)),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|source| StoreError::Damaged { path: path.to_owned(), source })
}

fn write_json<T: Serialize>(path: &Path, value: &T, pretty: bool) -> Result<(), StoreError> {
    let encoded = if pretty { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) };
    let bytes = encoded.map_err(|source| StoreError::Damaged { path: path.to_owned(), source })?;
    write(path, &bytes)
}

/// Writes a file atomically, readable by its owner only.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    replace(path, bytes, true)
}

fn replace(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new).map_err(io_error("create", &new))?;
    file.write_all(bytes).map_err(io_error("write", &new))?;
    if durable {
        file.sync_all().map_err(io_error("write", &new))?;
    }
    fs::rename(&new, path).map_err(io_error("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_ours_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let ours = folder.path().join("new/cluster");
        let store = Store::open(&ours).unwrap();
        assert_eq!(store.marker::<u8>().unwrap(), None);
        assert!(matches!(Store::open(&ours), Err(StoreError::InUse(_))));
        drop(store);
        // A start that failed early leaves only the lock; that folder is free.
        let store = Store::open(&ours).unwrap();
        store.set_marker(&serde_json::json!({"name": "a"})).unwrap();
        drop(store);
        let store = Store::open(&ours).unwrap();
        let marker: serde_json::Value = store.marker().unwrap().unwrap();
        assert_eq!(marker["name"], "a");

        let theirs = folder.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("notes.txt"), "x").unwrap();
        assert!(matches!(Store::open(&theirs), Err(StoreError::NotOurs(_))));
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1, "nothing was added");
    }

    #[test]
    fn damage_and_other_formats_are_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MARKER), "{").unwrap();
        let store = Store::open(folder.path()).unwrap();
        let error = store.marker::<serde_json::Value>().unwrap_err();
        assert!(error.to_string().ends_with("cluster.json is damaged"), "{error}");
        fs::write(folder.path().join(MARKER), r#"{"format": 9}"#).unwrap();
        let error = store.marker::<serde_json::Value>().unwrap_err();
        assert!(matches!(error, StoreError::Format { found: 9, .. }));
    }

    #[cfg(unix)]
    #[test]
    fn files_are_for_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
