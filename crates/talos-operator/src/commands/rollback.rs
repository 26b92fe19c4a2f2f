//! `talos-operator rollback`: one node, or an unfinished Kubernetes upgrade.

use std::sync::Arc;

use upgrade_core::intent::Intent;
use upgrade_core::plan::Plan;
use upgrade_core::snapshot::NodeName;
use upgrade_planner::installer::schematic_of;
use upgrade_planner::rollback::{RollbackRequest, Way};

use super::upgrade::confirmed;
use crate::Exit;
use crate::advice;
use crate::args::RollbackArgs;
use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;
use crate::intent;
use crate::planning::{self, Past};
use crate::printer::Printer;
use crate::release_data::ReleaseData;
use crate::render;
use crate::rollback::{self, Before};
use crate::session::Session;

/// Rolls back.
pub async fn rollback(args: &RollbackArgs, printer: Printer) -> Result<Exit, CommandError> {
    let data = ReleaseData::load(&args.data)?;
    let config = ClusterConfig::load(&args.cluster)?;
    config.refuse_if_driven()?;
    // An unfinished run never blocks a rollback (rule 12).
    let replace = config.may_replace(true)?;
    match &args.node {
        Some(node) => {
            one_node(args, &NodeName(node.clone()), config, replace, &data, printer).await
        }
        None => kubernetes(args, config, replace, &data, printer).await,
    }
}

async fn one_node(
    args: &RollbackArgs,
    node: &NodeName,
    config: ClusterConfig,
    replace: bool,
    data: &ReleaseData,
    printer: Printer,
) -> Result<Exit, CommandError> {
    let policy = config.policy(&args.policy);
    let session = Session::open(config, &policy).await?;
    let snapshot = session.snapshot().await?;
    let Some(observed) = snapshot.nodes.get(node) else {
        let names: Vec<_> = snapshot.nodes.keys().map(ToString::to_string).collect();
        return Err(CommandError::refused(
            format!("there is no node {node}"),
            format!("the nodes are {}", names.join(", ")),
        ));
    };
    let running = observed.talos.as_result().map_err(|why| {
        CommandError::refused(
            format!("cannot observe {node}: {why}"),
            "restore the connection; nothing is done to a node that cannot be observed",
        )
    })?;
    let past = Past::of(&session, replace)?;
    if intent::held(session.config.profile.as_ref()).contains_key(node) {
        let text = format!("{node} is held in the profile; it is rolled back because you named it");
        printer.stderr(&render::warning(&text));
    }
    if args.image.is_none()
        && let Some(refusal) = upgrade_planner::no_slot(node, &snapshot, &past.armed)
    {
        return Err(CommandError::refused(refusal.to_string(), advice::text(&refusal.advice())));
    }
    let remembered = rollback::before(&plans(&session)?, node, &running.version);
    let way = wanted(args, node, remembered)?;
    let request =
        RollbackRequest { snapshot: &snapshot, node, way, policy: &policy, matrix: &data.matrix };
    let prepared = upgrade_planner::prepare_rollback(&request, past.earlier());
    let answer = planning::of(prepared, |_| None);
    confirmed(&session, answer, &snapshot, replace, args.yes, &args.run, printer).await
}

/// The plans of all stored runs, newest first.
fn plans(session: &Session) -> Result<Vec<Arc<Plan>>, CommandError> {
    Ok(session.config.runs.runs()?.into_iter().map(|run| run.plan).collect())
}

/// The way to roll back: by the flags, else by the journal.
fn wanted(
    args: &RollbackArgs,
    node: &NodeName,
    remembered: Option<Before>,
) -> Result<Way, CommandError> {
    if let Some(image) = &args.image {
        return Ok(Way::Image(image.clone()));
    }
    let slot = |before: Before| {
        let schematic = before.image.as_ref().and_then(schematic_of).map(ToOwned::to_owned);
        Way::Slot { version: before.version, schematic }
    };
    match (&args.to, remembered) {
        (Some(to), Some(before)) if before.version == *to => Ok(slot(before)),
        (Some(to), _) => Ok(Way::Slot { version: to.clone(), schematic: None }),
        (None, Some(before)) => Ok(slot(before)),
        (None, None) => Err(CommandError::refused(
            format!("the stored runs have no upgrade of {node} to the version that it runs"),
            "name the version in its other slot with --to, or an image to install with --image",
        )),
    }
}

async fn kubernetes(
    args: &RollbackArgs,
    config: ClusterConfig,
    replace: bool,
    data: &ReleaseData,
    printer: Printer,
) -> Result<Exit, CommandError> {
    let policy = config.policy(&args.policy);
    let session = Session::open(config, &policy).await?;
    let seen = session.observe().await?;
    let snapshot = &seen.snapshot;
    let Some(target) = rollback::unfinished_from(snapshot) else {
        return Err(CommandError::refused(
            "every Kubernetes component runs the same version; there is nothing to roll back",
            "a finished Kubernetes upgrade cannot be rolled back a minor; restore an etcd snapshot instead",
        ));
    };
    let nodes = intent::held(session.config.profile.as_ref());
    let intent = Intent { kubernetes: Some(target), rollback: true, nodes, ..Intent::default() };
    let past = Past::of(&session, replace)?;
    let answer = planning::answer(&seen, &intent, &policy, data, &past, |_| None);
    confirmed(&session, answer, snapshot, replace, args.yes, &args.run, printer).await
}
