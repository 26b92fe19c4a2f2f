//! `talos-operator rollback`: one node, or a Kubernetes hop that did not end.

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
use crate::data::ReleaseData;
use crate::failed::Failed;
use crate::place::Place;
use crate::planning::{self, Past};
use crate::printer::Printer;
use crate::render;
use crate::rollback::{self, Before};
use crate::session::Session;
use crate::wish;

/// Goes back.
pub async fn rollback(args: &RollbackArgs, printer: Printer) -> Result<Exit, Failed> {
    let data = ReleaseData::load(&args.data)?;
    let place = Place::find(&args.cluster)?;
    place.nobody_drives()?;
    // A way back is never held up by a run that did not end (rule 12).
    let replace = place.may_replace(true)?;
    match &args.node {
        Some(node) => one_node(args, &NodeName(node.clone()), place, replace, &data, printer).await,
        None => kubernetes(args, place, replace, &data, printer).await,
    }
}

async fn one_node(
    args: &RollbackArgs,
    node: &NodeName,
    place: Place,
    replace: bool,
    data: &ReleaseData,
    printer: Printer,
) -> Result<Exit, Failed> {
    let policy = place.policy(&args.pace);
    let session = Session::open(place, &policy).await?;
    let snapshot = session.snapshot().await?;
    let Some(observed) = snapshot.nodes.get(node) else {
        let names: Vec<_> = snapshot.nodes.keys().map(ToString::to_string).collect();
        return Err(Failed::refused(
            format!("there is no node {node}"),
            format!("the nodes are {}", names.join(", ")),
        ));
    };
    let running = observed.talos.as_result().map_err(|why| {
        Failed::refused(
            format!("{node} cannot be seen: {why}"),
            "mend the connection; nothing is done to a node that cannot be seen",
        )
    })?;
    let past = Past::of(&session, replace)?;
    if wish::held(session.place.profile.as_ref()).contains_key(node) {
        let text = format!("{node} is held in the profile; it goes back since you named it");
        printer.stderr(&render::warning(&text));
    }
    if args.image.is_none()
        && let Some(refusal) = upgrade_planner::no_slot(node, &snapshot, &past.armed)
    {
        return Err(Failed::refused(refusal.to_string(), advice::text(&refusal.advice())));
    }
    let remembered = rollback::before(&plans(&session)?, node, &running.version);
    let way = wanted(args, node, remembered)?;
    let request =
        RollbackRequest { snapshot: &snapshot, node, way, policy: &policy, matrix: &data.matrix };
    let prepared = upgrade_planner::prepare_rollback(&request, past.earlier());
    let answer = planning::of(prepared, |_| None);
    confirmed(&session, answer, &snapshot, replace, args.yes, &args.run, printer).await
}

/// The plans of all runs that are remembered, newest first.
fn plans(session: &Session) -> Result<Vec<Arc<Plan>>, Failed> {
    Ok(session.place.runs.runs()?.into_iter().map(|run| run.plan).collect())
}

/// How to go back: as was said, or to what is remembered.
fn wanted(args: &RollbackArgs, node: &NodeName, remembered: Option<Before>) -> Result<Way, Failed> {
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
        (None, None) => Err(Failed::refused(
            format!("no upgrade of {node} to what it runs is remembered here"),
            "say what is in its other slot with --to, or what to install with --image",
        )),
    }
}

async fn kubernetes(
    args: &RollbackArgs,
    place: Place,
    replace: bool,
    data: &ReleaseData,
    printer: Printer,
) -> Result<Exit, Failed> {
    let policy = place.policy(&args.pace);
    let session = Session::open(place, &policy).await?;
    let seen = session.look().await?;
    let snapshot = &seen.snapshot;
    let Some(target) = rollback::unfinished_from(snapshot) else {
        return Err(Failed::refused(
            "every Kubernetes component runs the same version, so there is nothing to take back",
            "Kubernetes as a whole does not go back a minor; an etcd snapshot does",
        ));
    };
    let nodes = wish::held(session.place.profile.as_ref());
    let intent = Intent { kubernetes: Some(target), rollback: true, nodes, ..Intent::default() };
    let past = Past::of(&session, replace)?;
    let answer = planning::answer(&seen, &intent, &policy, data, &past, |_| None);
    confirmed(&session, answer, snapshot, replace, args.yes, &args.run, printer).await
}
