//! etcd's own downgrade, before a control plane goes back to a lower minor of etcd
//! (rule 13): validate, enable, wait until every member's data is of that minor.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::plan::Target;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{EtcdFacts, Fact};
use upgrade_core::version::Minor;

use super::wait::{Probe, Wait};
use super::{Completion, Step};
use crate::io::etcd::Downgrade;
use crate::io::{Applied, EtcdAdmin as _, Io, IoError, Machine, Machines as _};

/// How long data of the lower minor has to stay so, where etcd says that there is nothing to
/// downgrade: it raises its version within four seconds after the last member started with the
/// newer minor.
const SETTLED: SignedDuration = SignedDuration::from_secs(15);

/// What was enabled by an earlier attempt, or by a person, is waited for and not requested again
/// (rule 8).
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let Target::Etcd { minor } = step.lane().target else {
        return Err(step.misplaced("has no minor of etcd"));
    };
    let members = step.control_planes();
    // Since when etcd has had nothing to downgrade.
    let idle: Mutex<Option<Timestamp>> = Mutex::new(None);
    let mut wait = Wait::new(FailureKind::Deadline, format!("etcd was not downgraded to {minor}"));
    for member in &members {
        wait = wait.on(step.io.machines().changes(member));
    }
    wait.poll(step, || async {
        let seen = match step.io.machines().etcd(&members).await {
            Fact::Known(etcd) => lowered(&etcd, minor),
            Fact::Unknown(why) => {
                return Ok(Probe::NotYet(format!("the state of etcd is unknown: {why}")));
            }
            Fact::Unasked => return Ok(Probe::NotYet("etcd was not asked".to_owned())),
        };
        if let Lowered::Held = seen {
            return Ok(Probe::Found(Completion::Done));
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
            Err(error) => return Ok(Probe::NotYet(format!("etcd was not asked: {error}"))),
        };
        match (answer, seen) {
            (Downgrade::Possible, _) => {
                step.report_text(format!("downgrading etcd to {minor}"));
                enable(step, member, minor).await?;
                Ok(Probe::NotYet(format!("the downgrade of etcd to {minor} is enabled")))
            }
            (Downgrade::UnderWay, Lowered::Not(why)) => Ok(Probe::NotYet(why)),
            (Downgrade::UnderWay, _) | (Downgrade::NotNext, Lowered::Held) => {
                Ok(Probe::Found(Completion::Done))
            }
            // All data is of the lower minor: an enabled downgrade keeps it so.
            (Downgrade::NotNext, Lowered::Data) if step.now().duration_since(since) >= SETTLED => {
                Ok(Probe::Found(Completion::Done))
            }
            (Downgrade::NotNext, Lowered::Data) => Ok(Probe::NotYet(format!(
                "the data of etcd is of {minor}; checking that it stays so"
            ))),
            (Downgrade::NotNext, Lowered::Not(why)) => {
                Ok(Probe::NotYet(format!("etcd does not offer a downgrade to {minor}: {why}")))
            }
        }
    })
    .await
}

/// How far the downgrade is.
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
                let why = format!("etcd is downgraded once every member answers; {node}: {why}");
                return Lowered::Not(why);
            }
        };
        match status.storage {
            Some(storage) if storage <= minor => {}
            Some(storage) => {
                return Lowered::Not(format!("the data of etcd on {node} is of {storage}"));
            }
            None => return Lowered::Not(format!("etcd on {node} does not report its version")),
        }
        held |= status.version.is_some_and(|version| version <= minor);
    }
    if held { Lowered::Held } else { Lowered::Data }
}

/// Asks one control plane after another until one answers.
async fn validate<'a, I: Io>(
    step: &Step<I>,
    members: &'a [Machine],
    minor: Minor,
) -> Result<Result<(&'a Machine, Downgrade), IoError>, Failure> {
    let (mut silent, mut refused) = (None, None);
    for member in members {
        match step.io.etcd().validate_downgrade(member, minor).await {
            Ok(answer) => return Ok(Ok((member, answer))),
            Err(error) if error.failure.kind.may_pass() => silent = Some(error),
            Err(error) => refused = Some(error),
        }
    }
    // A refusal that is not understood needs a person, unless another control plane may answer.
    let none = || IoError::new(FailureKind::Unavailable, "no control plane is known to ask");
    let last = silent.or(refused).unwrap_or_else(none);
    if last.failure.kind.may_pass() { Ok(Err(last)) } else { Err(last.failure) }
}

/// Enables the downgrade. Unless it certainly failed, the next probe shows whether it did.
async fn enable<I: Io>(step: &Step<I>, member: &Machine, minor: Minor) -> Result<(), Failure> {
    step.permitted()?;
    match step.io.etcd().enable_downgrade(member, minor).await {
        Err(error) if error.applied == Applied::No && !error.failure.kind.may_pass() => {
            Err(error.failure)
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
