//! Waits a while with nothing disrupted, then makes sure that the node is
//! still well.

use upgrade_core::reason::{Failure, FailureKind};

use super::wait::{Look, Wait};
use super::{Done, Step, verify};
use crate::io::{Clock as _, Io, Kubernetes as _, Machines as _};

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let machine = step.machine()?;
    let soak = step.plan.policy.soak;
    step.say(format!("watching {} for {soak:#}", machine.name));
    step.io.clock().sleep(soak).await;
    let wait = Wait::new(FailureKind::Deadline, format!("{} did not stay well", machine.name))
        .on(step.io.machines().changes(machine))
        .on(step.io.kubernetes().changes());
    wait.look(step, || async {
        Ok(match verify::serves(step, machine).await {
            Ok(()) => Look::Found(Done::Did),
            Err(why) => Look::NotYet(why),
        })
    })
    .await
}
