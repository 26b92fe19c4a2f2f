//! `talos-operator version`: this program, and the versions that the cluster runs.

use super::runs::profile_policy;
use crate::Exit;
use crate::args::{Output, VersionArgs};
use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::render;
use crate::session::Session;

/// Shows versions.
pub async fn version(args: &VersionArgs, printer: Printer) -> Result<Exit, CommandError> {
    let snapshot = if args.client {
        None
    } else {
        let config = ClusterConfig::load(&args.cluster)?;
        let policy = profile_policy(&config);
        Some(Session::open(config, &policy).await?.snapshot().await?)
    };
    printer.stdout(&match args.output.output {
        Output::Text => render::health::versions(snapshot.as_ref()),
        Output::Json => render::health::versions_json(snapshot.as_ref()),
    });
    Ok(Exit::Done)
}
