//! etcd, through the member of one node.

use talos_proto::machine as wire;
use talos_proto::machine::etcd_member_alarm::AlarmType;
use upgrade_core::snapshot::MemberId;
use upgrade_core::version::Minor;

use crate::client::{Limit, Node};
use crate::error::{ActError, Error};
use crate::reply::part;

/// The status of a node's member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Its ID.
    pub member: MemberId,
    /// The leader it follows; `None` if it knows none.
    pub leader: Option<MemberId>,
    /// The last raft index it received.
    pub index: u64,
    /// The last raft index it applied.
    pub applied_index: u64,
    /// Its raft term.
    pub term: u64,
    /// Learners do not vote.
    pub learner: bool,
    /// Errors it reports.
    pub errors: Vec<String>,
    /// The size of its database, in bytes.
    pub size: u64,
    /// The bytes in use; defragmenting frees the rest.
    pub size_in_use: u64,
    /// The version of etcd.
    pub version: String,
    /// The version of its data; before etcd 3.6 Talos reports the member's version.
    pub storage_version: String,
}

/// A member in the list of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its ID.
    pub id: MemberId,
    /// The host name of its node; empty until it has started.
    pub hostname: String,
    /// The URLs for other members.
    pub peer_urls: Vec<String>,
    /// The URLs for clients; empty until it has started.
    pub client_urls: Vec<String>,
    /// Learners do not vote.
    pub learner: bool,
}

/// A condition for which etcd raises an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The database is full; writes are rejected.
    NoSpace,
    /// The data is corrupt.
    Corrupt,
    /// An unknown alarm.
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

/// An alarm and its member: every member lists all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAlarm {
    /// The member.
    pub member: MemberId,
    /// The alarm.
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

/// Which member to ask for the list. Talos asks for a leader either way, so without a quorum
/// neither works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberView {
    /// Any member that answers.
    #[default]
    Agreed,
    /// The node's own member, to compare the lists of several members.
    Local,
}

impl Node {
    /// The status of the node's member.
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

    /// Disarms all alarms, and returns them. Repeating it changes nothing more; an alarm whose
    /// cause persists is raised again.
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

    /// Defragments the member's database. The member answers no requests meanwhile. Sent at most
    /// once.
    pub async fn etcd_defragment(&self) -> Result<(), ActError> {
        const METHOD: &str = "EtcdDefragment";
        let answer = self
            .act(METHOD, self.deadlines().defragment, |line| async move {
                line.machine().etcd_defragment(line.request(())).await
            })
            .await?;
        self.only_act(METHOD, answer.value.messages).map(|_| ())
    }

    /// Asks etcd whether the cluster can be downgraded to this minor, such as `3.6`, and returns
    /// its current version. Changes nothing. Since Talos 1.11.
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

    /// Enables the downgrade of the cluster to this minor; its version and the members' data follow
    /// within seconds if all members are reachable. Returns the previous version. Sent at most
    /// once.
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

    /// Cancels an enabled downgrade: the cluster version goes up again once all members run the
    /// newer minor. Sent at most once.
    pub async fn etcd_downgrade_cancel(&self) -> Result<String, ActError> {
        const METHOD: &str = "EtcdDowngradeCancel";
        let answer = self
            .act(METHOD, self.deadlines().act, |line| async move {
                line.machine().etcd_downgrade_cancel(line.request(())).await
            })
            .await?;
        Ok(cluster_version(self.only_act(METHOD, answer.value.messages)?.cluster_downgrade))
    }

    /// Moves leadership to another member, and returns its host name; `None` if this one did not
    /// lead. Sent at most once: a repeated election has no benefit.
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
