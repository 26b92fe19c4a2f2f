//! Waits for the soak time, then checks that the node still serves.

use upgrade_core::reason::{Failure, FailureKind};

use super::wait::{Probe, Wait};
use super::{Completion, Step, verify};
use crate::io::{Clock as _, Io, Kubernetes as _, Machines as _};

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let soak = step.plan.policy.soak;
    step.report_text(format!("watching {} for {soak:#}", machine.name));
    step.io.clock().sleep(soak).await;
    let wait = Wait::new(FailureKind::Deadline, format!("{} did not stay healthy", machine.name))
        .on(step.io.machines().changes(machine))
        .on(step.io.kubernetes().changes());
    wait.poll(step, || async {
        Ok(match verify::serves(step, machine).await {
            Ok(()) => Probe::Found(Completion::Done),
            Err(why) => Probe::NotYet(why),
        })
    })
    .await
}
