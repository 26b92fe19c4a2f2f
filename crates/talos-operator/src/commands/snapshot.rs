//! `talos-operator snapshot`: an etcd snapshot, off the cluster and verified (rule 3).

use std::path::Path;

use s3_snapshots::Address;
use serde_json::json;
use upgrade_core::event::StepProgress;
use upgrade_core::journal::Proof;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::Role;
use upgrade_engine::io::{Io as _, Machines as _, ProgressSink};
use upgrade_engine::snapshots::take_from_any;

use super::runs::profile_policy;
use crate::Exit;
use crate::args::{Output, SnapshotArgs};
use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::session::Session;
use crate::snapshot_store;
use crate::usage::Usage;

/// Prints the progress of a snapshot.
struct Progress(Printer);

impl ProgressSink for Progress {
    fn report(&self, progress: StepProgress) {
        self.0.stderr(&(progress.message + "\n"));
    }
}

/// Takes an etcd snapshot and verifies it.
pub async fn snapshot(args: &SnapshotArgs, printer: Printer) -> Result<Exit, CommandError> {
    let config = ClusterConfig::load(&args.cluster)?;
    let mut policy: Policy = profile_policy(&config);
    if let Some(dir) = &args.dir {
        policy.snapshot.dir = Some(place(dir)?);
    }
    policy.snapshot.keep = args.keep.unwrap_or(policy.snapshot.keep);
    let session = Session::open(config, &policy).await?;
    store_is_usable(&session)?;
    let proof = take(&session, policy.snapshot.keep, printer).await?;
    let Proof::EtcdSnapshot { location: file, sha256, bytes } = &proof else {
        unreachable!("the proof of a snapshot is a snapshot");
    };
    printer.stdout(&match args.output.output {
        Output::Text => format!("{file}  {bytes} bytes  sha256 {sha256}\n"),
        Output::Json => {
            let value = json!({"format": 1, "file": file, "sha256": sha256, "bytes": bytes});
            serde_json::to_string(&value).expect("only strings are keys here") + "\n"
        }
    });
    Ok(Exit::Done)
}

/// A folder or an address. Paths are relative to the working directory, not to the profile.
fn place(dir: &Path) -> Result<String, CommandError> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(address) = dir.to_str().filter(|text| Address::is_meant(text)) else {
        return Ok(absolute(dir).display().to_string());
    };
    let address = snapshot_store::resolve(address, absolute)
        .map_err(|why| Usage::new(format!("--dir: {why}"), snapshot_store::EXAMPLE))?;
    Ok(address.to_string())
}

/// Refuses before anything is asked of the cluster.
pub(super) fn store_is_usable(session: &Session) -> Result<(), CommandError> {
    session.live.snapshots().check().map_err(|error| {
        let next = "or name a folder: `snapshot: {dir: ...}` in the profile's policy, or --dir";
        CommandError::refused(format!("etcd snapshots cannot be stored: {error}"), next)
    })
}

async fn take(session: &Session, keep: usize, printer: Printer) -> Result<Proof, CommandError> {
    let next = "check `talos-operator health`, then retry";
    let (cluster, machines) = session.live.machines().list().await.map_err(|error| {
        CommandError::refused(format!("cannot observe the cluster: {error}"), next)
    })?;
    let members = machines.into_iter().filter(|machine| machine.role == Role::ControlPlane);
    let (members, progress) = (members.collect(), Progress(printer));
    let taken = take_from_any(&*session.live, &cluster, members, keep, &progress, || Ok(())).await;
    taken.map_err(|failure| {
        CommandError::refused(format!("no etcd snapshot was taken: {failure}"), next)
    })
}
