//! `talos-operator upgrade`: plans all hops, shows the plan, asks, and runs it.

use upgrade_core::snapshot::Snapshot;

use super::ask::ask;
use crate::Exit;
use crate::args::{Output, RunArgs, UpgradeArgs};
use crate::data::ReleaseData;
use crate::failed::Failed;
use crate::place::Place;
use crate::planning::{self, Past};
use crate::printer::Printer;
use crate::profile::Written;
use crate::render::{self, Answer, Outcome};
use crate::runner;
use crate::session::Session;
use crate::wish::{self, Targets, Wish};

/// Upgrades a cluster.
pub async fn upgrade(args: &UpgradeArgs, printer: Printer) -> Result<Exit, Failed> {
    let data = ReleaseData::load(&args.data)?;
    let place = Place::find(&args.cluster)?;
    let flags = Targets { talos: args.talos.clone(), kubernetes: args.kubernetes.clone() };
    let targets = Targets::of_upgrade(args.what(), flags, place.profile.as_ref())?;
    args.nodes.without_kubernetes(targets.kubernetes.is_some())?;
    place.nobody_drives()?;
    let replace = place.may_replace(args.new_plan)?;
    let policy = place.policy(&args.pace);
    let session = Session::open(place, &policy).await?;
    let seen = session.look().await?;
    let profile = session.place.profile.as_ref();
    if let Some(text) = wish::schematic_differs(profile, &seen.snapshot)
        && args.installer.schematic.is_none()
        && args.installer.extensions.is_none()
        && args.installer.image.is_none()
    {
        printer.stderr(&render::warning(&text));
    }
    let wish = Wish {
        skip_minors: args.skip_minors,
        rollback: args.rollback,
        prefer: args.prefer,
        installer: &args.installer,
        nodes: &args.nodes,
    };
    let intent = wish.intent(&targets, profile, &seen.snapshot).await?;
    let past = Past::of(&session, replace)?;
    let answer = planning::answer(&seen, &intent, &policy, &data, &past, |_| None);
    let installer = &args.installer;
    let other_installer = installer.schematic.is_some()
        || installer.extensions.is_some()
        || installer.image.is_some();
    if let (Outcome::NothingToDo, true) = (&answer.outcome, other_installer) {
        return Err(Failed::refused(
            "every node runs this Talos already, and nothing tells this installer from what is in it",
            "name a schematic that does not run yet, or choose another version; another patch is \
             enough",
        ));
    }
    if let Outcome::NothingToDo = answer.outcome {
        printer.stderr(&render::plan_text(&answer, &seen.snapshot));
        let cordoned: Vec<_> = session.place.left()?.cordons.into_iter().collect();
        if replace && !cordoned.is_empty() {
            // Rule 7: the nodes that the halted run cordoned are uncordoned all the same.
            printer.stderr(&render::summary::uncordoning(&cordoned));
            return runner::resume(&session, &args.run, printer).await;
        }
        // A run that was cut off right at its end left this to do.
        if let Some(profile) = profile.filter(|_| args.nodes.is_empty()) {
            let Targets { talos, kubernetes } = targets;
            if profile.write_back(&Written { talos, kubernetes, schematic: None })? {
                printer.stderr(&render::summary::profile(&profile.path));
            }
        }
        return Ok(Exit::Done);
    }
    confirmed(&session, answer, &seen.snapshot, replace, args.yes, &args.run, printer).await
}

/// Shows a plan, asks, and runs it.
pub(super) async fn confirmed(
    session: &Session,
    answer: Answer,
    snapshot: &Snapshot,
    replace: bool,
    yes: bool,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, Failed> {
    let text = render::plan_text(&answer, snapshot);
    let Outcome::Planned { plan, .. } = answer.outcome else {
        printer.stderr(&text);
        return Ok(Exit::Refused);
    };
    match how.output.output {
        Output::Text => printer.stdout(&text),
        // stdout has events only.
        Output::Json => printer.stderr(&text),
    }
    if !yes && !ask("Go ahead?", printer)? {
        printer.stderr(&render::nothing_done());
        return Ok(Exit::Refused);
    }
    runner::begin(session, *plan, replace, how, printer).await
}
