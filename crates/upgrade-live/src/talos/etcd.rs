//! etcd, with every member asked itself: what one says of another is hearsay.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use futures_util::future::join_all;
use talos_client::etcd::{EtcdMember as Seen, EtcdStatus, MemberAlarm, MemberView};
use talos_client::{Error, Node};
use upgrade_core::snapshot::{EtcdFacts, EtcdMember, Fact, MemberId, MemberStatus, NodeName};
use upgrade_core::version::{Minor, Version};
use upgrade_engine::io::Machine;
use upgrade_engine::io::machines::member_limit;

use super::within::within;

/// What one control plane answered.
struct Answer<'a> {
    machine: &'a Machine,
    status: Result<EtcdStatus, String>,
    members: Result<Vec<Seen>, String>,
    alarms: Result<Vec<MemberAlarm>, String>,
}

/// Asks all of them at once.
pub(super) async fn facts(nodes: &[(&Machine, Node)]) -> Fact<EtcdFacts> {
    let answers = join_all(nodes.iter().map(|(machine, node)| async move {
        let (status, members, alarms) = tokio::join!(
            answer_of(node.etcd_status()),
            answer_of(node.etcd_members(MemberView::Local)),
            answer_of(node.etcd_alarms()),
        );
        Answer { machine, status, members, alarms }
    }))
    .await;
    put_together(&answers)
}

/// One member that hangs is unknown alone.
async fn answer_of<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    within(member_limit(), answer).await.map_err(|why| why.to_string())
}

fn put_together(answers: &[Answer<'_>]) -> Fact<EtcdFacts> {
    // Everybody whom anybody knows: where the lists differ, it shows.
    let lists = answers.iter().filter_map(|answer| answer.members.as_ref().ok()).flatten();
    let mut known: BTreeMap<MemberId, &Seen> = BTreeMap::new();
    for member in lists {
        known.entry(member.id).or_insert(member);
    }
    if known.is_empty() {
        return Fact::Unknown(no_answer(answers, |answer| answer.members.as_ref().err()));
    }
    let mut heard = answers.iter().filter_map(|answer| answer.alarms.as_ref().ok());
    let Some(alarms) = heard.next() else {
        return Fact::Unknown(no_answer(answers, |answer| answer.alarms.as_ref().err()));
    };
    let names: BTreeMap<MemberId, NodeName> =
        known.values().map(|member| (member.id, name(member, answers))).collect();
    let alarms = alarms.iter().map(|MemberAlarm { member, alarm }| match names.get(member) {
        Some(name) => format!("{alarm} on {name}"),
        None => format!("{alarm} on member {member}"),
    });
    let members = known.values().map(|member| {
        let node = names[&member.id].clone();
        let answer = answers.iter().find(|answer| answer.machine.name == node);
        let learner = member.learner
            || answer.is_some_and(|it| it.status.as_ref().is_ok_and(|status| status.learner));
        EtcdMember { id: member.id, learner, status: status(member.id, answer), node }
    });
    Fact::Known(EtcdFacts { members: members.collect(), alarms: alarms.collect() })
}

/// The machine that a member runs on: the one that says so, else the one of its
/// name. A member that has not started has no name.
fn name(member: &Seen, answers: &[Answer<'_>]) -> NodeName {
    let says_so = |answer: &&Answer<'_>| {
        answer.status.as_ref().is_ok_and(|status| status.member == member.id)
    };
    match answers.iter().find(says_so) {
        Some(answer) => answer.machine.name.clone(),
        None if member.hostname.is_empty() => NodeName(format!("member {}", member.id)),
        None => NodeName(member.hostname.clone()),
    }
}

fn status(id: MemberId, answer: Option<&Answer<'_>>) -> Fact<MemberStatus> {
    let Some(answer) = answer else {
        return Fact::Unknown("no control plane that answers has this member".to_owned());
    };
    let status = match &answer.status {
        Ok(status) if status.member == id => status,
        Ok(status) => {
            return Fact::Unknown(format!("it says that it is member {}", status.member));
        }
        Err(why) => return Fact::Unknown(why.clone()),
    };
    let sees: BTreeSet<MemberId> = match &answer.members {
        // etcd refuses everything but the status there.
        Err(_) if status.learner => return Fact::Unknown("it is a learner".to_owned()),
        Ok(members) => members.iter().map(|member| member.id).collect(),
        Err(why) => return Fact::Unknown(why.clone()),
    };
    Fact::Known(MemberStatus {
        leader: status.leader,
        term: status.term,
        applied_index: status.applied_index,
        sees,
        errors: status.errors.clone(),
        version: minor(&status.version),
        storage: minor(&status.storage_version),
    })
}

/// The minor of a version of etcd. One that cannot be read is not known (rule 10).
fn minor(version: &str) -> Option<Minor> {
    version.parse::<Version>().ok().map(|version| version.minor())
}

fn no_answer<'a>(
    answers: &'a [Answer<'_>],
    error: impl Fn(&'a Answer<'_>) -> Option<&'a String>,
) -> String {
    if answers.is_empty() {
        return "there is no control plane to ask".to_owned();
    }
    let errors = answers
        .iter()
        .filter_map(|answer| Some(format!("{}: {}", answer.machine.name, error(answer)?)));
    format!("no member answers: {}", errors.collect::<Vec<_>>().join("; "))
}
