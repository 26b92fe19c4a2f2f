//! Transfers etcd leadership, if the node has it (rule 1).

use jiff::SignedDuration;
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{Fact, NodeName};

use super::wait::{Probe, Wait};
use super::{Completion, Step};
use crate::io::{Applied, EtcdAdmin as _, Io, Machine, Machines as _};

/// How long a request that is not received is sent again. A rollback does not wait longer (rule 12).
const SENT_AGAIN: SignedDuration = SignedDuration::from_secs(30);

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let members = step.control_planes();
    let leads = leader(step, machine, &members, None).await?;
    if !guard!(Mutant::LeaderStays, leads == *node) {
        return Ok(Completion::Skipped(format!("{leads} leads etcd")));
    }
    step.report_text(format!("{node} transfers etcd leadership"));
    request(step, machine).await?;
    let next = leader(step, machine, &members, Some(node)).await?;
    step.report_text(format!("{next} leads etcd now"));
    Ok(Completion::Done)
}

/// Sends the request, again if it was certainly not received: a single connection that is refused
/// must not let the leader reboot (rule 1).
async fn request<I: Io>(step: &Step<I>, machine: &Machine) -> Result<(), Failure> {
    let text = format!("{} was not asked to transfer etcd leadership", machine.name);
    let until = step.now().saturating_add(SENT_AGAIN).unwrap_or(step.deadline);
    let wait = Wait::new(FailureKind::Unavailable, text).until(until);
    wait.poll(step, || async {
        step.permitted()?;
        match step.io.etcd().forfeit(machine).await {
            Err(error) if error.applied == Applied::No => Probe::or_fail(Err(error)),
            Ok(()) | Err(_) => Ok(Probe::Found(())),
        }
    })
    .await
}

/// The leader, once all members that answer agree on another one than `not`.
async fn leader<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    members: &[Machine],
    not: Option<&NodeName>,
) -> Result<NodeName, Failure> {
    let timeout_text = match not {
        Some(node) => format!("{node} did not lose etcd leadership"),
        None => "the leader of etcd could not be determined".to_owned(),
    };
    let wait =
        Wait::new(FailureKind::Unavailable, timeout_text).on(step.io.machines().changes(machine));
    wait.poll(step, || async {
        Ok(match step.io.machines().etcd(members).await {
            Fact::Known(etcd) => match etcd.leader() {
                Some(leader) if Some(leader) == not => {
                    Probe::NotYet(format!("{leader} still leads etcd"))
                }
                Some(leader) => Probe::Found(leader.clone()),
                None => Probe::NotYet("etcd has no leader that all agree on".to_owned()),
            },
            Fact::Unknown(why) => Probe::NotYet(format!("the state of etcd is unknown: {why}")),
            Fact::Unasked => Probe::NotYet("etcd was not asked".to_owned()),
        })
    })
    .await
}
