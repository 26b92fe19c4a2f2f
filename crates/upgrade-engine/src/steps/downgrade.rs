//! etcd's own downgrade, before a control plane goes back to a lower minor of etcd
//! (rule 13): validate, enable, wait until every member's data is of that minor.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::plan::Target;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{EtcdFacts, Fact};
use upgrade_core::version::Minor;

use super::wait::{Look, Wait};
use super::{Done, Step};
use crate::io::etcd::Downgrade;
use crate::io::{EtcdAdmin as _, Happened, Io, Machine, Machines as _, Trouble};

/// How long data of the lower minor has to stay what it is, where etcd says that
/// there is nothing to lower: it raises its version within four seconds after the
/// last member came up on the newer minor.
const SETTLED: SignedDuration = SignedDuration::from_secs(15);

/// Runs the step. What was enabled by an earlier attempt, or by a person, is waited
/// for and not asked for again (rule 8).
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let Target::Etcd { minor } = step.lane().target else {
        return Err(step.misplaced("has no minor of etcd"));
    };
    let members = step.control_planes();
    // Since when etcd has had nothing to lower.
    let idle: Mutex<Option<Timestamp>> = Mutex::new(None);
    let mut wait = Wait::new(FailureKind::Deadline, format!("etcd did not go down to {minor}"));
    for member in &members {
        wait = wait.on(step.io.machines().changes(member));
    }
    wait.look(step, || async {
        let seen = match step.io.machines().etcd(&members).await {
            Fact::Known(etcd) => lowered(&etcd, minor),
            Fact::Unknown(why) => return Ok(Look::NotYet(format!("etcd cannot be seen: {why}"))),
            Fact::Unasked => return Ok(Look::NotYet("etcd was not asked".to_owned())),
        };
        if let Lowered::Held = seen {
            return Ok(Look::Found(Done::Did));
        }
        let asked = validate(step, &members, minor).await;
        let since = {
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(asked, Ok(Ok((_, Downgrade::NotNext)))) {
                *idle = None;
            }
            *idle.get_or_insert(step.now())
        };
        let (member, answer) = match asked? {
            Ok(answer) => answer,
            Err(trouble) => return Ok(Look::NotYet(format!("etcd was not asked: {trouble}"))),
        };
        match (answer, seen) {
            (Downgrade::Possible, _) => {
                step.say(format!("downgrading etcd to {minor}"));
                enable(step, member, minor).await?;
                Ok(Look::NotYet(format!("etcd was told to go down to {minor}")))
            }
            (Downgrade::UnderWay, Lowered::Not(why)) => Ok(Look::NotYet(why)),
            (Downgrade::UnderWay, _) | (Downgrade::NotNext, Lowered::Held) => {
                Ok(Look::Found(Done::Did))
            }
            // All data is of the lower minor: a downgrade that is enabled keeps it so.
            (Downgrade::NotNext, Lowered::Data) if step.now().duration_since(since) >= SETTLED => {
                Ok(Look::Found(Done::Did))
            }
            (Downgrade::NotNext, Lowered::Data) => {
                Ok(Look::NotYet(format!("the data of etcd is of {minor}; seeing that it stays so")))
            }
            (Downgrade::NotNext, Lowered::Not(why)) => {
                Ok(Look::NotYet(format!("etcd has no downgrade to {minor} to offer: {why}")))
            }
        }
    })
    .await
}

/// How far down etcd is.
enum Lowered {
    /// All data is of the lower minor, and a member runs it: it stays so.
    Held,
    /// All data is of the lower minor.
    Data,
    /// Not yet, and why.
    Not(String),
}

fn lowered(etcd: &EtcdFacts, minor: Minor) -> Lowered {
    let mut held = false;
    for member in &etcd.members {
        let node = &member.node;
        let status = match member.status.as_result() {
            Ok(status) => status,
            Err(why) => {
                let why = format!("etcd goes down once every member answers, and {node}: {why}");
                return Lowered::Not(why);
            }
        };
        match status.storage {
            Some(storage) if storage <= minor => {}
            Some(storage) => {
                return Lowered::Not(format!("the data of etcd on {node} is of {storage}"));
            }
            None => return Lowered::Not(format!("etcd on {node} does not tell its version")),
        }
        held |= status.version.is_some_and(|version| version <= minor);
    }
    if held { Lowered::Held } else { Lowered::Data }
}

/// Asks one control plane after the other until one answers.
async fn validate<'a, I: Io>(
    step: &Step<I>,
    members: &'a [Machine],
    minor: Minor,
) -> Result<Result<(&'a Machine, Downgrade), Trouble>, Failure> {
    let (mut silent, mut refused) = (None, None);
    for member in members {
        match step.io.etcd().validate_downgrade(member, minor).await {
            Ok(answer) => return Ok(Ok((member, answer))),
            Err(trouble) if trouble.failure.kind.may_pass() => silent = Some(trouble),
            Err(trouble) => refused = Some(trouble),
        }
    }
    // A refusal of unknown meaning is for a person, unless another one may answer.
    let none = || Trouble::new(FailureKind::Unavailable, "no control plane is known to ask");
    let last = silent.or(refused).unwrap_or_else(none);
    if last.failure.kind.may_pass() { Ok(Err(last)) } else { Err(last.failure) }
}

/// Enables it. Whatever is not certain to have failed shows in the next look.
async fn enable<I: Io>(step: &Step<I>, member: &Machine, minor: Minor) -> Result<(), Failure> {
    step.permitted()?;
    match step.io.etcd().enable_downgrade(member, minor).await {
        Err(trouble) if trouble.happened == Happened::No && !trouble.failure.kind.may_pass() => {
            Err(trouble.failure)
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
