//! Writes the inactive slot (Talos from 1.13). The running slot is never
//! touched: a node that has booted since is left as it is (rule 5).

use jiff::SignedDuration;
use upgrade_core::jiff;
use upgrade_core::journal::Evidence;
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::{Failure, FailureKind};

use super::wait::ask;
use super::{Done, Step};
use crate::io::{Clock as _, Happened, Io, Talos as _};

/// The first pause before an install whose end was not heard is taken up again.
/// Most often a control plane that it passed through reboots, and another one
/// answers at once; each further pause is twice as long.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// How often an install whose end was not heard is taken up again.
const LOST_ANSWERS: u32 = 4;

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let target = step.talos_target()?;
    let to = step.hop().change.to();
    let talos = step.io.talos();
    let mut in_doubt = step.look_first;
    let mut lost = 0;
    loop {
        let facts = ask(step, &format!("what {node} runs"), || talos.facts(machine)).await?;
        if step.is_there(&facts) {
            return Ok(Done::Skipped(format!("{node} runs {to} already")));
        }
        let booted = matches!(&step.evidence,
            Some(Evidence::BootId(before)) if *before != facts.boot_id);
        if booted && in_doubt && !mutant::is(Mutant::BlindRetry) {
            let found = &facts.version;
            let text = format!("{node} has booted since it was written, and runs {found}");
            return Err(Failure::new(FailureKind::BootBack, &text));
        }
        if facts.version != target.from {
            let (from, found) = (&target.from, &facts.version);
            let text = format!("{node} runs {found}, where the plan expects {from}");
            return Err(Failure::new(FailureKind::Mismatch, &text));
        }
        step.say(format!("writing {}", target.installer));
        step.permitted()?;
        let Err(trouble) = talos.install(machine, &target.installer, step).await else {
            return Ok(Done::Did);
        };
        // The inactive slot may be written again as long as the node still runs
        // the other one, which the look above makes sure of.
        let unheard = trouble.happened == Happened::Maybe && lost < LOST_ANSWERS;
        // An installer that an earlier attempt began refuses a second one.
        let busy = in_doubt && trouble.failure.kind == FailureKind::Refused;
        let pause = AGAIN.saturating_mul(1 << lost);
        if !(unheard || busy) || step.left() <= pause {
            return Err(trouble.failure);
        }
        lost += u32::from(unheard);
        in_doubt = true;
        step.say(format!("trying again shortly: {trouble}"));
        step.io.clock().sleep(pause).await;
    }
}
