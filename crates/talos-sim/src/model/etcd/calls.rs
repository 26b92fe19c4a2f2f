//! The calls about etcd.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use talos_proto::machine::etcd_member_alarm::AlarmType;
use talos_proto::{common, machine};

use super::super::World;
use super::super::api::{NodeIndex, Reply, Response, Status};
use super::super::snapshot_file;
use super::versions::etcd_version;
use super::{Alarm, Member};

/// The chunk size of a streamed file.
const PIECE: usize = 32 * 1024;

fn reply(result: Result<impl Into<Response>, Status>) -> Reply {
    match result {
        Ok(response) => Reply::Unary(response.into()),
        Err(status) => Reply::Error(status),
    }
}

fn no_client() -> Status {
    Status::deadline_exceeded(
        "failed to create etcd client: error building etcd client: context deadline exceeded",
    )
}

impl World {
    /// Only control planes have a member.
    pub(super) fn check_control_plane(&self, node: NodeIndex, what: &str) -> Result<(), Status> {
        if self.nodes[node.0].is_control_plane() {
            return Ok(());
        }
        Err(Status::unimplemented(format!("{what} is only available on control plane nodes")))
    }

    /// The node's own member, if its etcd runs.
    pub(super) fn local_member(&self, node: NodeIndex) -> Result<&Member, Status> {
        let member = self.etcd.member_of(node).ok_or_else(no_client)?;
        let runs = member.ready && self.nodes[node.0].service_runs("etcd");
        runs.then_some(member).ok_or_else(no_client)
    }

    /// Checks the quorum for calls that need it; they ask all reachable control planes.
    pub(super) fn check_quorum(&self, node: NodeIndex) -> Result<(), Status> {
        let cut_off = self.is_cut_off(node);
        if self.etcd.leader.is_some() && !cut_off {
            Ok(())
        } else {
            Err(Status::unavailable("etcdserver: no leader"))
        }
    }

    /// A learner serves only its status and a snapshot. Talos passes on etcd's message without its
    /// code.
    fn check_votes(&self, member: &Member, what: &str) -> Result<(), Status> {
        if self.is_learner(member) {
            let words = format!("{what}etcdserver: rpc not supported for learner");
            return Err(Status::unknown(words));
        }
        Ok(())
    }

    pub(in super::super) fn etcd_member_list(
        &self,
        node: NodeIndex,
        request: machine::EtcdMemberListRequest,
    ) -> Reply {
        let members = self.check_control_plane(node, "member list").and_then(|()| {
            if request.query_local {
                let local = self.local_member(node)?;
                self.check_votes(local, "")?;
            }
            self.check_quorum(node)?;
            Ok(self.members())
        });
        reply(members.map(|members| machine::EtcdMemberListResponse {
            messages: vec![machine::EtcdMembers {
                metadata: None,
                legacy_members: members.iter().map(|member| member.hostname.clone()).collect(),
                members,
            }],
        }))
    }

    fn members(&self) -> Vec<machine::EtcdMember> {
        self.etcd
            .members
            .iter()
            .map(|member| {
                let node = &self.nodes[member.node.0];
                let urls = |port: u16| {
                    node.addresses
                        .iter()
                        .take(1)
                        .map(|address| {
                            format!("https://{}", std::net::SocketAddr::new(*address, port))
                        })
                        .collect()
                };
                machine::EtcdMember {
                    id: member.id,
                    hostname: node.hostname.clone(),
                    peer_urls: urls(2380),
                    client_urls: urls(2379),
                    is_learner: self.is_learner(member),
                }
            })
            .collect()
    }

    pub(in super::super) fn etcd_status(&self, node: NodeIndex) -> Reply {
        let status = self
            .check_control_plane(node, "etcd status")
            .and_then(|()| self.local_member(node))
            .map(|member| {
                let mut errors = Vec::new();
                if !self.etcd_serves(node) {
                    errors.push("etcdserver: no leader".to_owned());
                }
                for alarm in &self.etcd.alarms {
                    let kind = if alarm.corrupt { "CORRUPT" } else { "NOSPACE" };
                    errors.push(format!("memberID:{} alarm:{kind} ", alarm.member));
                }
                machine::EtcdMemberStatus {
                    protocol_version: etcd_version(self.nodes[node.0].version()).to_owned(),
                    db_size: member.db_size,
                    db_size_in_use: member.db_in_use,
                    leader: self.etcd.leader.filter(|_| self.etcd_serves(node)).unwrap_or(0),
                    raft_index: self.etcd.index(self.now),
                    raft_term: self.etcd.term,
                    raft_applied_index: self.applied_index(member),
                    errors,
                    is_learner: self.is_learner(member),
                    member_id: member.id,
                    storage_version: self.storage_version(member),
                }
            });
        reply(status.map(|status| machine::EtcdStatusResponse {
            messages: vec![machine::EtcdStatus { metadata: None, member_status: Some(status) }],
        }))
    }

    fn alarms(&self) -> Vec<machine::EtcdMemberAlarm> {
        let alarm = |Alarm { member, corrupt }: &Alarm| machine::EtcdMemberAlarm {
            member_id: *member,
            alarm: if *corrupt { AlarmType::Corrupt } else { AlarmType::Nospace }.into(),
        };
        self.etcd.alarms.iter().map(alarm).collect()
    }

    pub(in super::super) fn etcd_alarm_list(&self, node: NodeIndex) -> Reply {
        let alarms = self
            .check_control_plane(node, "etcd alarm list")
            .and_then(|()| self.local_member(node))
            .and_then(|local| self.check_votes(local, "failed to list etcd alarms: "))
            .and_then(|()| self.check_quorum(node))
            .map(|()| self.alarms());
        reply(alarms.map(|member_alarms| machine::EtcdAlarmListResponse {
            messages: vec![machine::EtcdAlarm { metadata: None, member_alarms }],
        }))
    }

    /// Disarms every alarm. On a real node its cause may raise it again; here a fault raises it
    /// once, so it stays disarmed.
    pub(in super::super) fn etcd_alarm_disarm(&mut self, node: NodeIndex) -> Reply {
        let checked = self
            .check_control_plane(node, "etcd alarm disarm")
            .and_then(|()| self.local_member(node).map(|_| ()))
            .and_then(|()| self.check_quorum(node));
        let member_alarms = self.alarms();
        if checked.is_ok() {
            self.etcd.alarms.clear();
        }
        reply(checked.map(|()| machine::EtcdAlarmDisarmResponse {
            messages: vec![machine::EtcdAlarmDisarm { metadata: None, member_alarms }],
        }))
    }

    pub(in super::super) fn etcd_defragment(&mut self, node: NodeIndex) -> Reply {
        let checked = self
            .check_control_plane(node, "etcd defragment")
            .and_then(|()| self.local_member(node).map(|_| ()));
        if checked.is_ok() {
            for member in &mut self.etcd.members {
                if member.node == node {
                    member.db_size = member.db_in_use;
                }
            }
        }
        reply(checked.map(|()| machine::EtcdDefragmentResponse {
            messages: vec![machine::EtcdDefragment::default()],
        }))
    }

    /// Leadership moves to the first other member of the list.
    pub(in super::super) fn etcd_forfeit_leadership(&mut self, node: NodeIndex) -> Reply {
        let result = self.forfeit(node);
        if let Ok(Some((id, _))) = &result {
            let id = *id;
            self.etcd.set_leader(Some(id), self.now);
        }
        reply(result.map(|moved| machine::EtcdForfeitLeadershipResponse {
            messages: vec![machine::EtcdForfeitLeadership {
                metadata: None,
                member: moved.map(|(_, hostname)| hostname).unwrap_or_default(),
            }],
        }))
    }

    fn forfeit(&self, node: NodeIndex) -> Result<Option<(u64, String)>, Status> {
        self.check_control_plane(node, "etcd forfeit leadership")?;
        self.check_quorum(node)?;
        let local = self.local_member(node)?;
        if self.etcd.members.len() == 1 {
            return Err(Status::unknown(
                "failed to forfeit leadership: cannot forfeit leadership, only one member",
            ));
        }
        if self.etcd.leader != Some(local.id) {
            return Ok(None);
        }
        let Some(other) = self.etcd.members.iter().find(|member| member.id != local.id) else {
            return Ok(None);
        };
        if self.is_learner(other) {
            return Err(Status::failed_precondition(
                "failed to forfeit leadership: etcdserver: bad leader transferee",
            ));
        }
        if !self.member_is_alive(other) {
            return Err(Status::unavailable(
                "failed to forfeit leadership: etcdserver: request timed out, leader transfer took \
                 too long",
            ));
        }
        Ok(Some((other.id, self.nodes[other.node.0].hostname.clone())))
    }

    pub(in super::super) fn etcd_remove_member(&mut self, node: NodeIndex, id: u64) -> Reply {
        let checked = self
            .check_control_plane(node, "etcd remove member")
            .and_then(|()| self.check_quorum(node))
            .and_then(|()| {
                let known = self.etcd.members.iter().any(|member| member.id == id);
                let message = format!("failed to remove member {id}: etcdserver: member not found");
                known.then_some(()).ok_or_else(|| Status::not_found(message))
            });
        if checked.is_ok() {
            self.remove_member(id);
        }
        reply(checked.map(|()| machine::EtcdRemoveMemberByIdResponse {
            messages: vec![machine::EtcdRemoveMemberById::default()],
        }))
    }

    pub(in super::super) fn etcd_leave_cluster(&mut self, node: NodeIndex) -> Reply {
        let local = self
            .check_control_plane(node, "etcd leave")
            .and_then(|()| self.check_quorum(node))
            .and_then(|()| self.local_member(node).map(|member| member.id));
        if let Ok(id) = local {
            self.stop_service(node, "etcd");
            self.remove_member(id);
        }
        reply(local.map(|_| machine::EtcdLeaveClusterResponse {
            messages: vec![machine::EtcdLeaveCluster::default()],
        }))
    }

    pub(in super::super) fn remove_member(&mut self, id: u64) {
        self.etcd.members.retain(|member| member.id != id);
        self.etcd.alarms.retain(|alarm| alarm.member != id);
        self.etcd_changed();
    }

    /// A file that etcd's own tools read, followed by its sha256.
    pub(in super::super) fn etcd_snapshot(&self, node: NodeIndex) -> Reply {
        let local =
            self.check_control_plane(node, "etcd snapshot").and_then(|()| self.local_member(node));
        let member = match local {
            Ok(member) => member,
            Err(status) => return status.into(),
        };
        let applied = self.applied_index(member);
        let content = snapshot_file::Content {
            term: self.etcd.term,
            index: applied,
            storage_version: self.storage_version(member),
            members: self
                .members()
                .into_iter()
                .map(|member| snapshot_file::Member {
                    id: member.id,
                    name: member.hostname,
                    peer_urls: member.peer_urls,
                    client_urls: member.client_urls,
                    learner: member.is_learner,
                })
                .collect(),
            keys: self
                .nodes
                .iter()
                .map(|node| {
                    let key = format!("/registry/minions/{}", node.hostname);
                    (key, b"k8s\0simulated".to_vec())
                })
                .collect(),
        };
        let mut file = snapshot_file::write(&content);
        let sum = Sha256::digest(&file);
        file.extend_from_slice(&sum);
        let file = Bytes::from(file);
        let pieces = (0..file.len()).step_by(PIECE).map(|from| {
            let to = (from + PIECE).min(file.len());
            Response::Data(common::Data { metadata: None, bytes: file.slice(from..to) })
        });
        Reply::Items(pieces.collect())
    }

    /// The etcd checks of the legacy upgrade. Every refusal is a plain Go error, which gRPC reports
    /// as `Unknown`.
    pub(in super::super) fn validate_etcd_for_upgrade(
        &self,
        node: NodeIndex,
        wipes: bool,
    ) -> Result<(), Status> {
        self.check_quorum(node).map_err(|status| {
            Status::unknown(format!(
                "failed to acquire upgrade mutex: error establishing etcd concurrency session: {}",
                status.message
            ))
        })?;
        let members = &self.etcd.members;
        if wipes && members.len() == 1 {
            return Err(Status::unknown(
                "error validating etcd for upgrade: only 1 etcd member found; assuming this is \
                 not an HA setup and refusing to upgrade; if this is a single-node cluster, use \
                 --preserve to upgrade",
            ));
        }
        if members.len() == 2 {
            return Err(Status::unknown(
                "error validating etcd for upgrade: etcd member count(2) is insufficient to \
                 maintain quorum if upgrade commences",
            ));
        }
        for member in members {
            if !self.member_is_alive(member) {
                return Err(Status::unknown(format!(
                    "error validating etcd for upgrade: etcd member {:016x} is not healthy; all \
                     members must be healthy to perform an upgrade: context deadline exceeded",
                    member.id
                )));
            }
        }
        Ok(())
    }
}
