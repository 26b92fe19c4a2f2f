//! `health`, `version` and `snapshot`: commands that look, and change nothing.


use serde_json::json;
use upgrade_core::event::StepProgress;
use upgrade_core::journal::Proof;
use upgrade_core::observation::Observation;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::Role;
use upgrade_engine::io::{Io as _, Machines as _, ProgressSink};
use upgrade_engine::snapshots::take_from_any;

use super::runs::usual;
use crate::Exit;
use crate::args::{HealthArgs, Output, SnapshotArgs, VersionArgs};
use crate::failed::Failed;
use crate::place::Place;
use crate::printer::Printer;
use crate::render;
use crate::session::Session;

/// How a cluster does.
pub async fn health(args: &HealthArgs, printer: Printer) -> Result<Exit, Failed> {
    let place = Place::find(&args.cluster)?;
    let policy = usual(&place);
    let session = Session::open(place, &policy).await?;
    let Observation { snapshot, workloads, .. } = session.look().await?;
    let checks = upgrade_planner::health(&snapshot, &workloads);
    printer.stdout(&match args.output.output {
        Output::Text => render::health::text(&snapshot.cluster, &checks),
        Output::Json => render::health::json(&snapshot.cluster, &checks),
    });
    Ok(if render::health::is_well(&checks) { Exit::Done } else { Exit::Refused })
}

/// What this program is, and what the cluster runs.
pub async fn version(args: &VersionArgs, printer: Printer) -> Result<Exit, Failed> {
    let snapshot = if args.client {
        None
    } else {
        let place = Place::find(&args.cluster)?;
        let policy = usual(&place);
        Some(Session::open(place, &policy).await?.snapshot().await?)
    };
    printer.stdout(&match args.output.output {
        Output::Text => render::health::versions(snapshot.as_ref()),
        Output::Json => render::health::versions_json(snapshot.as_ref()),
    });
    Ok(Exit::Done)
}

/// Says how far a snapshot is.
struct Aloud(Printer);

impl ProgressSink for Aloud {
    fn report(&self, progress: StepProgress) {
        self.0.stderr(&(progress.message + "\n"));
    }
}

/// Takes an etcd snapshot off the cluster, and verifies it.
pub async fn snapshot(args: &SnapshotArgs, printer: Printer) -> Result<Exit, Failed> {
    let place = Place::find(&args.cluster)?;
    let mut policy: Policy = usual(&place);
    if let Some(dir) = &args.dir {
        // As the caller means it, not relative to the profile.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        policy.snapshot.dir = Some(dir.display().to_string());
    }
    policy.snapshot.keep = args.keep.unwrap_or(policy.snapshot.keep);
    let session = Session::open(place, &policy).await?;
    let proof = take(&session, policy.snapshot.keep, printer).await?;
    let Proof::EtcdSnapshot { location: file, sha256, bytes } = &proof else {
        unreachable!("what was taken is a snapshot");
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

async fn take(session: &Session, keep: usize, printer: Printer) -> Result<Proof, Failed> {
    let next = "check `talos-operator health`, and try again";
    let (cluster, machines) = session.live.machines().list().await.map_err(|trouble| {
        Failed::refused(format!("the cluster cannot be seen: {trouble}"), next)
    })?;
    let members = machines.into_iter().filter(|machine| machine.role == Role::ControlPlane);
    let (members, progress) = (members.collect(), Aloud(printer));
    let taken = take_from_any(&*session.live, &cluster, members, keep, &progress, || Ok(())).await;
    taken.map_err(|failure| Failed::refused(format!("no etcd snapshot was taken: {failure}"), next))
}
