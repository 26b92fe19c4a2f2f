//! Reboot, the legacy upgrade call, and the way back to the other slot: asked
//! for once, done when the node answers with another boot ID (rule 8).

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::journal::{Effect, Evidence};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::RebootMode;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{Stage, TalosFacts};
use upgrade_core::step::Action;

use super::wait::{Look, Wait};
use super::{Done, Step, forfeit, install};
use crate::io::{Happened, Io, Machine, Machines as _, NodeUpgrader as _, Trouble};

/// How long a node in doubt is watched before it is asked again: a request that
/// an earlier process sent just before its end may still be on its way.
const SETTLE: SignedDuration = SignedDuration::from_secs(15);

/// How long a node that was asked to reboot may go on as if nothing had been
/// said. It leaves the running stage within a second or so of being asked.
const LOST: SignedDuration = SignedDuration::from_mins(1);

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let facts = first_look(step, machine).await?;
    let before = step.evidence.as_ref().and_then(Evidence::boot_id).unwrap_or(&facts.boot_id);
    if mutant::is(Mutant::ActRepeated) {
        let answer = ask_once(step, machine, step.id.action).await?;
        return came_back(step, machine, before, answer).await.map(|()| Done::Did);
    }
    if facts.boot_id != before {
        step.say(format!("{node} has booted since; not asking again"));
        return Ok(Done::Did);
    }
    let to = step.hop().change.to();
    if step.is_there(&facts) {
        return Ok(Done::Skipped(format!("{node} runs {to} already")));
    }
    let mut answer = None;
    if step.look_first && has_begun(step, machine, before).await? {
        step.say(format!("{node} is on its way already; not asking again"));
    } else {
        let call = match step.id.action {
            Action::Rollback => install::rollback_call(step, machine, &facts).await?,
            action => action,
        };
        if call == Action::Upgrade {
            install::not_armed(step, machine, &facts).await?;
        }
        follows(step).await?;
        answer = ask_once(step, machine, call).await?;
    }
    came_back(step, machine, before, answer).await?;
    Ok(Done::Did)
}

/// What runs now. A node in doubt may be in the middle of its reboot.
pub(super) async fn first_look<I: Io>(
    step: &Step<I>,
    machine: &Machine,
) -> Result<TalosFacts, Failure> {
    let (kind, in_vain) = if step.look_first {
        (FailureKind::NeverReturned, "did not come back")
    } else {
        (FailureKind::Unavailable, "could not be seen before its reboot")
    };
    let wait = Wait::new(kind, format!("{} {in_vain}", machine.name));
    let wait = wait.on(step.io.machines().changes(machine));
    wait.look(step, || async { Ok(Look::of(step.io.machines().facts(machine).await)) }).await
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
        .look(step, || async {
            Ok(match step.io.machines().facts(machine).await {
                Ok(facts) if facts.boot_id == before && facts.stage == Stage::Running => {
                    Look::NotYet("an earlier request may still be on its way".to_owned())
                }
                _ => Look::Found(()),
            })
        })
        .await;
    Ok(begun.is_ok())
}

/// Rule 1: leadership that was given away may have come back while the node was
/// drained. A way back does not wait for etcd to tell (rule 12).
pub(super) async fn follows<I: Io>(step: &Step<I>) -> Result<(), Failure> {
    if !step.lane().steps.contains(&Action::Forfeit) {
        return Ok(());
    }
    match forfeit::run(step).await {
        Err(failure) if step.best_effort && failure.kind == FailureKind::Unavailable => Ok(()),
        given => given.map(|_| ()),
    }
}

/// The one request. Whatever is not certain to have failed is waited for, and what
/// was answered comes back: Talos up to 1.12 refuses by words alone, with a code that
/// a request which was heard may also get.
async fn ask_once<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    call: Action,
) -> Result<Option<Trouble>, Failure> {
    let node = step.io.upgrader();
    step.permitted()?;
    let asked = match call {
        Action::Upgrade => {
            let (target, mode) = (step.talos_target()?, mode(step)?);
            step.say(format!("installing {}", target.installer));
            node.upgrade(machine, &target.installer, target.force, mode).await
        }
        Action::Rollback => {
            step.say("going back to the other slot");
            node.rollback(machine).await
        }
        _ => {
            let mode = mode(step)?;
            step.say(match mode {
                RebootMode::Default => "rebooting",
                RebootMode::Powercycle => "rebooting through its firmware (power cycle)",
            });
            node.reboot(machine, mode).await
        }
    };
    match asked {
        Ok(()) => Ok(None),
        Err(trouble) if trouble.happened != Happened::No => {
            step.say(format!("it may have been heard all the same: {trouble}"));
            Ok(Some(trouble))
        }
        Err(trouble) => Err(trouble.failure.leaving(Effect::None)),
    }
}

/// How the plan has the node rebooted. The call for the other slot knows no modes.
fn mode<I: Io>(step: &Step<I>) -> Result<RebootMode, Failure> {
    if mutant::is(Mutant::KexecAlways) {
        return Ok(RebootMode::Default);
    }
    step.talos_target().map(|target| target.reboot)
}

/// What to say of a node that stays away. After a power cycle the version may be one
/// that boots by kexec alone: the others of its kind would stay away after their next one.
fn stays_away<I: Io>(step: &Step<I>, machine: &Machine) -> String {
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

/// Waits for another boot ID, and for nothing else: what runs then is for
/// `verify` to judge.
async fn came_back<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    before: &str,
    answer: Option<Trouble>,
) -> Result<(), Failure> {
    let node = &machine.name;
    // Since when it has looked as if nobody had asked for anything.
    let idle: Mutex<Option<Timestamp>> = Mutex::new(None);
    let wait = Wait::new(FailureKind::NeverReturned, stays_away(step, machine))
        .on(step.io.machines().changes(machine));
    wait.look(step, || async {
        let facts = step.io.machines().facts(machine).await;
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = match facts {
            Ok(facts) => facts,
            Err(trouble) => {
                *idle = None;
                return Ok(Look::NotYet(format!("waiting for {node}: {trouble}")));
            }
        };
        if facts.boot_id != before {
            return Ok(Look::Found(()));
        }
        if facts.stage != Stage::Running {
            *idle = None;
            return Ok(Look::NotYet(format!("{node} is going down")));
        }
        let now = step.now();
        let since = *idle.get_or_insert(now);
        if now.duration_since(since) < LOST {
            return Ok(Look::NotYet(format!("{node} has not begun to go down")));
        }
        Err(never_went_down(step, machine, answer.as_ref()))
    })
    .await
}

/// A node that runs on as before, with its own words if it answered: those of a
/// refusal say why.
fn never_went_down<I: Io>(step: &Step<I>, machine: &Machine, answer: Option<&Trouble>) -> Failure {
    let (node, action) = (&machine.name, step.id.action);
    let text = format!("{node} never went down: it was asked to {action} and runs on as before");
    match answer {
        None => Failure::new(FailureKind::Lost, &text),
        Some(trouble) => {
            let refused = trouble.failure.kind == FailureKind::Refused;
            let kind = if refused { FailureKind::Refused } else { FailureKind::Lost };
            Failure::new(kind, &format!("{text}; the answer was: {trouble}"))
        }
    }
}
