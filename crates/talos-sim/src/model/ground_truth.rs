//! The truth about a world, for a referee: the real state of machines and etcd, without calling any
//! API and without changing anything.
//!
//! Only the referee of a simulated upgrade uses it. Adapters do not: callers of a node get the
//! node's answers, which may be late, refused or missing.

use upgrade_core::version::Version;

use super::World;
use super::api::NodeIndex;
use super::kubernetes::{Component, PodState};
use super::node::{Node, Power, Stage};
use super::phases::Effect;
use super::spec::NodeRole;

/// One machine as it is now. Every answer is read directly from the world.
#[derive(Clone, Copy, Debug)]
pub struct NodeTruth<'a> {
    world: &'a World,
    index: NodeIndex,
    here: &'a Node,
}

/// An installed system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstalledTruth<'a> {
    /// The version of Talos.
    pub version: &'a Version,
    /// The schematic; `None` if no Image Factory built it.
    pub schematic: Option<&'a str>,
}

/// A member of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberTruth {
    /// Its id.
    pub id: u64,
    /// Whether it votes; a learner does not.
    pub votes: bool,
    /// Whether it is started, caught up and reached by the others, and there is a leader.
    pub healthy: bool,
    /// How many entries its applied index is behind.
    pub lag: u64,
}

/// The kubelet of a node, or one of its static pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentTruth<'a> {
    /// Which one.
    pub component: Component,
    /// The running image; if nothing runs, the last or the next one.
    pub image: &'a str,
    /// Whether it runs.
    pub runs: bool,
    /// Whether it runs and serves.
    pub ready: bool,
}

impl ComponentTruth<'_> {
    /// The version of the running image, by its tag; `None` while nothing runs.
    pub fn version(&self) -> Option<Version> {
        super::config::image_version(self.image).filter(|_| self.runs)
    }
}

/// The cluster's etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdTruth {
    /// How many members there are, learners included.
    pub members: usize,
    /// How many of them vote.
    pub voters: usize,
    /// How many of the voting ones are started, caught up and reached.
    pub alive: usize,
    /// The node of the leader, if there is one.
    pub leader: Option<NodeIndex>,
    /// How many alarms are raised.
    pub alarms: usize,
    /// The minor of etcd 3 of the cluster version: an older member does not start.
    pub cluster_minor: u64,
}

impl EtcdTruth {
    /// Whether the living voting members are a majority.
    pub fn has_quorum(&self) -> bool {
        self.alive > self.voters / 2
    }

    /// How many living voters it can lose without losing quorum.
    pub fn spare(&self) -> usize {
        self.alive.saturating_sub(self.voters / 2 + 1)
    }
}

impl World {
    /// The truth about a machine; `None` if no machine ever had this index.
    pub fn truth(&self, node: NodeIndex) -> Option<NodeTruth<'_>> {
        let here = self.nodes.get(node.0)?;
        Some(NodeTruth { world: self, index: node, here })
    }

    /// The truth about all machines that belong to the cluster.
    pub fn truths(&self) -> impl Iterator<Item = NodeTruth<'_>> {
        (0..self.nodes.len())
            .filter_map(|index| self.truth(NodeIndex(index)))
            .filter(|node| !node.is_gone())
    }

    /// The truth about etcd.
    pub fn etcd_truth(&self) -> EtcdTruth {
        let (voters, alive) = self.count_voters();
        let leader = self.etcd.leader.and_then(|leader| {
            self.etcd.members.iter().find(|member| member.id == leader).map(|member| member.node)
        });
        let (members, alarms) = (self.etcd.members.len(), self.etcd.alarms.len());
        let cluster_minor = self.cluster_minor();
        EtcdTruth { members, voters, alive, leader, alarms, cluster_minor }
    }
}

impl<'a> NodeTruth<'a> {
    /// Its index.
    pub fn index(&self) -> NodeIndex {
        self.index
    }

    /// Its host name.
    pub fn hostname(&self) -> &'a str {
        &self.here.hostname
    }

    /// Control plane or worker.
    pub fn role(&self) -> NodeRole {
        self.here.role
    }

    /// Whether it has left the cluster for good.
    pub fn is_gone(&self) -> bool {
        self.here.gone
    }

    /// Whether the machine is powered on; false between two boots.
    pub fn is_on(&self) -> bool {
        self.here.power == Power::On
    }

    /// Whether callers can reach it.
    pub fn is_reachable(&self) -> bool {
        self.world.is_reachable(self.index)
    }

    /// Whether it is in stage running: neither booting nor in a sequence that ends in a boot.
    pub fn is_running(&self) -> bool {
        self.is_on() && self.here.stage == Stage::Running
    }

    /// Whether it runs and has no unmet condition.
    pub fn is_ready(&self) -> bool {
        self.is_running() && self.world.unmet_conditions(self.index).is_empty()
    }

    /// Its unmet conditions, by name and reason.
    pub fn unmet(&self) -> Vec<(&'static str, String)> {
        if self.is_running() { self.world.unmet_conditions(self.index) } else { Vec::new() }
    }

    /// Whether its last boot was by kexec; otherwise it was through the firmware.
    pub fn booted_by_kexec(&self) -> bool {
        self.here.kexec
    }

    /// The system that it booted last.
    pub fn installed(&self) -> InstalledTruth<'a> {
        let running = self.here.slots.running();
        InstalledTruth { version: &running.version, schematic: running.schematic.as_deref() }
    }

    /// Names of the system extensions in the last booted system.
    pub fn extensions(&self) -> Vec<String> {
        self.world.extensions_of(self.index)
    }

    /// The machine's platform, and whether its firmware boots signed images only.
    pub fn flavour(&self) -> (&'a str, bool) {
        (&self.here.platform, self.here.secure_boot)
    }

    /// The platform that Talos assumes.
    pub fn runs_as(&self) -> &'a str {
        self.here.runs_as()
    }

    /// Whether Talos runs in a container.
    pub fn in_container(&self) -> bool {
        self.here.in_container()
    }

    /// The system of the next boot, if an installer or a rollback has changed it.
    pub fn armed(&self) -> Option<InstalledTruth<'a>> {
        let armed = self.here.slots.armed()?;
        Some(InstalledTruth { version: &armed.version, schematic: armed.schematic.as_deref() })
    }

    /// Whether the running system is still on its disk and could be booted again.
    pub fn keeps_running_slot(&self) -> bool {
        self.here.slots.keeps_running()
    }

    /// The booted entry and the next one; `None` if its boot loader does not show them.
    pub fn boot_entries(&self) -> Option<(&'a str, &'a str)> {
        let slots = &self.here.slots;
        (!self.here.grub).then(|| (slots.entry(), slots.default_entry()))
    }

    /// The image that the next boot installs first, if an upgrade was staged.
    pub fn staged(&self) -> Option<&'a str> {
        self.here.staged_upgrade.as_deref()
    }

    /// How often an upgrade has wiped its data.
    pub fn wiped(&self) -> u64 {
        self.here.wiped
    }

    /// Changes with every boot.
    pub fn boot_id(&self) -> &'a str {
        &self.here.boot_id
    }

    /// How often it has gone down since the world began.
    pub fn downs(&self) -> u64 {
        self.here.boot - 1
    }

    /// Whether an installer is writing to it.
    pub fn is_installing(&self) -> bool {
        let effect = |sequence: &super::sequence::Sequence| sequence.effect(self.here.minor());
        let in_sequence = || self.here.sequence.as_ref().and_then(effect) == Some(Effect::Install);
        self.here.install.is_some() || in_sequence()
    }

    /// Whether an installer has its own process, as the lifecycle API starts it.
    pub fn has_installer_process(&self) -> bool {
        self.here.install.is_some()
    }

    /// How many installers the lifecycle API has started on it.
    pub fn installs(&self) -> u64 {
        self.here.installs
    }

    /// Whether it is pulling an image for a caller.
    pub fn is_pulling(&self) -> bool {
        !self.here.pulls.is_empty()
    }

    /// Its member of etcd, if it has one.
    pub fn member(&self) -> Option<MemberTruth> {
        let member = self.world.etcd.member_of(self.index)?;
        let applied = self.world.applied_index(member);
        Some(MemberTruth {
            id: member.id,
            votes: !self.world.is_learner(member),
            healthy: self.world.etcd_serves(self.index),
            lag: self.world.etcd.index(self.world.now).saturating_sub(applied),
        })
    }

    /// Its kubelet. It is ready if the node is, as far as the machine knows.
    pub fn kubelet(&self) -> ComponentTruth<'a> {
        let kubelet = &self.here.kubernetes.kubelet;
        let runs = self.is_on() && kubelet.up;
        let ready = runs && self.world.node_ready(self.index);
        ComponentTruth { component: Component::Kubelet, image: &kubelet.image, runs, ready }
    }

    /// Its static pods; a worker has none.
    pub fn static_pods(&self) -> impl Iterator<Item = ComponentTruth<'a>> {
        let truth = *self;
        let NodeTruth { world, index, here } = truth;
        here.kubernetes.pods.iter().map(move |pod| {
            let runs = here.power == Power::On && pod.state == PodState::Running;
            let works = pod.component != Component::ApiServer || truth.api_server_answers();
            let ready = runs && works && world.pod_works(index, pod);
            ComponentTruth { component: pod.component, image: &pod.image, runs, ready }
        })
    }

    /// Whether its own API server runs and is ready, etcd included.
    pub fn api_server_answers(&self) -> bool {
        self.world.api_server_runs(self.index) && self.world.api_server_has_etcd(self.index)
    }
}
