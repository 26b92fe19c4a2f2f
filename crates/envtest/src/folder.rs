//! The folder of a control plane.
//!
//! One file marks the folder as ours and is the lock that its owner holds. The others are secrets
//! and certificates, which are permanent; logs, which grow; and the list of processes, which exists
//! while they run.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{About as _, Error};
use crate::ports::Ports;
use crate::{Component, credentials};

const MARKER: &str = "talos-operator-control-plane";

const EXPLANATION: &str = "A control plane for tests lives here, see docs/tools.md of talos-operator.\n\
     The folder can be deleted once `cargo xtask cluster down` has stopped it.\n";

/// The user with all permissions.
pub(crate) const ADMIN: &str = "admin";

/// A folder that belongs to a control plane.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// The right to start, watch and stop the components of a folder. The system releases it when its
/// holder dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The admin's access. The files stay valid when the control plane is started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the API server.
    pub url: String,
    /// A kubeconfig that references none of the other files.
    pub kubeconfig: PathBuf,
    /// A file that contains only the token.
    pub token: PathBuf,
    /// The certificate authority of the API server.
    pub authority: PathBuf,
}

/// The processes of a folder, as last recorded by its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The process that owns them; `None` if they run without one.
    pub(crate) owner: Option<u32>,
    /// In start order.
    pub(crate) processes: Vec<(Component, u32)>,
}

impl Folder {
    /// Claims a missing or empty folder, or opens one of ours.
    pub(crate) fn claim(path: &Path) -> Result<Self, Error> {
        // The folder contains tokens and keys.
        DirBuilder::new().recursive(true).mode(0o700).create(path).about(path)?;
        if let Some(folder) = Self::open(path)? {
            return Ok(folder);
        }
        let path = path.canonicalize().about(path)?;
        let folder = Self { path };
        // Not through a rename: two processes that both find the folder empty have to lock the same
        // file.
        let marker = folder.file(MARKER);
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&marker)
            .and_then(|mut file| file.write_all(EXPLANATION.as_bytes()))
            .about(marker)?;
        for path in [folder.certificates(), folder.logs()] {
            fs::create_dir_all(&path).about(path)?;
        }
        Ok(folder)
    }

    /// Opens a folder of ours; `None` if it is missing or empty.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Error> {
        let mut entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).about(path),
        };
        if path.join(MARKER).is_file() {
            let folder = Self { path: path.canonicalize().about(path)? };
            // The process that created it may have been killed right then.
            for path in [folder.certificates(), folder.logs()] {
                fs::create_dir_all(&path).about(path)?;
            }
            return Ok(Some(folder));
        }
        // Check in this order: a folder that another process claims meanwhile looks foreign for a
        // moment at worst.
        match entries.next() {
            None => Ok(None),
            Some(_) => Err(Error::ForeignFolder { folder: path.to_owned() }),
        }
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Result<Lock, Error> {
        let marker = self.file(MARKER);
        let file = OpenOptions::new().append(true).open(&marker).about(&marker)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let owner = self.record()?.owner.map_or("?".to_owned(), |pid| pid.to_string());
                Err(Error::Busy { folder: self.path.clone(), owner })
            }
            Err(TryLockError::Error(error)) => Err(error).about(marker),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.file("etcd")
    }

    pub(crate) fn certificates(&self) -> PathBuf {
        self.file("certificates")
    }

    /// The certificate that a component created for itself, followed by its issuer's, whose key was
    /// discarded.
    pub(crate) fn certificate_of(&self, component: Component) -> PathBuf {
        let name = match component {
            Component::ApiServer => "apiserver",
            Component::Etcd | Component::ControllerManager | Component::Scheduler => {
                component.name()
            }
        };
        self.certificates().join(format!("{name}.crt"))
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.file("tokens.csv")
    }

    /// The file with the admin's token.
    pub(crate) fn admin_token(&self) -> PathBuf {
        self.file("admin.token")
    }

    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.file("service-account.key")
    }

    /// The admin's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    pub(crate) fn access(&self, ports: Ports) -> Access {
        Access {
            url: Component::ApiServer.url(ports),
            kubeconfig: self.kubeconfig(),
            token: self.admin_token(),
            authority: self.certificate_of(Component::ApiServer),
        }
    }

    pub(crate) fn kubeconfig_of(&self, component: Component) -> PathBuf {
        self.file(&format!("{component}.kubeconfig"))
    }

    fn logs(&self) -> PathBuf {
        self.file("logs")
    }

    pub(crate) fn log_of(&self, component: Component) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// kubectl's discovery cache. The default one is keyed by address, and another cluster may
    /// reuse the same port.
    pub(crate) fn kubectl_cache(&self) -> PathBuf {
        self.file("kubectl-cache")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates missing secrets. Existing ones stay: objects in the database are signed with them.
    pub(crate) fn ensure_secrets(&self) -> Result<(), Error> {
        let key = self.service_account_key();
        if !key.exists() {
            write_secret(&key, &credentials::signing_key()?)?;
        }
        let tokens = self.tokens();
        if !tokens.exists() {
            let line = |user: &str, groups: &str| {
                Ok(format!("{},{user},{user},{groups}\n", credentials::token()?))
            };
            // The bootstrap roles grant the components their permissions.
            let text = [
                line(ADMIN, "system:masters")?,
                line(&user_of(Component::ControllerManager), "")?,
                line(&user_of(Component::Scheduler), "")?,
            ];
            write_secret(&tokens, &text.concat())?;
        }
        let admin = self.admin_token();
        if !admin.exists() {
            write_secret(&admin, &self.token(ADMIN)?)?;
        }
        Ok(())
    }

    /// The token of a user.
    pub(crate) fn token(&self, user: &str) -> Result<String, Error> {
        let path = self.tokens();
        let text = fs::read_to_string(&path).about(&path)?;
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let found = lines.find(|fields| fields.get(1) == Some(&user));
        let missing = || io::Error::new(io::ErrorKind::InvalidData, format!("no token of {user}"));
        found.map(|fields| fields[0].to_owned()).ok_or_else(missing).about(path)
    }

    /// The API server's certificate.
    pub(crate) fn authority(&self) -> Result<String, Error> {
        let path = self.certificate_of(Component::ApiServer);
        fs::read_to_string(&path).about(path)
    }

    /// Writes all kubeconfigs. The API server's certificate has to exist.
    pub(crate) fn write_kubeconfigs(&self, ports: Ports) -> Result<(), Error> {
        let url = Component::ApiServer.url(ports);
        let authority = self.authority()?;
        let write = |path: PathBuf, user: &str| {
            let token = self.token(user)?;
            write_secret(&path, &credentials::kubeconfig(&url, &authority, user, &token))
        };
        write(self.kubeconfig(), ADMIN)?;
        for component in [Component::ControllerManager, Component::Scheduler] {
            write(self.kubeconfig_of(component), &user_of(component))?;
        }
        Ok(())
    }

    /// The ports of the last run.
    pub(crate) fn ports(&self) -> Result<Option<Ports>, Error> {
        Ok(read(&self.file("ports"))?.as_deref().and_then(Ports::from_text))
    }

    pub(crate) fn keep_ports(&self, ports: Ports) -> Result<(), Error> {
        write_secret(&self.file("ports"), &ports.to_text())
    }

    pub(crate) fn record(&self) -> Result<Record, Error> {
        Ok(read(&self.file("processes"))?.map(|text| Record::from_text(&text)).unwrap_or_default())
    }

    /// Records the processes. An empty list means that all are stopped.
    pub(crate) fn keep_record(&self, record: &Record) -> Result<(), Error> {
        let path = self.file("processes");
        if *record != Record::default() {
            return write_secret(&path, &record.to_text());
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).about(path),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// The user name of a component at the API server.
fn user_of(component: Component) -> String {
    format!("system:{component}")
}

impl Record {
    fn to_text(&self) -> String {
        let Self { owner, processes } = self;
        let owner = owner.map(|pid| format!("owner {pid}\n"));
        let processes = processes.iter().map(|(component, pid)| format!("{component} {pid}\n"));
        owner.into_iter().chain(processes).collect()
    }

    fn from_text(text: &str) -> Self {
        let mut record = Self::default();
        for (name, pid) in text.lines().filter_map(|line| line.split_once(' ')) {
            match (Component::from_name(name), pid.parse()) {
                (Some(component), Ok(pid)) => record.processes.push((component, pid)),
                (None, Ok(pid)) if name == "owner" => record.owner = Some(pid),
                _ => {}
            }
        }
        record
    }
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).about(path),
    }
}

/// Writes the file atomically, readable only by its owner.
fn write_secret(path: &Path, text: &str) -> Result<(), Error> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".new");
    let partial = PathBuf::from(partial);
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&partial)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .about(&partial)?;
    fs::rename(&partial, path).about(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_files_is_refused_and_untouched() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("thesis.txt");
        fs::write(&file, "years of work").expect("a file");
        for result in [Folder::claim(root.path()).map(Some), Folder::open(root.path())] {
            assert!(matches!(result, Err(Error::ForeignFolder { .. })), "{result:?}");
        }
        let left: Vec<_> = fs::read_dir(root.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn a_folder_has_one_owner() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("new/folder");
        assert!(Folder::open(&path).expect("missing is fine").is_none());
        let folder = Folder::claim(&path).expect("a new folder");
        let lock = folder.try_lock().expect("the lock is free");
        folder.keep_record(&Record { owner: Some(7), processes: vec![] }).expect("written");

        let same = Folder::claim(&path).expect("ours already");
        let error = same.try_lock().expect_err("taken").to_string();
        assert!(error.ends_with("is in use by process 7"), "{error}");
        drop(lock);
        same.try_lock().expect("free again");
    }

    #[test]
    fn secrets_are_kept() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::claim(root.path()).expect("an empty folder");
        folder.ensure_secrets().expect("made");
        let token = folder.token(ADMIN).expect("a token");
        folder.ensure_secrets().expect("there");
        assert_eq!(folder.token(ADMIN).expect("a token"), token);
        assert_eq!(fs::read_to_string(folder.admin_token()).expect("a file"), token);
        assert_ne!(folder.token("system:kube-scheduler").expect("a token"), token);
        assert!(folder.token("nobody").is_err());
    }

    #[test]
    fn records_survive_a_round_trip() {
        let processes = vec![(Component::Etcd, 5), (Component::ApiServer, 6)];
        let record = Record { owner: Some(4), processes };
        assert_eq!(Record::from_text(&record.to_text()), record);
        assert_eq!(Record::from_text("etcd five\nother 1\n"), Record::default());
    }
}
