//! The last observation of the cluster, which decisions are made on, and when it is refreshed (rule
//! 2).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinSet;
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, Record};
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::{Group, Plan};
use upgrade_core::snapshot::{Fact, KubernetesFacts, Node, NodeName, Role, Snapshot};

use super::{DriveError, Driver, Wakeup};
use crate::io::{Changes, Clock as _, Io, Kubernetes as _, Machine, Machines as _};
use crate::journal::Journal;
use crate::observe::{limited, observe};

/// Nothing is disrupted on an observation older than this, even if this run has changed nothing
/// since: others may have.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(15);

/// The last observation.
pub(super) struct LastObservation {
    pub(super) snapshot: Snapshot,
    pub(super) machines: Arc<[Machine]>,
    /// When it was complete; what it shows is from `taken_at` on.
    completed_at: Timestamp,
    /// When something ended that this observation does not show.
    newer_than: Option<Timestamp>,
    watches: Vec<Changes>,
}

impl LastObservation {
    /// Nothing was observed yet.
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            snapshot: Snapshot {
                cluster: plan.cluster.clone(),
                taken_at: Timestamp::MIN,
                nodes: BTreeMap::new(),
                etcd: Fact::Unknown("it was not observed yet".to_owned()),
                kubernetes: Fact::Unknown("it was not observed yet".to_owned()),
                unmatched: BTreeMap::new(),
            },
            machines: Arc::new([]),
            completed_at: Timestamp::MIN,
            newer_than: None,
            watches: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.snapshot.taken_at == Timestamp::MIN
    }

    /// Takes note of an entry: the end of a step that changed a node shows only in the next
    /// observation.
    pub(super) fn note(&mut self, entry: &Entry) {
        let touched = match &entry.record {
            Record::Began => true,
            Record::Finished { step, .. } => step.action.outdates_observation(),
            _ => false,
        };
        if touched {
            self.newer_than = self.newer_than.max(Some(entry.at));
        }
    }

    /// Whether something ended since that it does not show.
    pub(super) fn is_outdated(&self) -> bool {
        self.newer_than.is_some_and(|end| self.snapshot.taken_at <= end)
    }

    /// Whether it is too old for a disruptive step.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        // Counted from its completion: observing many nodes that do not answer takes longer than
        // this.
        let old = self.is_outdated() || now.duration_since(self.completed_at) > MAX_AGE;
        guard!(Mutant::StaleObservation, old)
    }

    /// How long it took.
    pub(super) fn duration(&self) -> SignedDuration {
        self.completed_at.duration_since(self.snapshot.taken_at)
    }

    /// What says that another observation may be worth it.
    pub(super) fn watches(&self) -> Vec<Changes> {
        self.watches.clone()
    }

    fn watch<I: Io>(&mut self, io: &I) {
        if self.watches.is_empty() && !self.machines.is_empty() {
            // Workers are watched through Kubernetes: one watch, not thousands.
            let control_planes = self.machines.iter().filter(|it| it.role == Role::ControlPlane);
            self.watches = control_planes.map(|machine| io.machines().changes(machine)).collect();
            self.watches.push(io.kubernetes().changes());
        }
    }

    fn replace(&mut self, mut snapshot: Snapshot, plan: &Plan) {
        if snapshot.nodes.values().all(|node| node.kubernetes.why_unknown().is_some()) {
            // Discovery may not show them, and Kubernetes cannot: unknown, not gone.
            let why = "discovery does not show it, and Kubernetes does not answer";
            add_missing(&mut snapshot.nodes, &self.snapshot.nodes, plan, why);
        }
        let machines: Arc<[Machine]> = snapshot
            .nodes
            .iter()
            // Some are known from the plan only.
            .filter(|(_, node)| !node.address.is_empty())
            .map(|(name, node)| Machine {
                name: name.clone(),
                address: node.address.clone(),
                role: node.role,
            })
            .collect();
        if machines != self.machines {
            self.machines = machines;
            self.watches.clear();
        }
        self.snapshot = snapshot;
    }

    /// The observation failed as a whole: every node is there and unknown (rule 10).
    fn set_unknown(&mut self, plan: &Plan, why: &str, taken_at: Timestamp) {
        let mut nodes = BTreeMap::new();
        add_missing(&mut nodes, &self.snapshot.nodes, plan, why);
        self.snapshot = Snapshot {
            cluster: plan.cluster.clone(),
            taken_at,
            nodes,
            etcd: Fact::Unknown(why.to_owned()),
            kubernetes: Fact::Unknown(why.to_owned()),
            unmatched: BTreeMap::new(),
        };
    }

    /// What Kubernetes knows, where the machines could not be listed: enough to uncordon a node
    /// (rule 7).
    fn add_kubernetes_facts(&mut self, nodes: &BTreeMap<NodeName, KubernetesFacts>) {
        for (name, node) in &mut self.snapshot.nodes {
            if let Some(facts) = nodes.get(name) {
                node.kubernetes = Fact::Known(facts.clone());
            }
        }
    }
}

/// Adds the nodes of the observation before, and those of the plan, as unknown.
fn add_missing(
    nodes: &mut BTreeMap<NodeName, Node>,
    before: &BTreeMap<NodeName, Node>,
    plan: &Plan,
    why: &str,
) {
    let unknown = |address: String, role: Role, pool: Option<String>| Node {
        address,
        role,
        pool,
        talos: Fact::Unknown(why.to_owned()),
        kubernetes: Fact::Unknown(why.to_owned()),
        images: Fact::Unknown(why.to_owned()),
        api_server: match role {
            Role::ControlPlane => Fact::Unknown(why.to_owned()),
            Role::Worker => Fact::Unasked,
        },
    };
    for (name, node) in before {
        let seen = || unknown(node.address.clone(), node.role, node.pool.clone());
        nodes.entry(name.clone()).or_insert_with(seen);
    }
    for wave in plan.hops.iter().flat_map(|hop| &hop.waves) {
        let role = match wave.group {
            Group::ControlPlane => Role::ControlPlane,
            Group::Workers => Role::Worker,
            Group::Prepare | Group::Cluster => continue,
        };
        for name in wave.lanes.iter().filter_map(|lane| lane.node.clone()) {
            nodes.entry(name).or_insert_with(|| unknown(String::new(), role, None));
        }
    }
}

impl<I: Io, J: Journal> Driver<I, J> {
    /// Observes the cluster. Commands and ends of steps are handled meanwhile; if they outdate the
    /// observation, another one follows.
    pub(super) async fn refresh(&mut self) -> Result<Wakeup, DriveError> {
        // The clock may return the same time twice; newer has to be newer (rule 2).
        while self.observation.newer_than.is_some_and(|end| self.now() <= end) {
            self.io.clock().sleep(SignedDuration::from_millis(1)).await;
        }
        for changes in &mut self.observation.watches {
            changes.mark_unchanged();
        }
        let (io, plan) = (Arc::clone(&self.io), Arc::clone(&self.plan));
        let began = self.now();
        // In a task of its own: it continues while the loop records ends of steps.
        let mut observing = JoinSet::new();
        observing.spawn(async move {
            match observe(&*io, &plan.policy.workers.pool_label).await {
                Ok(snapshot) => Ok(snapshot),
                Err(error) => Err((error, limited(&*io, io.kubernetes().nodes()).await.ok())),
            }
        });
        let seen = loop {
            tokio::select! {
                biased;
                seen = observing.join_next() => break seen,
                () = super::command_changed(&mut self.control) => {
                    if self.take_command().await? {
                        return Ok(Wakeup::Stop);
                    }
                }
                () = self.running.next_end() => self.record_ended_steps().await?,
            }
        };
        match seen {
            // Rule 9: the same names may exist elsewhere.
            Some(Ok(Ok(snapshot))) if snapshot.cluster != self.plan.cluster => {
                let (found, wanted) = (&snapshot.cluster, &self.plan.cluster);
                let why = format!("this is cluster {found}, and the plan is for {wanted}");
                self.observation.set_unknown(&self.plan, &why, began);
            }
            Some(Ok(Ok(mut snapshot))) => {
                let taken_at = snapshot.taken_at.saturating_add(self.ahead);
                snapshot.taken_at = taken_at.unwrap_or(Timestamp::MAX);
                self.observation.replace(snapshot, &self.plan);
            }
            Some(Ok(Err((error, nodes)))) => {
                let why = format!("the machines could not be listed: {error}");
                self.observation.set_unknown(&self.plan, &why, began);
                self.observation.add_kubernetes_facts(&nodes.unwrap_or_default());
            }
            Some(Err(_)) | None => {
                let why = "this program failed while it observed the cluster";
                self.observation.set_unknown(&self.plan, why, began);
            }
        }
        self.observation.watch(&*self.io);
        self.observation.completed_at = self.now();
        Ok(Wakeup::Decide)
    }
}
