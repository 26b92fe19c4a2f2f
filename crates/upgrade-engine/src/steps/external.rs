//! Has something outside upgrade the node or replace it: requested once, done when the node answers
//! with another boot ID (rule 8). `verify` judges what runs then.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::journal::{Effect, Evidence};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::Stage;

use super::wait::{Probe, Wait, retry_read};
use super::{Completion, Step, boot, install};
use crate::io::{Applied, ExternalUpgrader, Io, Machine, Machines as _};

/// How long a node may run on as before once nothing is in progress outside.
const LOST: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let Some(external) = step.io.external() else {
        let text = "nothing is configured here that upgrades nodes from outside";
        return Err(Failure::new(FailureKind::Refused, text).leaving(Effect::None));
    };
    let machine = step.machine()?;
    let node = &machine.name;
    let facts = boot::read_facts(step, machine).await?;
    let before = step.evidence.as_ref().and_then(Evidence::boot_id).unwrap_or(&facts.boot_id);
    if facts.boot_id != before {
        step.report_text(format!("{node} has booted since; the request is not repeated"));
        return Ok(Completion::Done);
    }
    let to = step.hop().change.to();
    if step.is_there(&facts) {
        return Ok(Completion::Skipped(format!("{node} runs {to} already")));
    }
    let what = format!("whether {node} is being upgraded");
    // A request of an earlier process may still be on its way: the node is watched for a while
    // before the external upgrader is asked whether it works on it (rule 8).
    let begun = step.in_doubt
        && (boot::has_begun(step, machine, before).await?
            || retry_read(step, &what, || external.is_under_way(machine)).await?);
    if begun {
        step.report_text(format!("{node} is being upgraded already; the request is not repeated"));
    } else {
        install::not_armed(step, machine, &facts).await?;
        boot::ensure_follower(step).await?;
        step.permitted()?;
        step.report_text(format!("requesting the upgrade of {node} to {to}"));
        match external.upgrade(machine, to, step.talos_target()?, step).await {
            Ok(()) => {}
            Err(error) if error.applied == Applied::No => {
                return Err(error.failure.leaving(Effect::None));
            }
            Err(error) => step
                .report_text(format!("the request may have been accepted all the same: {error}")),
        }
    }
    wait_for_boot(step, external, machine, before).await.map(|()| Completion::Done)
}

/// Waits for another boot ID. How long it takes to replace a machine is not known, so the step
/// waits for as long as the external upgrader reports that it is in progress.
async fn wait_for_boot<I: Io>(
    step: &Step<I>,
    external: &I::External,
    machine: &Machine,
    before: &str,
) -> Result<(), Failure> {
    let node = &machine.name;
    // Since when the node has run as before with nothing in progress.
    let idle: Mutex<Option<Timestamp>> = Mutex::new(None);
    let wait = Wait::new(FailureKind::NeverReturned, format!("{node} did not come back"))
        .on(step.io.machines().changes(machine));
    wait.poll(step, || async {
        let facts = step.io.machines().facts(machine).await;
        if facts.as_ref().is_ok_and(|facts| facts.boot_id != before) {
            return Ok(Probe::Found(()));
        }
        let under_way = external.is_under_way(machine).await;
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        match (facts, under_way) {
            (Ok(facts), Ok(false)) if facts.stage == Stage::Running => {
                let now = step.now();
                let since = *idle.get_or_insert(now);
                if now.duration_since(since) < LOST {
                    return Ok(Probe::NotYet(format!("{node} still runs as before")));
                }
                let text = format!(
                    "{node} was not upgraded: what upgrades it from outside has nothing under \
                     way, and it runs on as before"
                );
                Err(Failure::new(FailureKind::Lost, &text))
            }
            (facts, _) => {
                *idle = None;
                Ok(Probe::NotYet(match facts {
                    Ok(_) => format!("{node} is being upgraded from outside"),
                    Err(error) => format!("waiting for {node}: {error}"),
                }))
            }
        }
    })
    .await
}
