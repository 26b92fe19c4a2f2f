//! Gives etcd leadership away, if the node has it (rule 1).

use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{Fact, NodeName};

use super::wait::{Look, Wait};
use super::{Done, Step};
use crate::io::{EtcdAdmin as _, Happened, Io, Machine, Machines as _};

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let members = step.control_planes();
    let leads = leader(step, machine, &members, None).await?;
    if leads != *node || mutant::is(Mutant::LeaderStays) {
        return Ok(Done::Skipped(format!("{leads} leads etcd")));
    }
    step.say(format!("{node} gives etcd leadership away"));
    step.permitted()?;
    match step.io.etcd().forfeit(machine).await {
        Err(trouble) if trouble.happened == Happened::No => return Err(trouble.failure),
        Ok(()) | Err(_) => {}
    }
    let next = leader(step, machine, &members, Some(node)).await?;
    step.say(format!("{next} leads etcd now"));
    Ok(Done::Did)
}

/// Who leads, once all who answer agree on somebody else than `not`.
async fn leader<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    members: &[Machine],
    not: Option<&NodeName>,
) -> Result<NodeName, Failure> {
    let in_vain = match not {
        Some(node) => format!("{node} did not lose etcd leadership"),
        None => "the leader of etcd could not be told".to_owned(),
    };
    let wait = Wait::new(FailureKind::Unavailable, in_vain).on(step.io.machines().changes(machine));
    wait.look(step, || async {
        Ok(match step.io.machines().etcd(members).await {
            Fact::Known(etcd) => match etcd.leader() {
                Some(leader) if Some(leader) == not => {
                    Look::NotYet(format!("{leader} still leads etcd"))
                }
                Some(leader) => Look::Found(leader.clone()),
                None => Look::NotYet("etcd has no leader that all agree on".to_owned()),
            },
            Fact::Unknown(why) => Look::NotYet(format!("etcd cannot be seen: {why}")),
            Fact::Unasked => Look::NotYet("etcd was not asked".to_owned()),
        })
    })
    .await
}
