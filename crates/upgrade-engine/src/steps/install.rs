//! Writes the inactive slot (Talos from 1.13), once. A second installer on an
//! armed node deletes the version that runs, on every boot loader (rule 5). So
//! none is started where one may have run in this boot, whoever started it, and
//! none is repeated: not after an error, and not after a stream that was lost.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::advice::{Advice, Fix};
use upgrade_core::image::ImageRef;
use upgrade_core::jiff;
use upgrade_core::journal::{Effect, Evidence, Proof};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::slots::{NextBoot, Slots};
use upgrade_core::snapshot::TalosFacts;
use upgrade_core::step::Action;
use upgrade_planner::boot::{Bootable, Install};

use super::wait::{Look, Wait, ask};
use super::{Done, Step};
use crate::io::upgrader::Store;
use crate::io::{Happened, Io, Machine, Machines as _, NodeUpgrader as _, Trouble};

/// How long no installer has to be seen after its stream was lost: the request
/// itself may still be on its way.
const SETTLE: SignedDuration = SignedDuration::from_secs(15);

/// How long the boot loader is asked where its answer is not needed to go on.
const AFTERWARDS: SignedDuration = SignedDuration::from_secs(30);

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let machine = step.machine()?;
    // Until the installer is called, all stays as it was.
    let ready = prepare(step, machine).await.map_err(|failure| failure.leaving(Effect::None))?;
    let (facts, pulled) = match ready {
        Ready::Done(done) => return Ok(done),
        Ready::Install { facts, pulled } => (*facts, pulled),
    };
    match install(step, machine, &pulled).await? {
        Ok(()) => Ok(Done::Did),
        Err(trouble) => match trouble.happened {
            Happened::Failed => Err(failed(step, machine, &facts, &trouble).await?),
            Happened::Maybe if !mutant::is(Mutant::LostStreamRepeated) => {
                lost(step, machine, &facts, &trouble).await
            }
            // No installer was started, so `decide` may have it tried again.
            Happened::No | Happened::Maybe => Err(trouble.failure.leaving(Effect::None)),
        },
    }
}

/// What is to be done.
enum Ready {
    /// Nothing more.
    Done(Done),
    /// This, under the name that the machine has it by.
    Install { facts: Box<TalosFacts>, pulled: String },
}

async fn prepare<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Ready, Failure> {
    let node = &machine.name;
    let target = step.talos_target()?;
    let to = step.hop().change.to();
    let facts =
        ask(step, &format!("what {node} runs"), || step.io.machines().facts(machine)).await?;
    if step.is_there(&facts) {
        return Ok(Ready::Done(Done::Skipped(format!("{node} runs {to} already"))));
    }
    let before = step.evidence.as_ref().and_then(Evidence::boot_id);
    let booted = before.is_some_and(|before| before != facts.boot_id);
    if booted && step.look_first && !mutant::is(Mutant::BlindRetry) {
        let found = &facts.version;
        let text = format!("{node} has booted since it was written, and runs {found}");
        return Err(Failure::new(FailureKind::BootBack, &text));
    }
    if facts.version != target.from {
        let (from, found) = (&target.from, &facts.version);
        let text = format!("{node} runs {found}, where the plan expects {from}");
        return Err(Failure::new(FailureKind::Mismatch, &text));
    }
    match stands(step, machine, &facts, &target.installer).await? {
        Install::Run => {}
        Install::Armed => {
            let image = &target.installer;
            let why = format!("{node} is armed with {image} already, and has not booted since");
            return Ok(Ready::Done(Done::Skipped(why)));
        }
        Install::Presumed => return Ok(Ready::Done(Done::Proved(Proof::Unheard))),
    }
    // Talos collects images that nothing uses after an hour; pulling one that is
    // still there costs nothing.
    step.say(format!("pulling {}", target.installer));
    step.permitted()?;
    let pulled = step.io.upgrader().pull(machine, &target.installer, Store::System, step).await;
    let pulled = pulled.map_err(|trouble| trouble.failure)?;
    Ok(Ready::Install { facts: Box::new(facts), pulled })
}

/// The one call. The outer error is that of a process that lost the run.
async fn install<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    pulled: &str,
) -> Result<Result<(), Trouble>, Failure> {
    let image = &step.talos_target()?.installer;
    step.say(format!("writing {image}"));
    step.permitted().map_err(|failure| failure.leaving(Effect::None))?;
    Ok(step.io.upgrader().install(machine, image, pulled, step).await)
}

/// What is known of the node for rule 5.
fn bootable<'a, I: Io>(step: &'a Step<I>, facts: &'a TalosFacts) -> Result<Bootable<'a>, Failure> {
    Ok(Bootable::new(step.node()?, facts, step.armed.as_ref()))
}

/// Puts together what is remembered and what can be seen.
async fn stands<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
    image: &ImageRef,
) -> Result<Install, Failure> {
    let repeats = step.look_first && mutant::is(Mutant::LostStreamRepeated);
    if repeats || mutant::is(Mutant::ArmedForgotten) {
        return Ok(Install::Run);
    }
    let node = bootable(step, facts)?;
    let slots = if node.awaits_installer() {
        ended(step, machine).await?
    } else {
        look(step, machine).await?
    };
    node.install(&slots, image)
}

/// Rule 5 for a call that installs and reboots at once.
pub(super) async fn not_armed<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
) -> Result<(), Failure> {
    if mutant::is(Mutant::ArmedForgotten) {
        return Ok(());
    }
    let next = look(step, machine).await?.next_boot(&facts.version);
    bootable(step, facts)?.upgrade(&next)
}

/// Rule 5 for a rollback: the call that brings the node to the other slot.
pub(super) async fn rollback_call<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
) -> Result<Action, Failure> {
    if mutant::is(Mutant::ArmedForgotten) {
        return Ok(Action::Rollback);
    }
    // A boot loader that cannot be asked does not hold a rollback up (rule 12).
    let next = briefly(step, machine, facts).await;
    bootable(step, facts)?.rollback(&next, step.hop().change.to())
}

/// What the boot loader tells within a while.
async fn briefly<I: Io>(step: &Step<I>, machine: &Machine, facts: &TalosFacts) -> NextBoot {
    let until = step.now().saturating_add(AFTERWARDS).unwrap_or(step.deadline);
    let wait = Wait::new(FailureKind::Unavailable, "its boot loader could not be asked");
    let seen = wait
        .until(until)
        .look(step, || async { Ok(Look::of(step.io.machines().slots(machine).await)) })
        .await;
    seen.map_or(NextBoot::Unknown, |slots| slots.next_boot(&facts.version))
}

async fn look<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Slots, Failure> {
    let what = format!("what {} boots next", machine.name);
    ask(step, &what, || step.io.machines().slots(machine)).await
}

/// Waits until no installer was seen for a while.
async fn ended<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Slots, Failure> {
    let node = &machine.name;
    let quiet: Mutex<Option<Timestamp>> = Mutex::new(None);
    let wait = Wait::new(FailureKind::Deadline, format!("the installer on {node} did not end"));
    wait.look(step, || async {
        let seen = step.io.machines().slots(machine).await;
        let mut quiet = quiet.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match seen {
            Ok(slots) if !slots.installing => {
                let now = step.now();
                let since = *quiet.get_or_insert(now);
                if now.duration_since(since) >= SETTLE {
                    return Ok(Look::Found(slots));
                }
                Look::NotYet(format!("waiting whether an installer still starts on {node}"))
            }
            Ok(_) => {
                *quiet = None;
                Look::NotYet(format!("the installer still runs on {node}"))
            }
            Err(trouble) => {
                *quiet = None;
                Look::NotYet(format!("waiting for {node}: {trouble}"))
            }
        })
    })
    .await
}

/// The installer has ended badly. That is final; what the node boots next is
/// asked once more, so that it can be told.
async fn failed<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
    trouble: &Trouble,
) -> Result<Failure, Failure> {
    let (from, to) = (&step.talos_target()?.from, step.hop().change.to());
    let next = briefly(step, machine, facts).await;
    let say = |words: &str| {
        let failure = Failure::new(FailureKind::Installer, &format!("{trouble}. {words}"));
        failure.advise(trouble.failure.advice())
    };
    // The cause of the failure comes first, then the node has to be disarmed.
    let disarm = || {
        let disarm = Fix::Disarm { running: Some(from.clone()) };
        match trouble.failure.advice() {
            Advice::FixThenRetry(mut fixes) | Advice::FixThenPlan(mut fixes) => {
                fixes.push(disarm);
                Advice::FixThenPlan(fixes)
            }
            _ => Advice::plan_after(disarm),
        }
    };
    Ok(match next {
        NextBoot::Same => say(&format!("The node is not armed: its next boot is into {from}"))
            .leaving(Effect::NotArmed),
        NextBoot::Other(_) => {
            say(&format!("It made {to} the default before it failed: any restart boots that"))
                .leaving(Effect::Armed)
                .advise(disarm())
        }
        NextBoot::Unknown => say(&format!(
            "Whether the next boot is into {to} is not known, since the boot loader does not tell"
        ))
        .advise(disarm()),
    })
}

/// Nobody heard the end. The installer is never sent for again: it is waited for,
/// and the node counts as armed unless its boot loader says otherwise.
async fn lost<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
    trouble: &Trouble,
) -> Result<Done, Failure> {
    step.say(format!("the installer's stream was lost, waiting for its end: {trouble}"));
    let slots = ended(step, machine).await?;
    match slots.next_boot(&facts.version) {
        NextBoot::Other(_) => Ok(Done::Did),
        NextBoot::Unknown => Ok(Done::Proved(Proof::Unheard)),
        NextBoot::Same => {
            let text = format!(
                "the installer's stream was lost ({trouble}), and it has ended without arming the \
                 node: the next boot is into {}",
                facts.version
            );
            Err(Failure::new(FailureKind::Installer, &text).leaving(Effect::NotArmed))
        }
    }
}
