//! The versions of etcd: each member's, its data's, and the cluster's.
//!
//! The leader raises the cluster version once every member runs the newer minor; the members' data
//! follows. From then on, a member of an older minor exits, unless a downgrade was enabled: that
//! lowers the cluster version, and the data, again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talos_proto::machine;
use upgrade_core::version::Version;

use super::super::World;
use super::super::api::{NodeIndex, Reply, Response, Status};
use super::super::node::Node;
use super::super::schedule::Due;
use super::super::services::State;
use super::{Etcd, Member};

/// The interval at which the leader checks the versions of its members.
const CHECK_EVERY: Duration = Duration::from_secs(4);

/// The first minor of etcd 3 that stores the version of its data.
const STORES_VERSION: u64 = 6;

/// What the members have agreed on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Versions {
    /// The minor of etcd 3 of the cluster version; 0 until the first check.
    cluster: u64,
    /// The target minor of an enabled downgrade.
    downgrade: Option<u64>,
    /// Whether the leader's next check is already due.
    due: bool,
}

/// The etcd version that a Talos release ships.
pub(super) fn etcd_version(talos: &Version) -> &'static str {
    match (minor_of(talos), talos.patch()) {
        (0..=9, _) | (10, 0..=8) => "3.5.21",
        (10, _) => "3.5.26",
        (11, _) => "3.6.5",
        (12, _) => "3.6.11",
        (13, _) => "3.6.12",
        _ => "3.7.1",
    }
}

fn minor_of(talos: &Version) -> u64 {
    Version::new(1, 0, 0).minor().steps_to(talos.minor()).unwrap_or(0)
}

/// The minor of etcd 3 that a Talos release ships.
fn etcd_minor(talos: &Version) -> u64 {
    let minor = etcd_version(talos).split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.unwrap_or(0)
}

impl Etcd {
    /// The versions of a cluster that has been running these nodes for a while.
    pub(in super::super) fn of_versions(mut self, nodes: &[Node]) -> Self {
        let minors = self.members.iter().map(|member| etcd_minor(nodes[member.node.0].version()));
        let cluster = minors.min().unwrap_or(0);
        self.versions.cluster = cluster;
        for member in &mut self.members {
            member.storage = cluster;
        }
        self
    }
}

impl World {
    fn runs_minor(&self, member: &Member) -> u64 {
        etcd_minor(self.nodes[member.node.0].version())
    }

    /// The minor of etcd 3 of the cluster version.
    pub(in super::super) fn cluster_minor(&self) -> u64 {
        match self.etcd.versions.cluster {
            0 => self.etcd.members.iter().map(|it| self.runs_minor(it)).min().unwrap_or(0),
            cluster => cluster,
        }
    }

    /// The storage version in a member's status. Before 3.6 etcd reports none, and Talos fills in
    /// the running version.
    pub(super) fn storage_version(&self, member: &Member) -> String {
        let runs = self.runs_minor(member);
        let minor = match member.storage {
            0 => self.cluster_minor(),
            _ if runs < STORES_VERSION => runs,
            storage => storage,
        };
        format!("3.{minor}.0")
    }

    /// Whether the node's member exits because the cluster version is a newer minor. Talos restarts
    /// it again and again.
    pub(super) fn is_too_old_for_cluster(&mut self, node: NodeIndex) -> bool {
        let Some(member) = self.etcd.member_of(node) else { return false };
        let runs = self.runs_minor(member);
        let newest = self.cluster_minor().max(member.storage);
        if runs >= newest {
            return false;
        }
        let message = format!(
            "Error running Containerd(etcd), going to restart forever: task \"etcd\" failed: \
             invalid downgrade; server version 3.{runs} is lower than determined cluster version \
             3.{newest}"
        );
        self.set_service(node, "etcd", State::Waiting, Some(false), message);
        true
    }

    /// The cluster's next version, if the leader would change it now. It is unknown while a member
    /// does not answer.
    fn next_cluster_minor(&self) -> Option<u64> {
        let members = &self.etcd.members;
        if !members.iter().all(|member| self.member_is_alive(member)) {
            return None;
        }
        let lowest = members.iter().map(|member| self.runs_minor(member)).min()?;
        let cluster = self.cluster_minor();
        match self.etcd.versions.downgrade {
            Some(target) => (target + 1 == cluster && lowest == cluster).then_some(target),
            None => (cluster < lowest).then_some(lowest),
        }
    }

    /// Whether every member runs the downgrade's target.
    fn is_downgraded(&self) -> bool {
        let target = self.etcd.versions.downgrade;
        let there = |member: &Member| {
            self.member_is_alive(member) && Some(self.runs_minor(member)) == target
        };
        target.is_some() && self.etcd.members.iter().all(there)
    }

    fn lags_in_storage(&self, member: &Member) -> bool {
        self.member_is_alive(member)
            && self.runs_minor(member) >= STORES_VERSION
            && member.storage != self.cluster_minor()
    }

    /// Schedules the leader's next check, if there is something to change.
    pub(super) fn follow_versions(&mut self) {
        let something = self.next_cluster_minor().is_some()
            || self.is_downgraded()
            || self.etcd.members.iter().any(|member| self.lags_in_storage(member));
        if something && self.etcd.leader.is_some() && !self.etcd.versions.due {
            self.etcd.versions.due = true;
            self.schedule.put(self.now.plus(CHECK_EVERY), Due::EtcdVersions);
        }
    }

    pub(in super::super) fn check_etcd_versions(&mut self) {
        self.etcd.versions.due = false;
        if self.etcd.leader.is_none() {
            return;
        }
        if let Some(next) = self.next_cluster_minor() {
            self.etcd.versions.cluster = next;
        }
        if self.is_downgraded() {
            self.etcd.versions.downgrade = None;
        }
        let cluster = self.cluster_minor();
        for place in 0..self.etcd.members.len() {
            if self.lags_in_storage(&self.etcd.members[place]) {
                self.etcd.members[place].storage = cluster;
            }
        }
        self.follow_versions();
    }

    fn check_downgrade(&self, node: NodeIndex, version: &str, what: &str) -> Result<u64, Status> {
        self.check_control_plane(node, what)?;
        let target = read_target(version)?;
        self.local_member(node)?;
        self.check_quorum(node).map_err(|status| refused(&status.message))?;
        if target + 1 != self.cluster_minor() {
            return Err(refused("etcdserver: invalid downgrade target version"));
        }
        if self.etcd.versions.downgrade.is_some() {
            return Err(refused("etcdserver: cluster has a downgrade job in progress"));
        }
        Ok(target)
    }

    fn cluster_downgrade(&self) -> machine::EtcdClusterDowngrade {
        let cluster_version = format!("3.{}", self.cluster_minor());
        machine::EtcdClusterDowngrade { cluster_version }
    }

    pub(in super::super) fn etcd_downgrade_validate(
        &self,
        node: NodeIndex,
        version: &str,
    ) -> Reply {
        let checked = self.check_downgrade(node, version, "etcd downgrade validate");
        answer(checked.map(|_| machine::EtcdDowngradeValidateResponse {
            messages: vec![machine::EtcdDowngradeValidate {
                metadata: None,
                cluster_downgrade: Some(self.cluster_downgrade()),
            }],
        }))
    }

    pub(in super::super) fn etcd_downgrade_enable(
        &mut self,
        node: NodeIndex,
        version: &str,
    ) -> Reply {
        let checked = self.check_downgrade(node, version, "etcd downgrade enable");
        let cluster_downgrade = Some(self.cluster_downgrade());
        if let Ok(target) = &checked {
            self.etcd.versions.downgrade = Some(*target);
            self.follow_versions();
        }
        answer(checked.map(|_| machine::EtcdDowngradeEnableResponse {
            messages: vec![machine::EtcdDowngradeEnable { metadata: None, cluster_downgrade }],
        }))
    }

    /// Cancelling without an enabled downgrade is only logged by etcd.
    pub(in super::super) fn etcd_downgrade_cancel(&mut self, node: NodeIndex) -> Reply {
        let checked = self
            .check_control_plane(node, "etcd downgrade cancel")
            .and_then(|()| self.local_member(node).map(|_| ()))
            .and_then(|()| self.check_quorum(node).map_err(|status| refused(&status.message)));
        if checked.is_ok() {
            self.etcd.versions.downgrade = None;
            self.follow_versions();
        }
        let cluster_downgrade = Some(self.cluster_downgrade());
        answer(checked.map(|()| machine::EtcdDowngradeCancelResponse {
            messages: vec![machine::EtcdDowngradeCancel { metadata: None, cluster_downgrade }],
        }))
    }
}

/// Talos's error for a refusal of etcd: the message, without a code.
fn refused(words: &str) -> Status {
    Status::unknown(format!("failed to query etcd status: {words}"))
}

fn answer(result: Result<impl Into<Response>, Status>) -> Reply {
    match result {
        Ok(response) => Reply::Unary(response.into()),
        Err(status) => Reply::Error(status),
    }
}

/// Talos's own checks of the version: major and minor only, from 3.5 on.
fn read_target(version: &str) -> Result<u64, Status> {
    if version.is_empty() {
        return Err(Status::invalid_argument("version is required for etcd downgrade"));
    }
    let parts: Vec<&str> = version.split('.').collect();
    let [major, minor] = parts.as_slice() else {
        return Err(Status::invalid_argument("version should be in MAJOR.MINOR format"));
    };
    let number = |text: &str, what: &str| {
        let wrong = || Status::invalid_argument(format!("{what} version should be a number"));
        text.parse::<u64>().map_err(|_| wrong())
    };
    let (major, minor) = (number(major, "major")?, number(minor, "minor")?);
    if (major, minor) < (3, 5) {
        let text = "etcd downgrade is only supported to 3.5 and later versions";
        return Err(Status::invalid_argument(text));
    }
    if major != 3 {
        return Err(refused("etcdserver: invalid downgrade target version"));
    }
    Ok(minor)
}
