//! `talos-operator health`: every check of the cluster, and the verdict.

use upgrade_core::observation::Observation;

use super::runs::profile_policy;
use crate::Exit;
use crate::args::{HealthArgs, Output};
use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::render;
use crate::session::Session;

/// Shows cluster health.
pub async fn health(args: &HealthArgs, printer: Printer) -> Result<Exit, CommandError> {
    let config = ClusterConfig::load(&args.cluster)?;
    let policy = profile_policy(&config);
    let session = Session::open(config, &policy).await?;
    let Observation { snapshot, workloads, .. } = session.observe().await?;
    let checks = upgrade_planner::health(&snapshot, &workloads);
    printer.stdout(&match args.output.output {
        Output::Text => render::health::text(&snapshot.cluster, &checks),
        Output::Json => render::health::json(&snapshot.cluster, &checks),
    });
    Ok(if render::health::is_well(&checks) { Exit::Done } else { Exit::Refused })
}
