//! `resume`, `pause` and `status`: commands for the last run.

use upgrade_core::journal::{Phase, State};
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::step::StepId;
use upgrade_engine::store::StoredRun;
use upgrade_view::RunResult;

use crate::Exit;
use crate::args::{Output, PauseArgs, ResumeArgs, StatusArgs};
use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;
use crate::intent;
use crate::printer::Printer;
use crate::render;
use crate::render::status::Status;
use crate::runner;
use crate::session::Session;
use crate::settings;

/// Continues the last run.
pub async fn resume(args: &ResumeArgs, printer: Printer) -> Result<Exit, CommandError> {
    let config = ClusterConfig::load(&args.cluster)?;
    config.refuse_if_driven()?;
    let Some(last) = config.runs.last()? else {
        return Err(no_run(&config));
    };
    let plan = &last.plan;
    let session = Session::open(config, &plan.policy).await?;
    if last.result()? == RunResult::Completed {
        printer.stderr("the last run is done; there is nothing to resume\n");
        // It may have been interrupted before it updated the profile.
        runner::write_back(&session, plan, printer).await?;
        return Ok(Exit::Done);
    }
    held_since(&session.config, plan, &last.state()?)?;
    runner::resume(&session, &args.run, printer).await
}

/// Refuses if the profile now holds a node that the plan has steps left for (rule 12).
fn held_since(config: &ClusterConfig, plan: &Plan, state: &State) -> Result<(), CommandError> {
    let held = intent::held(config.profile.as_ref());
    let left = |step: &StepId| state.step(step).is_none_or(|step| step.phase != Phase::Done);
    let node = |step: StepId| step.node.clone().filter(|_| left(&step));
    match plan.steps().filter_map(node).find(|node| held.contains_key(node)) {
        Some(node) => Err(CommandError::refused(
            format!("the profile holds {node}, and the run has steps left for it"),
            "make a new plan without it by `upgrade --new-plan`, or remove its `hold` from the profile",
        )),
        None => Ok(()),
    }
}

fn no_run(config: &ClusterConfig) -> CommandError {
    CommandError::refused(
        format!("there is no run in {}", config.state.display()),
        "start one with `talos-operator upgrade`, or name another cluster with --profile or --state",
    )
}

/// Requests a pause from the process that drives the cluster.
pub fn pause(args: &PauseArgs, printer: Printer) -> Result<Exit, CommandError> {
    let config = ClusterConfig::load(&args.cluster)?;
    let Some(holder) = config.runs.holder()? else {
        return Err(CommandError::refused(
            "no process is driving this cluster, so there is nothing to pause",
            format!("see the state of the last run with `{}`", config.command("status")),
        ));
    };
    let request = config.pause_request();
    write_whole(&request, &format!("{}\n", settings::who())).map_err(|error| {
        let message = format!("cannot write the request {}: {error}", request.display());
        CommandError::refused(message, "check the permissions of its folder")
    })?;
    printer.stderr(&format!(
        "pause requested: {} stops once nodes in flight reach a safe state\n",
        render::words::process(&holder)
    ));
    Ok(Exit::Done)
}

/// Writes a file in one step, so that no reader sees half of it.
fn write_whole(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

/// Shows the state of the last run.
pub fn status(args: &StatusArgs, printer: Printer) -> Result<Exit, CommandError> {
    let config = ClusterConfig::load(&args.cluster)?;
    let Some(last) = config.runs.last()? else {
        return Err(no_run(&config));
    };
    if args.history {
        printer.stdout(&match args.output.output {
            Output::Text => render::status::history(&last.entries),
            Output::Json => last
                .entries
                .iter()
                .map(|entry| serde_json::to_string(entry).expect("an entry is always JSON") + "\n")
                .collect(),
        });
        return Ok(Exit::Done);
    }
    let state = last.state()?;
    let runs = config.runs.runs()?;
    let mut earlier = runs.iter().map(StoredRun::summary).collect::<Result<Vec<_>, _>>()?;
    let run = earlier.remove(0);
    let status = Status {
        run,
        plan: &last.plan,
        state: &state,
        holder: config.runs.holder()?,
        earlier: &earlier,
        resume: config.command("resume"),
    };
    printer.stdout(&match args.output.output {
        Output::Text => status.text(),
        Output::Json => status.json(),
    });
    Ok(Exit::Done)
}

/// The policy of a command that changes nothing.
pub(super) fn profile_policy(config: &ClusterConfig) -> Policy {
    config.profile.as_ref().map(|profile| profile.policy.clone()).unwrap_or_default()
}
