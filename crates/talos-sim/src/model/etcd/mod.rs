//! The cluster's etcd: members, leadership, terms, indexes and alarms.
//!
//! Rule 1: without a quorum it serves nothing, and whatever depends on it is not ready.

mod calls;
mod versions;

use serde::{Deserialize, Serialize};

use super::World;
use super::api::NodeIndex;
use super::fault::{Fault, FaultKind};
use super::node::Power;
use super::schedule::Due;
use super::sequence::Kind;
use super::services;
use super::time::Time;
use super::timing::Span;
use kube_sim::random::Random;

/// How fast the log grows: the writes per second of a small cluster.
const ENTRIES_PER_SECOND: u64 = 4;

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) node: NodeIndex,
    /// Whether it has caught up since its node's last boot.
    ready: bool,
    /// The minor of etcd 3 in its data; 0 until the first check.
    #[serde(default)]
    storage: u64,
    pub(super) db_in_use: i64,
    pub(super) db_size: i64,
}

/// An alarm that a member has raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alarm {
    pub(super) member: u64,
    pub(super) corrupt: bool,
}

/// The members, as all of them see them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Etcd {
    pub(super) cluster_id: u64,
    pub(super) members: Vec<Member>,
    /// The leader's member id, if there is one.
    pub(super) leader: Option<u64>,
    pub(super) term: u64,
    /// The index at `since`; it grows from there while there is a leader.
    index: u64,
    since: Time,
    pub(super) alarms: Vec<Alarm>,
    /// Counts elections, so that a pending older one is void.
    round: u64,
    #[serde(default)]
    versions: versions::Versions,
}

impl Etcd {
    pub(super) fn new(nodes: &[NodeIndex], random: &mut Random, now: Time) -> Self {
        let members: Vec<Member> = nodes
            .iter()
            .map(|node| {
                let in_use = 12_000_000 + i64::try_from(random.below(4_000_000)).unwrap_or(0);
                Member {
                    id: random.number() | 1,
                    node: *node,
                    ready: true,
                    storage: 0,
                    db_in_use: in_use,
                    db_size: in_use * 2,
                }
            })
            .collect();
        let count = u64::try_from(members.len()).unwrap_or(0);
        let leader = usize::try_from(random.below(count))
            .ok()
            .and_then(|place| members.get(place))
            .map(|member| member.id);
        Self {
            cluster_id: random.number(),
            members,
            leader,
            term: 2 + random.below(8),
            index: 100_000 + random.below(900_000),
            since: now,
            alarms: Vec::new(),
            round: 0,
            versions: versions::Versions::default(),
        }
    }

    pub(super) fn index(&self, now: Time) -> u64 {
        if self.leader.is_none() {
            return self.index;
        }
        let elapsed = now.since(self.since);
        let grown = u64::try_from(elapsed.as_millis()).unwrap_or(0) * ENTRIES_PER_SECOND / 1000;
        self.index + grown
    }

    fn set_leader(&mut self, leader: Option<u64>, now: Time) {
        self.index = self.index(now);
        self.since = now;
        if leader.is_some() && leader != self.leader {
            self.term += 1;
            self.index += 1;
        }
        self.leader = leader;
    }

    pub(super) fn member_of(&self, node: NodeIndex) -> Option<&Member> {
        self.members.iter().find(|member| member.node == node)
    }
}

impl World {
    /// Whether a member runs and the others reach it.
    fn member_is_alive(&self, member: &Member) -> bool {
        let node = &self.nodes[member.node.0];
        member.ready
            && node.power == Power::On
            && node.service_runs("etcd")
            && !self.is_cut_off(member.node)
    }

    pub(super) fn is_learner(&self, member: &Member) -> bool {
        self.fault(member.node, FaultKind::EtcdLearner).is_some()
    }

    /// The live voting members, and whether they have a quorum.
    fn voters(&self) -> (Vec<u64>, bool) {
        let voters = || self.etcd.members.iter().filter(|member| !self.is_learner(member));
        let alive: Vec<u64> = voters()
            .filter(|member| self.member_is_alive(member))
            .map(|member| member.id)
            .collect();
        let quorum = alive.len() > voters().count() / 2;
        (alive, quorum)
    }

    /// How many members vote, and how many of those are alive.
    pub(super) fn count_voters(&self) -> (usize, usize) {
        let voters = || self.etcd.members.iter().filter(|member| !self.is_learner(member));
        let alive = voters().filter(|member| self.member_is_alive(member)).count();
        (voters().count(), alive)
    }

    /// Whether etcd on this node serves requests that need a quorum.
    pub(super) fn etcd_serves(&self, node: NodeIndex) -> bool {
        self.etcd.leader.is_some()
            && self.etcd.member_of(node).is_some_and(|member| self.member_is_alive(member))
    }

    /// The applied index of a member: it follows the leader's unless it lags, and stays where it
    /// was while the member is cut off.
    pub(super) fn applied_index(&self, member: &Member) -> u64 {
        let index = self.etcd.index(self.now);
        match self.fault(member.node, FaultKind::EtcdLag) {
            Some(Fault::EtcdLag { entries }) => index.saturating_sub(*entries),
            _ => index,
        }
    }

    /// A member has caught up. A node whose member was removed joins with a new one, if there is a
    /// leader to admit it. A member of an older minor than the cluster's exits.
    pub(super) fn member_is_ready(&mut self, node: NodeIndex) {
        if self.is_too_old_for_cluster(node) {
            return;
        }
        let members = &mut self.etcd.members;
        if let Some(member) = members.iter_mut().find(|member| member.node == node) {
            member.ready = true;
        } else if self.etcd.leader.is_some() && self.nodes[node.0].is_control_plane() {
            let id = self.random.number() | 1;
            let (db_in_use, db_size) = self
                .etcd
                .members
                .first()
                .map_or((0, 0), |member| (member.db_in_use, member.db_in_use));
            let storage = self.cluster_minor();
            self.etcd.members.push(Member { id, node, ready: true, storage, db_in_use, db_size });
        }
    }

    /// The members have changed: updates leadership, health and everything that depends on them.
    pub(super) fn etcd_changed(&mut self) {
        self.wide = true;
        for place in 0..self.etcd.members.len() {
            let node = &self.nodes[self.etcd.members[place].node.0];
            if node.power != Power::On || !node.service_runs("etcd") {
                self.etcd.members[place].ready = false;
            }
        }
        let (alive, quorum) = self.voters();
        let leader_lives = self.etcd.leader.is_some_and(|leader| alive.contains(&leader));
        if !quorum || !leader_lives {
            self.etcd.set_leader(None, self.now);
        }
        if quorum && self.etcd.leader.is_none() {
            self.etcd.round += 1;
            let round = self.etcd.round;
            let lasts = self.draw(NodeIndex(0), Span::Election);
            self.schedule.put(self.now.plus(lasts), Due::Election { round });
        }
        self.follow_etcd();
        self.follow_versions();
    }

    /// Ends an election.
    pub(super) fn elect(&mut self, round: u64) {
        if round != self.etcd.round || self.etcd.leader.is_some() {
            return;
        }
        let (alive, quorum) = self.voters();
        if !quorum {
            return;
        }
        let count = u64::try_from(alive.len()).unwrap_or(0);
        let winner = usize::try_from(self.random.below(count)).unwrap_or(0);
        self.etcd.set_leader(alive.get(winner).copied(), self.now);
        self.follow_etcd();
        self.follow_versions();
        self.register_nodes();
    }

    /// Updates the health of the members' services, and boots that wait for it.
    fn follow_etcd(&mut self) {
        let nodes: Vec<NodeIndex> = self.etcd.members.iter().map(|member| member.node).collect();
        for node in nodes {
            let healthy = self.etcd_serves(node);
            let known =
                self.nodes[node.0].service("etcd").is_some_and(|service| service.healthy.is_some());
            if healthy || known {
                self.set_health(node, "etcd", healthy);
            }
            self.finish_boot(node);
        }
    }

    /// Ends a boot sequence that waits for its services, if they are up.
    pub(super) fn finish_boot(&mut self, node: NodeIndex) {
        let here = &self.nodes[node.0];
        let boots = here.sequence.as_ref().is_some_and(|sequence| sequence.kind == Kind::Boot);
        let up = services::late(here.role).iter().all(|id| here.service_is_healthy(id));
        if boots && up {
            self.end_phase(node);
        }
    }
}
