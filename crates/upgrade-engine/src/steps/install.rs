//! Writes the inactive slot (Talos from 1.13), once. A second installer on an
//! armed node deletes the version that runs, on every boot loader (rule 5). So
//! none is started where one may have run in this boot, regardless of who started
//! it. None is repeated: not after an error, and not after a stream that was lost.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::advice::{Advice, Fix};
use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff;
use upgrade_core::journal::{Effect, Evidence, Proof};
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::slots::{NextBoot, Slots};
use upgrade_core::snapshot::TalosFacts;
use upgrade_core::step::Action;
use upgrade_planner::boot::{Bootable, Install};

use super::wait::{Probe, Wait, retry_read};
use super::{Completion, Step};
use crate::io::upgrader::Store;
use crate::io::{Applied, Io, IoError, Machine, Machines as _, NodeUpgrader as _};

/// How long no installer may be seen after a lost stream, before its end is believed: the request
/// itself may still be on its way.
const SETTLE: SignedDuration = SignedDuration::from_secs(15);

/// How long the boot loader is asked where the step can continue without its answer.
const AFTERWARDS: SignedDuration = SignedDuration::from_secs(30);

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    // Until the installer is called, nothing changes.
    let ready = prepare(step, machine).await.map_err(|failure| failure.leaving(Effect::None))?;
    let (facts, pulled) = match ready {
        Ready::Ended(completion) => return Ok(completion),
        Ready::Install { facts, pulled } => (*facts, pulled),
    };
    match install(step, machine, &pulled).await? {
        Ok(()) => Ok(Completion::Done),
        Err(error) => match error.applied {
            Applied::Failed => Err(installer_failed(step, machine, &facts, &error).await?),
            Applied::Unknown if guard!(Mutant::LostStreamRepeated) => {
                stream_lost(step, machine, &facts, &error).await
            }
            // No installer was started, so `decide` may have it retried.
            Applied::No | Applied::Unknown => Err(error.failure.leaving(Effect::None)),
        },
    }
}

/// What is to be done.
enum Ready {
    /// Nothing is left to do.
    Ended(Completion),
    /// The installer, under the name that the machine pulled it by.
    Install { facts: Box<TalosFacts>, pulled: String },
}

async fn prepare<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Ready, Failure> {
    let node = &machine.name;
    let target = step.talos_target()?;
    let to = step.hop().change.to();
    let facts =
        retry_read(step, &format!("what {node} runs"), || step.io.machines().facts(machine))
            .await?;
    if step.is_there(&facts) {
        return Ok(Ready::Ended(Completion::Skipped(format!("{node} runs {to} already"))));
    }
    let before = step.evidence.as_ref().and_then(Evidence::boot_id);
    let booted = before.is_some_and(|before| before != facts.boot_id);
    if guard!(Mutant::BlindRetry, booted && step.in_doubt) {
        let found = &facts.version;
        let text = format!("{node} has booted since it was written, and runs {found}");
        return Err(Failure::new(FailureKind::BootBack, &text));
    }
    if facts.version != target.from {
        let (from, found) = (&target.from, &facts.version);
        let text = format!("{node} runs {found}, where the plan expects {from}");
        return Err(Failure::new(FailureKind::Mismatch, &text));
    }
    match judge_installer(step, machine, &facts, &target.installer).await? {
        Install::Run => {}
        Install::Armed => {
            let image = &target.installer;
            let why = format!("{node} is armed with {image} already, and has not booted since");
            return Ok(Ready::Ended(Completion::Skipped(why)));
        }
        Install::Presumed => return Ok(Ready::Ended(Completion::Proved(Proof::Unheard))),
    }
    // Talos deletes images that nothing uses after an hour; pulling one that is still there costs
    // nothing.
    step.report_text(format!("pulling {}", target.installer));
    step.permitted()?;
    let pulled = step.io.upgrader().pull(machine, &target.installer, Store::System, step).await;
    let pulled = pulled.map_err(|error| error.failure)?;
    Ok(Ready::Install { facts: Box::new(facts), pulled })
}

/// Calls the installer. The outer error means that this process lost the run.
async fn install<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    pulled: &str,
) -> Result<Result<(), IoError>, Failure> {
    let image = &step.talos_target()?.installer;
    step.report_text(format!("writing {image}"));
    step.permitted().map_err(|failure| failure.leaving(Effect::None))?;
    Ok(step.io.upgrader().install(machine, image, pulled, step).await)
}

/// What is known about the node for rule 5.
fn bootable<'a, I: Io>(step: &'a Step<I>, facts: &'a TalosFacts) -> Result<Bootable<'a>, Failure> {
    Ok(Bootable::new(step.node()?, facts, step.armed.as_ref()))
}

/// Judges by the journal and by the boot loader whether an installer may run.
async fn judge_installer<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
    image: &ImageRef,
) -> Result<Install, Failure> {
    let repeats = step.in_doubt && !guard!(Mutant::LostStreamRepeated);
    if repeats || !guard!(Mutant::ArmedForgotten) {
        return Ok(Install::Run);
    }
    let node = bootable(step, facts)?;
    let slots = if node.awaits_installer() {
        wait_for_installer(step, machine).await?
    } else {
        read_slots(step, machine).await?
    };
    node.install(&slots, image)
}

/// Rule 5 for a call that installs and reboots at once.
pub(super) async fn not_armed<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
) -> Result<(), Failure> {
    if !guard!(Mutant::ArmedForgotten) {
        return Ok(());
    }
    let next = read_slots(step, machine).await?.next_boot(&facts.version);
    bootable(step, facts)?.upgrade(&next)
}

/// Rule 5 for a rollback: the call that brings the node to the other slot.
pub(super) async fn rollback_call<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
) -> Result<Action, Failure> {
    if !guard!(Mutant::ArmedForgotten) {
        return Ok(Action::Rollback);
    }
    // A boot loader that does not answer does not delay a rollback (rule 12).
    let next = next_boot(step, machine, facts).await;
    bootable(step, facts)?.rollback(&next, step.hop().change.to())
}

/// What the boot loader says, if it answers soon.
async fn next_boot<I: Io>(step: &Step<I>, machine: &Machine, facts: &TalosFacts) -> NextBoot {
    let until = step.now().saturating_add(AFTERWARDS).unwrap_or(step.deadline);
    let wait = Wait::new(FailureKind::Unavailable, "its boot loader did not answer");
    let seen = wait
        .until(until)
        .poll(step, || async { Ok(Probe::of(step.io.machines().slots(machine).await)) })
        .await;
    seen.map_or(NextBoot::Unknown, |slots| slots.next_boot(&facts.version))
}

async fn read_slots<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Slots, Failure> {
    let what = format!("what {} boots next", machine.name);
    retry_read(step, &what, || step.io.machines().slots(machine)).await
}

/// Waits until no installer has been seen for a while.
async fn wait_for_installer<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Slots, Failure> {
    let node = &machine.name;
    let quiet: Mutex<Option<Timestamp>> = Mutex::new(None);
    let wait = Wait::new(FailureKind::Deadline, format!("the installer on {node} did not end"));
    wait.poll(step, || async {
        let seen = step.io.machines().slots(machine).await;
        let mut quiet = quiet.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match seen {
            Ok(slots) if !slots.installing => {
                let now = step.now();
                let since = *quiet.get_or_insert(now);
                if now.duration_since(since) >= SETTLE {
                    return Ok(Probe::Found(slots));
                }
                Probe::NotYet(format!("checking that no installer starts on {node} any more"))
            }
            Ok(_) => {
                *quiet = None;
                Probe::NotYet(format!("the installer still runs on {node}"))
            }
            Err(error) => {
                *quiet = None;
                Probe::NotYet(format!("waiting for {node}: {error}"))
            }
        })
    })
    .await
}

/// The installer has failed. That is final; the boot loader is asked once more, to report what the
/// node boots next.
async fn installer_failed<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
    error: &IoError,
) -> Result<Failure, Failure> {
    let (from, to) = (&step.talos_target()?.from, step.hop().change.to());
    let next = next_boot(step, machine, facts).await;
    let failure = |words: &str| {
        let failure = Failure::new(FailureKind::Installer, &format!("{error}. {words}"));
        failure.advise(error.failure.advice())
    };
    // The cause of the failure comes first, then the node has to be disarmed.
    let disarm = || {
        let disarm = Fix::Disarm { running: Some(from.clone()) };
        match error.failure.advice() {
            Advice::FixThenRetry(mut fixes) | Advice::FixThenPlan(mut fixes) => {
                fixes.push(disarm);
                Advice::FixThenPlan(fixes)
            }
            _ => Advice::plan_after(disarm),
        }
    };
    Ok(match next {
        NextBoot::Same => failure(&format!("The node is not armed: its next boot is into {from}"))
            .leaving(Effect::NotArmed),
        NextBoot::Other(_) => {
            failure(&format!("It made {to} the default before it failed: any restart boots that"))
                .leaving(Effect::Armed)
                .advise(disarm())
        }
        NextBoot::Unknown => failure(&format!(
            "Whether the next boot is into {to} is not known, since the boot loader does not say"
        ))
        .advise(disarm()),
    })
}

/// The end of the installer is not known. It is never called again: its end is waited for, and the
/// node counts as armed unless its boot loader shows otherwise.
async fn stream_lost<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
    error: &IoError,
) -> Result<Completion, Failure> {
    step.report_text(format!("the installer's stream was lost, waiting for its end: {error}"));
    let slots = wait_for_installer(step, machine).await?;
    match slots.next_boot(&facts.version) {
        NextBoot::Other(_) => Ok(Completion::Done),
        NextBoot::Unknown => Ok(Completion::Proved(Proof::Unheard)),
        NextBoot::Same => {
            let text = format!(
                "the installer's stream was lost ({error}), and it has ended without arming the \
                 node: the next boot is into {}",
                facts.version
            );
            Err(Failure::new(FailureKind::Installer, &text).leaving(Effect::NotArmed))
        }
    }
}
