//! The picture of the cluster that decisions are made on, and how it is kept
//! fresh (rule 2).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinSet;
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, Record};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::{Group, Plan};
use upgrade_core::snapshot::{Fact, KubernetesFacts, Node, NodeName, Role, Snapshot};
use upgrade_core::step::Action;

use super::{DriveError, Driver, Woke};
use crate::io::{Changes, Clock as _, Io, Kubernetes as _, Machine, Machines as _};
use crate::journal::Journal;
use crate::observe::{limited, observe};

/// Nothing is disrupted on a picture older than this, even if we ourselves
/// changed nothing since: others may have.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(15);

/// What was seen last.
pub(super) struct Picture {
    pub(super) snapshot: Snapshot,
    pub(super) machines: Arc<[Machine]>,
    /// When it came in; what it shows is from `taken_at` on.
    arrived: Timestamp,
    /// Something that the picture does not show ended at this moment.
    newer_than: Option<Timestamp>,
    ears: Vec<Changes>,
}

impl Picture {
    /// Nothing was seen yet.
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            snapshot: Snapshot {
                cluster: plan.cluster.clone(),
                taken_at: Timestamp::MIN,
                nodes: BTreeMap::new(),
                etcd: Fact::Unknown("it was not looked at yet".to_owned()),
                kubernetes: Fact::Unknown("it was not looked at yet".to_owned()),
                unmatched: BTreeMap::new(),
            },
            machines: Arc::new([]),
            arrived: Timestamp::MIN,
            newer_than: None,
            ears: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.snapshot.taken_at == Timestamp::MIN
    }

    /// Takes note of an entry: the end of a step that touched a node shows only
    /// in the next picture.
    pub(super) fn note(&mut self, entry: &Entry) {
        let touched = match &entry.record {
            Record::Began => true,
            Record::Finished { step, .. } => {
                !matches!(step.action, Action::Pull | Action::CheckRemovals | Action::SnapshotEtcd)
            }
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

    /// Whether it is too old to disrupt anything on.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        if mutant::is(Mutant::StaleObservation) {
            return false;
        }
        // Counted from its arrival: a look at many nodes that do not answer takes
        // longer than this.
        self.is_outdated() || now.duration_since(self.arrived) > MAX_AGE
    }

    /// How long the look took.
    pub(super) fn cost(&self) -> SignedDuration {
        self.arrived.duration_since(self.snapshot.taken_at)
    }

    /// Where it is told that another picture may be worth it.
    pub(super) fn ears(&self) -> Vec<Changes> {
        self.ears.clone()
    }

    fn listen<I: Io>(&mut self, io: &I) {
        if self.ears.is_empty() && !self.machines.is_empty() {
            // Workers are heard through Kubernetes: one voice, not thousands.
            let control_planes = self.machines.iter().filter(|it| it.role == Role::ControlPlane);
            self.ears = control_planes.map(|machine| io.machines().changes(machine)).collect();
            self.ears.push(io.kubernetes().changes());
        }
    }

    fn take(&mut self, mut snapshot: Snapshot, plan: &Plan) {
        if snapshot.nodes.values().all(|node| node.kubernetes.trouble().is_some()) {
            // Discovery may not show them, and Kubernetes cannot: unknown, not gone.
            let why = "discovery does not show it, and Kubernetes does not answer";
            add_missing(&mut snapshot.nodes, &self.snapshot.nodes, plan, why);
        }
        let machines: Arc<[Machine]> = snapshot
            .nodes
            .iter()
            // Of some only the plan knows.
            .filter(|(_, node)| !node.address.is_empty())
            .map(|(name, node)| Machine {
                name: name.clone(),
                address: node.address.clone(),
                role: node.role,
            })
            .collect();
        if machines != self.machines {
            self.machines = machines;
            self.ears.clear();
        }
        self.snapshot = snapshot;
    }

    /// A look that failed as a whole: every node is there and unknown (rule 10).
    fn blind(&mut self, plan: &Plan, why: &str, taken_at: Timestamp) {
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

    /// What Kubernetes tells although the machines could not be listed: enough to give a
    /// node back (rule 7).
    fn hear(&mut self, nodes: &BTreeMap<NodeName, KubernetesFacts>) {
        for (name, node) in &mut self.snapshot.nodes {
            if let Some(facts) = nodes.get(name) {
                node.kubernetes = Fact::Known(facts.clone());
            }
        }
    }
}

/// Adds the nodes that were there before, and those of the plan, as unknown.
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
    /// Looks at the cluster. The user's word and the ends of steps are heard
    /// meanwhile; a look that they outdate is followed by another one.
    pub(super) async fn look(&mut self) -> Result<Woke, DriveError> {
        // A clock may tell the same time twice; newer has to be newer (rule 2).
        while self.picture.newer_than.is_some_and(|end| self.now() <= end) {
            self.io.clock().sleep(SignedDuration::from_millis(1)).await;
        }
        for changes in &mut self.picture.ears {
            changes.mark_unchanged();
        }
        let (io, plan) = (Arc::clone(&self.io), Arc::clone(&self.plan));
        let began = self.now();
        // A task of its own: a look goes on while the loop takes steps in.
        let mut looking = JoinSet::new();
        looking.spawn(async move {
            match observe(&*io, &plan.policy.workers.pool_label).await {
                Ok(snapshot) => Ok(snapshot),
                Err(trouble) => Err((trouble, limited(&*io, io.kubernetes().nodes()).await.ok())),
            }
        });
        let seen = loop {
            tokio::select! {
                biased;
                seen = looking.join_next() => break seen,
                () = super::heard(&mut self.control) => {
                    if self.hear().await? {
                        return Ok(Woke::Stop);
                    }
                }
                () = self.flights.one_ends() => self.take_in().await?,
            }
        };
        match seen {
            // Rule 9: the same names may exist elsewhere.
            Some(Ok(Ok(snapshot))) if snapshot.cluster != self.plan.cluster => {
                let (found, wanted) = (&snapshot.cluster, &self.plan.cluster);
                let why = format!("this is cluster {found}, and the plan is for {wanted}");
                self.picture.blind(&self.plan, &why, began);
            }
            Some(Ok(Ok(mut snapshot))) => {
                let taken_at = snapshot.taken_at.saturating_add(self.ahead);
                snapshot.taken_at = taken_at.unwrap_or(Timestamp::MAX);
                self.picture.take(snapshot, &self.plan);
            }
            Some(Ok(Err((trouble, nodes)))) => {
                let why = format!("the machines could not be listed: {trouble}");
                self.picture.blind(&self.plan, &why, began);
                self.picture.hear(&nodes.unwrap_or_default());
            }
            Some(Err(_)) | None => {
                let why = "this program failed while it looked at the cluster";
                self.picture.blind(&self.plan, why, began);
            }
        }
        self.picture.listen(&*self.io);
        self.picture.arrived = self.now();
        Ok(Woke::Again)
    }
}
