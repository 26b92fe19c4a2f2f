//! Has something outside upgrade the node or replace it: asked for once, done when the node
//! answers with another boot ID (rule 8). What runs then is for `verify` to judge.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::journal::{Effect, Evidence};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::Stage;

use super::wait::{Look, Wait, ask};
use super::{Done, Step, boot, install};
use crate::io::{ExternalUpgrader, Happened, Io, Machine, Machines as _};

/// How long a node may run on as before once the outside has nothing under way.
const LOST: SignedDuration = SignedDuration::from_mins(1);

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let Some(external) = step.io.external() else {
        let text = "nothing is configured here that upgrades nodes from outside";
        return Err(Failure::new(FailureKind::Refused, text).leaving(Effect::None));
    };
    let machine = step.machine()?;
    let node = &machine.name;
    let facts = boot::first_look(step, machine).await?;
    let before = step.evidence.as_ref().and_then(Evidence::boot_id).unwrap_or(&facts.boot_id);
    if facts.boot_id != before {
        step.say(format!("{node} has booted since; not asking again"));
        return Ok(Done::Did);
    }
    let to = step.hop().change.to();
    if step.is_there(&facts) {
        return Ok(Done::Skipped(format!("{node} runs {to} already")));
    }
    let what = format!("whether {node} is being upgraded");
    // A request of an earlier process may still be on its way: the node is watched for a while
    // before the outside is asked (rule 8).
    let begun = step.look_first
        && (boot::has_begun(step, machine, before).await?
            || ask(step, &what, || external.is_under_way(machine)).await?);
    if begun {
        step.say(format!("{node} is being upgraded already; not asking again"));
    } else {
        install::not_armed(step, machine, &facts).await?;
        boot::follows(step).await?;
        step.permitted()?;
        step.say(format!("asking for {node} to be brought to {to}"));
        match external.upgrade(machine, to, step.talos_target()?, step).await {
            Ok(()) => {}
            Err(trouble) if trouble.happened == Happened::No => {
                return Err(trouble.failure.leaving(Effect::None));
            }
            Err(trouble) => step.say(format!("it may have been accepted all the same: {trouble}")),
        }
    }
    came_back(step, external, machine, before).await.map(|()| Done::Did)
}

/// Waits for another boot ID. How long a machine takes to be replaced is not known, so it is
/// waited for as long as the outside says that it is at it.
async fn came_back<I: Io>(
    step: &Step<I>,
    external: &I::External,
    machine: &Machine,
    before: &str,
) -> Result<(), Failure> {
    let node = &machine.name;
    // Since when it has run as before with nothing under way.
    let idle: Mutex<Option<Timestamp>> = Mutex::new(None);
    let wait = Wait::new(FailureKind::NeverReturned, format!("{node} did not come back"))
        .on(step.io.machines().changes(machine));
    wait.look(step, || async {
        let facts = step.io.machines().facts(machine).await;
        if facts.as_ref().is_ok_and(|facts| facts.boot_id != before) {
            return Ok(Look::Found(()));
        }
        let under_way = external.is_under_way(machine).await;
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        match (facts, under_way) {
            (Ok(facts), Ok(false)) if facts.stage == Stage::Running => {
                let now = step.now();
                let since = *idle.get_or_insert(now);
                if now.duration_since(since) < LOST {
                    return Ok(Look::NotYet(format!("{node} still runs as before")));
                }
                let text = format!(
                    "{node} was not upgraded: what upgrades it from outside has nothing under \
                     way, and it runs on as before"
                );
                Err(Failure::new(FailureKind::Lost, &text))
            }
            (facts, _) => {
                *idle = None;
                Ok(Look::NotYet(match facts {
                    Ok(_) => format!("{node} is being upgraded from outside"),
                    Err(trouble) => format!("waiting for {node}: {trouble}"),
                }))
            }
        }
    })
    .await
}
