//! etcd, with every member asked itself.

use talos_proto::machine;
use talos_sim::model::Request;
use upgrade_core::snapshot::{EtcdFacts, EtcdMember, Fact, MemberId, MemberStatus, NodeName};
use upgrade_core::version::{Minor, Version};
use upgrade_engine::io::Machine;
use upgrade_engine::io::machines::member_limit;

use super::super::Inside;
use super::super::process_io::{ProcessIo, unavailable};
use crate::network::MessageFate;
use crate::trace::Question;

impl ProcessIo {
    /// What the members of etcd tell. One that hangs is unknown alone.
    pub(super) async fn members(&self, members: &[Machine]) -> Fact<EtcdFacts> {
        self.wait_for_silent(Question::Etcd, members, member_limit()).await;
        let mut seen = None;
        let asked = self.ask(Question::Etcd, |inside| {
            let answers: Vec<Option<Asked>> = members
                .iter()
                .map(|machine| {
                    let fate = self.shared.passage().fate;
                    let through = matches!(
                        fate,
                        MessageFate::Well | MessageFate::Late | MessageFate::Doubled
                    );
                    inside.member(machine, through)
                })
                .collect();
            seen = Some(etcd(members, &answers));
            // Waited for already.
            inside.hangs = false;
            // Seen in part, which is not known.
            let all = answers.iter().all(Option::is_some);
            if all { Ok(()) } else { Err(unavailable("a member did not answer")) }
        });
        let asked = asked.await;
        match (seen, asked) {
            (Some(fact), _) => fact,
            (None, Err(error)) => Fact::Unknown(error.to_string()),
            (None, Ok(())) => Fact::Unknown("nobody was asked".to_owned()),
        }
    }
}

impl Inside {
    /// One member's answers; `None` if the wires took them.
    fn member(&mut self, machine: &Machine, through: bool) -> Option<Asked> {
        let node = self.reach(machine).ok().filter(|_| through)?;
        let status = self.one::<machine::EtcdStatusResponse>(node, Request::EtcdStatus).ok()?;
        let local = machine::EtcdMemberListRequest { query_local: true };
        let members =
            self.one::<machine::EtcdMemberListResponse>(node, Request::EtcdMemberList(local));
        let alarms = self.one::<machine::EtcdAlarmListResponse>(node, Request::EtcdAlarmList);
        let status = status.messages.into_iter().next()?.member_status?;
        if status.is_learner {
            // Nothing else is answered there.
            return Some(Asked { status, members: Vec::new(), alarms: Vec::new() });
        }
        Some(Asked {
            status,
            members: members.ok()?.messages.into_iter().next()?.members,
            alarms: alarms.ok()?.messages.into_iter().next()?.member_alarms,
        })
    }
}

struct Asked {
    status: machine::EtcdMemberStatus,
    members: Vec<machine::EtcdMember>,
    alarms: Vec<machine::EtcdMemberAlarm>,
}

fn etcd(machines: &[Machine], answers: &[Option<Asked>]) -> Fact<EtcdFacts> {
    let Some(first) = answers.iter().flatten().find(|answer| !answer.members.is_empty()) else {
        return Fact::Unknown("no member answers".to_owned());
    };
    let node_of = |id: u64| {
        machines
            .iter()
            .zip(answers)
            .find(|(_, answer)| answer.as_ref().is_some_and(|answer| answer.status.member_id == id))
    };
    let members = first.members.iter().map(|member| {
        let status = match node_of(member.id) {
            Some((_, Some(answer))) if answer.status.is_learner => {
                Fact::Unknown("it is a learner".to_owned())
            }
            Some((_, Some(answer))) => Fact::Known(MemberStatus {
                leader: (answer.status.leader != 0).then_some(MemberId(answer.status.leader)),
                term: answer.status.raft_term,
                applied_index: answer.status.raft_applied_index,
                sees: answer.members.iter().map(|member| MemberId(member.id)).collect(),
                errors: answer.status.errors.clone(),
                version: minor(&answer.status.protocol_version),
                storage: minor(&answer.status.storage_version),
            }),
            _ => Fact::Unknown("no answer".to_owned()),
        };
        EtcdMember {
            id: MemberId(member.id),
            node: NodeName(member.hostname.clone()),
            learner: member.is_learner,
            status,
        }
    });
    let alarms = first.alarms.iter().map(|alarm| format!("alarm on member {:x}", alarm.member_id));
    Fact::Known(EtcdFacts { members: members.collect(), alarms: alarms.collect() })
}

fn minor(version: &str) -> Option<Minor> {
    version.parse::<Version>().ok().map(|version| version.minor())
}
