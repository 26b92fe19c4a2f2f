//! The configuration of the cluster that a command is about: profile, flags, and the folder
//! with journals, plans and snapshots. Nothing here talks to the cluster.

use std::path::{Path, PathBuf};

use s3_snapshots::Address;
use talos_client::Talosconfig;
use upgrade_core::jiff::Timestamp;
use upgrade_core::policy::Policy;
use upgrade_core::reason::FailureKind;
use upgrade_engine::journal::{FileStore, Folder, Holder};
use upgrade_engine::snapshots::StoreError;
use upgrade_engine::store::Inherited;
use upgrade_live::LiveSnapshots;
use upgrade_view::RunResult;

use crate::args::{ClusterArgs, CommandLine, PolicyArgs};
use crate::error::CommandError;
use crate::profile::Profile;
use crate::render::words;
use crate::settings;
use crate::snapshot_store::{self, resolve};

/// A cluster as its user describes it, and its state folder.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The profile, if there is one.
    pub profile: Option<Profile>,
    /// The flags that name it.
    pub args: ClusterArgs,
    /// The state folder.
    pub state: PathBuf,
    /// The runs in it.
    pub runs: Folder,
}

impl ClusterConfig {
    /// Reads the profile, and finds the folder.
    pub fn load(args: &ClusterArgs) -> Result<Self, CommandError> {
        let profile = match &args.profile {
            Some(path) => Some(Profile::load(&with_ending(path))?),
            None => None,
        };
        let state = match (&args.state, &profile) {
            (Some(state), _) => state.clone(),
            (None, Some(profile)) => beside(&profile.path),
            (None, None) => by_name(args)?,
        };
        Ok(Self { profile, args: args.clone(), runs: Folder::new(&state), state })
    }

    /// The talosconfig that is named, if one is.
    pub fn talosconfig(&self) -> Option<&Path> {
        let profile = self.profile.as_ref().and_then(|profile| profile.talosconfig.as_deref());
        self.args.talosconfig.as_deref().or(profile)
    }

    /// The kubeconfig that is named, if one is.
    pub fn kubeconfig(&self) -> Option<&Path> {
        let profile = self.profile.as_ref().and_then(|profile| profile.kubeconfig.as_deref());
        self.args.kubeconfig.as_deref().or(profile)
    }

    /// The policy: flags first, else the profile's.
    pub fn policy(&self, flags: &PolicyArgs) -> Policy {
        let profile = self.profile.as_ref().map(|profile| profile.policy.clone());
        flags.over(profile.unwrap_or_default())
    }

    /// Where etcd snapshots go. A store that cannot be used prevents only what needs it.
    pub fn snapshots(&self, policy: &Policy) -> LiveSnapshots {
        match &policy.snapshot.dir {
            Some(address) if Address::is_meant(address) => {
                let beside = |path: &Path| self.beside(&path.to_string_lossy());
                let store = resolve(address, beside).and_then(snapshot_store::open);
                let unusable = |why: String| {
                    LiveSnapshots::Unusable(StoreError::new(FailureKind::Refused, &why))
                };
                store.map_or_else(unusable, LiveSnapshots::from)
            }
            Some(dir) => self.beside(dir).into(),
            None => self.state.join("snapshots").into(),
        }
    }

    /// A path of the policy: relative to the profile, if there is one.
    fn beside(&self, path: &str) -> PathBuf {
        self.profile.as_ref().map_or_else(|| PathBuf::from(path), |profile| profile.beside(path))
    }

    /// Refuses if another process drives the cluster (rule 9). The lock of a run guards that;
    /// this only saves the user a wait.
    pub fn refuse_if_driven(&self) -> Result<(), CommandError> {
        match self.runs.holder()? {
            None => Ok(()),
            Some(holder) => Err(CommandError::refused(
                format!("{} is already driving this cluster", words::process(&holder)),
                format!("see its progress with `{}`", self.command("status")),
            )),
        }
    }

    /// Whether a new plan may replace the last run. A halted run may always be replaced; a
    /// paused or interrupted one only if the user asked for it.
    pub fn may_replace(&self, wanted: bool) -> Result<bool, CommandError> {
        let Some(last) = self.runs.last()? else {
            return Ok(false);
        };
        match last.result()? {
            RunResult::Completed => Ok(false),
            RunResult::Halted { .. } => Ok(true),
            RunResult::Open if last.entries.is_empty() => Ok(true),
            RunResult::Paused { .. } | RunResult::Open if wanted => Ok(true),
            stands => Err(CommandError::refused(
                format!("the last run has not ended: {stands}"),
                format!(
                    "continue it with `{}`, or replace it with --new-plan",
                    self.command("resume")
                ),
            )),
        }
    }

    /// What the last run leaves to the next: cordons that are ours to lift (rule 7), and
    /// nodes that are armed, or may be (rule 5).
    pub fn left(&self) -> Result<Inherited, CommandError> {
        let last = self.runs.last()?;
        Ok(last.map(|last| last.left()).transpose()?.unwrap_or_default())
    }

    /// The run store, for this process to drive.
    pub fn store(&self, since: Timestamp) -> FileStore {
        FileStore { folder: self.runs.clone(), holder: Holder::this_process(since) }
    }

    /// A command for the same cluster, as a shell reads it.
    pub fn command(&self, verb: &str) -> String {
        let mut line = CommandLine::new(verb);
        self.args.repeat(&mut line);
        line.to_string()
    }

    /// The file by which another process requests a pause.
    pub fn pause_request(&self) -> PathBuf {
        self.state.join("pause")
    }
}

/// `prod` stands for `prod.yaml` if only that exists.
fn with_ending(path: &Path) -> PathBuf {
    if !path.exists() && path.extension().is_none() {
        for ending in ["yaml", "yml"] {
            let named = path.with_extension(ending);
            if named.exists() {
                return named;
            }
        }
    }
    path.to_owned()
}

/// The state of `clusters/prod.yaml` is in `clusters/prod.state`.
fn beside(profile: &Path) -> PathBuf {
    profile.with_extension("state")
}

/// Without a profile, the folder has the talosconfig's name for the cluster.
fn by_name(args: &ClusterArgs) -> Result<PathBuf, CommandError> {
    let next = "name a profile with --profile, or a talosconfig with --talosconfig and --context";
    let config = Talosconfig::load(args.talosconfig.as_deref());
    let context = config.and_then(|config| config.context(args.context.as_deref()));
    let context = context.map_err(|error| CommandError::caused_by(&error, next))?;
    let name = context.cluster.unwrap_or(context.name);
    let home = settings::state_home().ok_or_else(|| {
        let next = "name a folder with --state, or a profile with --profile";
        CommandError::refused("there is no folder for the state of the run: HOME is not set", next)
    })?;
    Ok(home.join(folder_name(&name)))
}

/// A name as a single folder: `admin@prod` stays readable, and no name leaves the parent.
fn folder_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_@.".contains(c);
    let name: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    match name.as_str() {
        "" | "." | ".." => "cluster".to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_folder_is_beside_the_profile() {
        assert_eq!(beside(Path::new("clusters/prod.yaml")), Path::new("clusters/prod.state"));
        assert_eq!(beside(Path::new("prod")), Path::new("prod.state"));
    }

    #[test]
    fn a_name_is_one_folder() {
        assert_eq!(folder_name("admin@prod"), "admin@prod");
        assert_eq!(folder_name("../a b"), ".._a_b");
        assert_eq!(folder_name(".."), "cluster");
    }

    #[test]
    fn the_resume_command_names_the_same_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("my prod.yaml");
        std::fs::write(&profile, "name: prod\npolicy: {snapshot: {dir: backups}}\n").unwrap();
        let args = ClusterArgs {
            profile: Some(folder.path().join("my prod")),
            context: Some("prod".to_owned()),
            ..ClusterArgs::default()
        };
        let config = ClusterConfig::load(&args).unwrap();
        assert_eq!(config.state, folder.path().join("my prod.state"));
        let command = config.command("resume");
        let path = folder.path().join("my prod").display().to_string();
        assert_eq!(command, format!("talos-operator resume --profile '{path}' --context prod"));
        let policy = config.policy(&PolicyArgs::default());
        let stores = |policy, folder: PathBuf| {
            let expected = LiveSnapshots::from(folder);
            assert_eq!(format!("{:?}", config.snapshots(policy)), format!("{expected:?}"));
        };
        stores(&policy, folder.path().join("backups"));
        stores(&Policy::default(), config.state.join("snapshots"));
        // A store without settings prevents only what needs it, and says what is missing.
        let mut policy = policy;
        policy.snapshot.dir = Some("s3://backups?ca-file=absent.pem&region=x".to_owned());
        let why = config.snapshots(&policy).check().unwrap_err().to_string();
        let beside = folder.path().join("absent.pem").display().to_string();
        assert!(why.contains("AWS_ACCESS_KEY_ID") || why.contains(&beside), "{why}");
        assert!(config.refuse_if_driven().is_ok());
        assert_eq!(config.may_replace(false), Ok(false));
    }
}
