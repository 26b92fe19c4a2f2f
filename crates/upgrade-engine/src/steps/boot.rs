//! Reboot, the legacy upgrade call, and the rollback to the other slot: requested once, done when
//! the node answers with another boot ID (rule 8).

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::journal::{Effect, Evidence};
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::RebootMode;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{Stage, TalosFacts};
use upgrade_core::step::Action;

use super::wait::{Probe, Wait};
use super::{Completion, Step, forfeit, install};
use crate::io::{Applied, Io, IoError, Machine, Machines as _, NodeUpgrader as _};

/// How long a node in doubt is watched before the request is repeated: a request that an earlier
/// process sent just before it ended may still be on its way.
const SETTLE: SignedDuration = SignedDuration::from_secs(15);

/// How long a node may run on as before after a reboot was requested. It leaves the running stage
/// within about a second of the request.
const LOST: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let facts = read_facts(step, machine).await?;
    let before = step.evidence.as_ref().and_then(Evidence::boot_id).unwrap_or(&facts.boot_id);
    if !guard!(Mutant::ActRepeated) {
        let answer = request_once(step, machine, step.id.action).await?;
        return wait_for_boot(step, machine, before, answer).await.map(|()| Completion::Done);
    }
    if facts.boot_id != before {
        step.report_text(format!("{node} has booted since; the request is not repeated"));
        return Ok(Completion::Done);
    }
    let to = step.hop().change.to();
    if step.is_there(&facts) {
        return Ok(Completion::Skipped(format!("{node} runs {to} already")));
    }
    let mut answer = None;
    if step.in_doubt && has_begun(step, machine, before).await? {
        step.report_text(format!("{node} is rebooting already; the request is not repeated"));
    } else {
        let call = match step.id.action {
            Action::Rollback => install::rollback_call(step, machine, &facts).await?,
            action => action,
        };
        if call == Action::Upgrade {
            install::not_armed(step, machine, &facts).await?;
        }
        ensure_follower(step).await?;
        answer = request_once(step, machine, call).await?;
    }
    wait_for_boot(step, machine, before, answer).await?;
    Ok(Completion::Done)
}

/// Reads what runs now. A node in doubt may be in the middle of its reboot.
pub(super) async fn read_facts<I: Io>(
    step: &Step<I>,
    machine: &Machine,
) -> Result<TalosFacts, Failure> {
    let (kind, timeout_text) = if step.in_doubt {
        (FailureKind::NeverReturned, "did not come back")
    } else {
        (FailureKind::Unavailable, "could not be read before its reboot")
    };
    let wait = Wait::new(kind, format!("{} {timeout_text}", machine.name));
    let wait = wait.on(step.io.machines().changes(machine));
    wait.poll(step, || async { Ok(Probe::of(step.io.machines().facts(machine).await)) }).await
}

/// Whether an earlier attempt's request is being carried out (rule 8).
pub(super) async fn has_begun<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    before: &str,
) -> Result<bool, Failure> {
    let until = step.now().saturating_add(SETTLE).unwrap_or(step.deadline);
    let wait = Wait::new(FailureKind::Deadline, "nothing happened")
        .on(step.io.machines().changes(machine))
        .until(until);
    let begun = wait
        .poll(step, || async {
            Ok(match step.io.machines().facts(machine).await {
                Ok(facts) if facts.boot_id == before && facts.stage == Stage::Running => {
                    Probe::NotYet("an earlier request may still be on its way".to_owned())
                }
                _ => Probe::Found(()),
            })
        })
        .await;
    Ok(begun.is_ok())
}

/// Rule 1: leadership that was transferred may have come back while the node was drained. A
/// rollback does not wait for etcd to answer (rule 12).
pub(super) async fn ensure_follower<I: Io>(step: &Step<I>) -> Result<(), Failure> {
    if !step.lane().has(Action::Forfeit) {
        return Ok(());
    }
    match forfeit::run(step).await {
        Err(failure) if step.best_effort && failure.kind == FailureKind::Unavailable => Ok(()),
        given => given.map(|_| ()),
    }
}

/// Sends the one request. Unless it certainly failed, its effect is waited for, and its answer is
/// returned: Talos up to 1.12 refuses by its message alone, with a code that a request which was
/// received may also get.
async fn request_once<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    call: Action,
) -> Result<Option<IoError>, Failure> {
    let node = step.io.upgrader();
    step.permitted()?;
    let asked = match call {
        Action::Upgrade => {
            let (target, mode) = (step.talos_target()?, mode(step)?);
            step.report_text(format!("installing {}", target.installer));
            node.upgrade(machine, &target.installer, target.force, mode).await
        }
        Action::Rollback => {
            step.report_text("rolling back to the other slot");
            node.rollback(machine).await
        }
        _ => {
            let mode = mode(step)?;
            step.report_text(match mode {
                RebootMode::Default => "rebooting",
                RebootMode::Powercycle => "rebooting through its firmware (power cycle)",
            });
            node.reboot(machine, mode).await
        }
    };
    match asked {
        Ok(()) => Ok(None),
        Err(error) if error.applied != Applied::No => {
            step.report_text(format!("the request may have been received all the same: {error}"));
            Ok(Some(error))
        }
        Err(error) => Err(error.failure.leaving(Effect::None)),
    }
}

/// How the plan reboots the node. The rollback call knows no modes.
fn mode<I: Io>(step: &Step<I>) -> Result<RebootMode, Failure> {
    if !guard!(Mutant::KexecAlways) {
        return Ok(RebootMode::Default);
    }
    step.talos_target().map(|target| target.reboot)
}

/// The failure text for a node that does not return. After a power cycle the new version may be one
/// that boots by kexec only: its peers would not return from their next power cycle either.
fn not_returned<I: Io>(step: &Step<I>, machine: &Machine) -> String {
    let node = &machine.name;
    let cycled = step.id.action != Action::Rollback && mode(step) == Ok(RebootMode::Powercycle);
    if cycled {
        return format!(
            "{node} did not come back from its power cycle: {} may not boot through its firmware. \
             Look at its console, and choose the old version in its boot menu",
            step.hop().change.to()
        );
    }
    format!("{node} did not come back")
}

/// Waits for another boot ID and nothing else; `verify` judges what runs then.
async fn wait_for_boot<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    before: &str,
    answer: Option<IoError>,
) -> Result<(), Failure> {
    let node = &machine.name;
    // Since when the node has run as if nothing had been requested.
    let idle: Mutex<Option<Timestamp>> = Mutex::new(None);
    let wait = Wait::new(FailureKind::NeverReturned, not_returned(step, machine))
        .on(step.io.machines().changes(machine));
    wait.poll(step, || async {
        let facts = step.io.machines().facts(machine).await;
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                *idle = None;
                return Ok(Probe::NotYet(format!("waiting for {node}: {error}")));
            }
        };
        if facts.boot_id != before {
            return Ok(Probe::Found(()));
        }
        if facts.stage != Stage::Running {
            *idle = None;
            return Ok(Probe::NotYet(format!("{node} is shutting down")));
        }
        let now = step.now();
        let since = *idle.get_or_insert(now);
        if now.duration_since(since) < LOST {
            return Ok(Probe::NotYet(format!("{node} has not started to shut down")));
        }
        Err(never_went_down(step, machine, answer.as_ref()))
    })
    .await
}

/// The failure of a node that runs on as before. Its answer is included, since a refusal says why.
fn never_went_down<I: Io>(step: &Step<I>, machine: &Machine, answer: Option<&IoError>) -> Failure {
    let (node, action) = (&machine.name, step.id.action);
    let text = format!("{node} never went down: it was asked to {action} and runs on as before");
    match answer {
        None => Failure::new(FailureKind::Lost, &text),
        Some(error) => {
            let refused = error.failure.kind == FailureKind::Refused;
            let kind = if refused { FailureKind::Refused } else { FailureKind::Lost };
            Failure::new(kind, &format!("{text}; the answer was: {error}"))
        }
    }
}
