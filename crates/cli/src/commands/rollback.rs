//! `talos-operator rollback`: one node, or the Kubernetes components that failed.

use upgrade_core::intent::{Installer, Intent};
use upgrade_core::plan::Plan;
use upgrade_core::snapshot::NodeName;
use upgrade_planner::report::Report;

use super::upgrade::{confirmed, parent};
use crate::Exit;
use crate::args::RollbackArgs;
use crate::data::ReleaseData;
use crate::failed::Failed;
use crate::place::Place;
use crate::planning;
use crate::printer::Printer;
use crate::render::Outcome;
use crate::rollback::{self, Before};
use crate::session::{Seen, Session};
use crate::usage::Usage;

/// Goes back.
pub async fn rollback(args: &RollbackArgs, printer: Printer) -> Result<Exit, Failed> {
    let data = ReleaseData::load(&args.data)?;
    let place = Place::find(&args.cluster)?;
    place.nobody_drives()?;
    // A way back is never held up by a run that did not end (rule 12).
    let replace = place.may_replace(true)?;
    match &args.node {
        Some(node) => one_node(args, &NodeName(node.clone()), place, replace, &data, printer).await,
        None => components(args, place, replace, &data, printer).await,
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
    let seen = session.look().await?;
    let Some(observed) = seen.snapshot.nodes.get(node) else {
        let names: Vec<_> = seen.snapshot.nodes.keys().map(ToString::to_string).collect();
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
    let remembered = rollback::before(&plans(&session)?, node, &running.version);
    let by_slot = args.image.is_none();
    let Before { version, image } = wanted(args, node, remembered)?;
    let intent = Intent {
        talos: Some(version),
        installer: image.map_or(Installer::Keep, Installer::Image),
        drop_extensions: true,
        rollback: true,
        ..Intent::default()
    };
    let role = observed.role;
    let parent = parent(&session, replace)?;
    let shape =
        |plan| Plan { parent, ..rollback::one_node(plan, node, role, by_slot) };
    let Seen { snapshot, workloads } = &seen;
    let answer =
        planning::answer(snapshot, workloads, &intent, &policy, data, shape, |_| None);
    if let (true, Outcome::Planned { plan, .. }) = (by_slot, &answer.outcome)
        && plan.hops.len() > 1
    {
        return Err(Failed::refused(
            format!("the other slot of {node} holds what ran before the last upgrade, nothing older"),
            "install an older release with --image",
        ));
    }
    if let Outcome::NothingToDo = answer.outcome {
        let message = format!("{node} runs {} already", running.version);
        return Err(Failed::refused(message, "name another version with --to or --image"));
    }
    confirmed(&session, answer, snapshot, replace, args.yes, &args.run, printer).await
}

/// The plans of all runs that are remembered, newest first.
fn plans(session: &Session) -> Result<Vec<Plan>, Failed> {
    let runs = &session.place.runs;
    let names = runs.runs()?.into_iter().map(|run| run.name);
    Ok(names.map(|name| Ok(runs.run(&name)?.header.plan)).collect::<Result<_, Failed>>()?)
}

/// What to go back to: what was said, or what is remembered.
fn wanted(
    args: &RollbackArgs,
    node: &NodeName,
    remembered: Option<Before>,
) -> Result<Before, Failed> {
    if let Some(image) = &args.image {
        let Some(version) = image.version() else {
            return Err(Usage::new(
                format!("--image: {image} has no version as its tag"),
                "write it with its tag, like :v1.12.11",
            )
            .into());
        };
        return Ok(Before { version, image: Some(image.clone()) });
    }
    match (&args.to, remembered) {
        (Some(to), Some(before)) if before.version == *to => Ok(before),
        (Some(to), _) => Ok(Before { version: to.clone(), image: None }),
        (None, Some(before)) => Ok(before),
        (None, None) => Err(Failed::refused(
            format!("no upgrade of {node} to what it runs is remembered here"),
            "say what is in its other slot with --to, or what to install with --image",
        )),
    }
}

async fn components(
    args: &RollbackArgs,
    place: Place,
    replace: bool,
    data: &ReleaseData,
    printer: Printer,
) -> Result<Exit, Failed> {
    let nothing = || {
        Failed::refused(
            "no Kubernetes component failed in the last run, so there is nothing to give back",
            "Kubernetes as a whole does not go back; an etcd snapshot does",
        )
    };
    let last = place.runs.last()?.ok_or_else(nothing)?;
    let back = rollback::components(&last.header.plan, &last.state()?).ok_or_else(nothing)?;
    let session = Session::open(place, &last.header.plan.policy).await?;
    let snapshot = session.snapshot().await?;
    let answer = planning::checked(back, Report::default(), &snapshot, data, |_| None);
    confirmed(&session, answer, &snapshot, replace, args.yes, &args.run, printer).await
}
