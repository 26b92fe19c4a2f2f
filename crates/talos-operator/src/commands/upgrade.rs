//! `talos-operator upgrade`: plans all hops, shows the plan, asks, runs it.

use upgrade_core::snapshot::Snapshot;
use upgrade_core::step::Action;

use super::prompt::confirm;
use super::snapshot::store_is_usable;
use crate::Exit;
use crate::args::{Output, RunArgs, UpgradeArgs};
use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;
use crate::intent::{self, IntentArgs, Targets};
use crate::planning::{self, Past};
use crate::printer::Printer;
use crate::profile::Written;
use crate::release_data::ReleaseData;
use crate::render::{self, Answer, Outcome};
use crate::runner;
use crate::session::Session;

/// Upgrades a cluster.
pub async fn upgrade(args: &UpgradeArgs, printer: Printer) -> Result<Exit, CommandError> {
    let data = ReleaseData::load(&args.data)?;
    let config = ClusterConfig::load(&args.cluster)?;
    let flags = Targets::from(&args.target);
    let targets = Targets::of_upgrade(args.what(), flags, config.profile.as_ref())?;
    args.nodes.without_kubernetes(targets.kubernetes.is_some())?;
    config.refuse_if_driven()?;
    let replace = config.may_replace(args.new_plan)?;
    let policy = config.policy(&args.policy);
    let session = Session::open(config, &policy).await?;
    let seen = session.observe().await?;
    let profile = session.config.profile.as_ref();
    if let Some(text) = intent::schematic_differs(profile, &seen.snapshot)
        && !args.installer.is_given()
    {
        printer.stderr(&render::warning(&text));
    }
    let flags = IntentArgs { target: &args.target, installer: &args.installer, nodes: &args.nodes };
    let intent = flags.intent(&targets, profile, &seen.snapshot).await?;
    let past = Past::of(&session, replace)?;
    let answer = planning::answer(&seen, &intent, &policy, &data, &past, |_| None);
    if matches!(answer.outcome, Outcome::NothingToDo) && args.installer.is_given() {
        return Err(CommandError::refused(
            "every node already runs this Talos version, and this installer image cannot be told apart \
             from the running one",
            "name a schematic that does not run yet, or choose another version, such as another patch",
        ));
    }
    if let Outcome::NothingToDo = answer.outcome {
        printer.stderr(&render::plan_text(&answer, &seen.snapshot));
        let cordoned: Vec<_> = session.config.left()?.cordons.into_iter().collect();
        if replace && !cordoned.is_empty() {
            // Rule 7: the nodes that the halted run cordoned are uncordoned all the same.
            printer.stderr(&render::summary::uncordoning(&cordoned));
            return runner::resume(&session, &args.run, printer).await;
        }
        // A run that was interrupted right before its end has not updated the profile.
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
) -> Result<Exit, CommandError> {
    let text = render::plan_text(&answer, snapshot);
    let Outcome::Planned { plan, .. } = answer.outcome else {
        printer.stderr(&text);
        return Ok(Exit::Refused);
    };
    if plan.steps().any(|step| step.action == Action::SnapshotEtcd) {
        store_is_usable(session)?;
    }
    match how.output.output {
        Output::Text => printer.stdout(&text),
        // stdout is for events only.
        Output::Json => printer.stderr(&text),
    }
    if !yes && !confirm("Start the run?", printer)? {
        printer.stderr(&render::nothing_done());
        return Ok(Exit::Refused);
    }
    runner::begin(session, *plan, replace, how, printer).await
}
