//! etcd, as one node's member tells it.

use talos_proto::machine as wire;
use talos_proto::machine::etcd_member_alarm::AlarmType;
use upgrade_core::snapshot::MemberId;
use upgrade_core::version::Minor;

use crate::client::{Limit, Node};
use crate::error::{ActError, Error};
use crate::reply::part;

/// What a node's member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Its ID.
    pub member: MemberId,
    /// The leader it follows; `None` while it knows none.
    pub leader: Option<MemberId>,
    /// The last raft index it has.
    pub index: u64,
    /// The last raft index it applied.
    pub applied_index: u64,
    /// The raft term it is in.
    pub term: u64,
    /// Learners do not vote.
    pub learner: bool,
    /// Errors it reports.
    pub errors: Vec<String>,
    /// The size of its database, in bytes.
    pub size: u64,
    /// How much of that is used; the rest comes back by defragmenting.
    pub size_in_use: u64,
    /// The version of etcd.
    pub version: String,
    /// The version of its data; before etcd 3.6 Talos fills in that of the member.
    pub storage_version: String,
}

/// A member, as another one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its ID.
    pub id: MemberId,
    /// The node it runs on; empty until it has started.
    pub hostname: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until it has started.
    pub client_urls: Vec<String>,
    /// Learners do not vote.
    pub learner: bool,
}

/// What can be wrong with a member so badly that etcd raises an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The database is full; writes are refused.
    NoSpace,
    /// The data is corrupt.
    Corrupt,
    /// An alarm that this program does not know.
    Other(i32),
}

impl std::fmt::Display for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSpace => f.pad("NOSPACE"),
            Self::Corrupt => f.pad("CORRUPT"),
            Self::Other(number) => write!(f, "alarm {number}"),
        }
    }
}

/// Whose member the alarm is about: every member lists all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAlarm {
    /// The member.
    pub member: MemberId,
    /// What is wrong.
    pub alarm: Alarm,
}

fn cluster_version(downgrade: Option<wire::EtcdClusterDowngrade>) -> String {
    downgrade.unwrap_or_default().cluster_version
}

fn alarms(alarms: Vec<wire::EtcdMemberAlarm>) -> Vec<MemberAlarm> {
    alarms
        .into_iter()
        .filter_map(|wire::EtcdMemberAlarm { member_id, alarm }| {
            let alarm = match AlarmType::try_from(alarm) {
                Ok(AlarmType::None) => return None,
                Ok(AlarmType::Nospace) => Alarm::NoSpace,
                Ok(AlarmType::Corrupt) => Alarm::Corrupt,
                Err(_) => Alarm::Other(alarm),
            };
            Some(MemberAlarm { member: MemberId(member_id), alarm })
        })
        .collect()
}

/// Whom to ask for the members. Talos asks for a leader either way, so without a
/// quorum neither is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberView {
    /// Whichever member answers.
    #[default]
    Agreed,
    /// The node's own member, so that the answers of several can be compared.
    Local,
}

impl Node {
    /// What the node's member says of itself.
    pub async fn etcd_status(&self) -> Result<EtcdStatus, Error> {
        const METHOD: &str = "EtcdStatus";
        let reply = self
            .read(METHOD, |line| async move { line.machine().etcd_status(line.request(())).await })
            .await?;
        let message = self.only(METHOD, reply.messages)?;
        let status = part(message.member_status, "member_status")
            .map_err(|failure| self.call(METHOD, None).failed(failure))?;
        Ok(EtcdStatus {
            member: MemberId(status.member_id),
            leader: (status.leader != 0).then_some(MemberId(status.leader)),
            index: status.raft_index,
            applied_index: status.raft_applied_index,
            term: status.raft_term,
            learner: status.is_learner,
            errors: status.errors,
            size: u64::try_from(status.db_size).unwrap_or(0),
            size_in_use: u64::try_from(status.db_size_in_use).unwrap_or(0),
            version: status.protocol_version,
            storage_version: status.storage_version,
        })
    }

    /// The members.
    pub async fn etcd_members(&self, view: MemberView) -> Result<Vec<EtcdMember>, Error> {
        const METHOD: &str = "EtcdMemberList";
        let query_local = view == MemberView::Local;
        let reply = self
            .read(METHOD, |line| async move {
                let request = line.request(wire::EtcdMemberListRequest { query_local });
                line.machine().etcd_member_list(request).await
            })
            .await?;
        let members = self.only(METHOD, reply.messages)?.members;
        Ok(members
            .into_iter()
            .map(|member| EtcdMember {
                id: MemberId(member.id),
                hostname: member.hostname,
                peer_urls: member.peer_urls,
                client_urls: member.client_urls,
                learner: member.is_learner,
            })
            .collect())
    }

    /// The alarms of all members.
    pub async fn etcd_alarms(&self) -> Result<Vec<MemberAlarm>, Error> {
        const METHOD: &str = "EtcdAlarmList";
        let reply =
            self.read(METHOD, |line| async move {
                line.machine().etcd_alarm_list(line.request(())).await
            })
            .await?;
        Ok(alarms(self.only(METHOD, reply.messages)?.member_alarms))
    }

    /// Takes all alarms back, and says which there were. Repeating it changes
    /// nothing more; an alarm with a cause left is raised again.
    pub async fn etcd_disarm(&self) -> Result<Vec<MemberAlarm>, Error> {
        const METHOD: &str = "EtcdAlarmDisarm";
        let limit = Limit { attempt: self.deadlines().act, total: self.deadlines().act };
        let answer = self
            .read_within(METHOD, limit, |line| async move {
                line.machine().etcd_alarm_disarm(line.request(())).await
            })
            .await?;
        Ok(alarms(self.only(METHOD, answer.value.messages)?.member_alarms))
    }

    /// Gives unused space of the member's database back. The member answers
    /// nobody meanwhile. Sent at most once.
    pub async fn etcd_defragment(&self) -> Result<(), ActError> {
        const METHOD: &str = "EtcdDefragment";
        let answer = self
            .act(METHOD, self.deadlines().defragment, |line| async move {
                line.machine().etcd_defragment(line.request(())).await
            })
            .await?;
        self.only_act(METHOD, answer.value.messages).map(|_| ())
    }

    /// Asks etcd whether the cluster can be downgraded to this minor, such as `3.6`,
    /// and says which version it is of. Changes nothing. Since Talos 1.11.
    pub async fn etcd_downgrade_validate(&self, to: Minor) -> Result<String, Error> {
        const METHOD: &str = "EtcdDowngradeValidate";
        let reply = self
            .read(METHOD, |line| async move {
                let request = wire::EtcdDowngradeValidateRequest { version: to.to_string() };
                line.machine().etcd_downgrade_validate(line.request(request)).await
            })
            .await?;
        Ok(cluster_version(self.only(METHOD, reply.messages)?.cluster_downgrade))
    }

    /// Enables the downgrade of the cluster to this minor; its version and the data
    /// of its members follow within seconds, if all members answer each other. Says
    /// which version it was of. Sent at most once.
    pub async fn etcd_downgrade_enable(&self, to: Minor) -> Result<String, ActError> {
        const METHOD: &str = "EtcdDowngradeEnable";
        let answer = self
            .act(METHOD, self.deadlines().act, |line| async move {
                let request = wire::EtcdDowngradeEnableRequest { version: to.to_string() };
                line.machine().etcd_downgrade_enable(line.request(request)).await
            })
            .await?;
        Ok(cluster_version(self.only_act(METHOD, answer.value.messages)?.cluster_downgrade))
    }

    /// Takes an enabled downgrade back: the cluster goes up again as soon as all
    /// members run the newer minor. Sent at most once.
    pub async fn etcd_downgrade_cancel(&self) -> Result<String, ActError> {
        const METHOD: &str = "EtcdDowngradeCancel";
        let answer = self
            .act(METHOD, self.deadlines().act, |line| async move {
                line.machine().etcd_downgrade_cancel(line.request(())).await
            })
            .await?;
        Ok(cluster_version(self.only_act(METHOD, answer.value.messages)?.cluster_downgrade))
    }

    /// Hands leadership to another member, and says to which; `None` if this
    /// one did not lead. Sent at most once: another election helps nobody.
    pub async fn etcd_forfeit_leadership(&self) -> Result<Option<String>, ActError> {
        const METHOD: &str = "EtcdForfeitLeadership";
        let answer = self
            .act(METHOD, self.deadlines().act, |line| async move {
                let request = line.request(wire::EtcdForfeitLeadershipRequest {});
                line.machine().etcd_forfeit_leadership(request).await
            })
            .await?;
        let message = self.only_act(METHOD, answer.value.messages)?;
        Ok(Some(message.member).filter(|member| !member.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_named_and_none_is_none() {
        let wire = |member_id, alarm| wire::EtcdMemberAlarm { member_id, alarm };
        let found = alarms(vec![wire(1, 0), wire(2, 1), wire(3, 2), wire(4, 9)]);
        let found: Vec<_> =
            found.iter().map(|one| format!("{} {}", one.member.0, one.alarm)).collect();
        assert_eq!(found, ["2 NOSPACE", "3 CORRUPT", "4 alarm 9"]);
    }
}
