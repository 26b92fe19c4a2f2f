//! A cluster that is talked to.

use std::sync::Arc;

use upgrade_cluster::{ConnectError, Live, Options, workloads};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::manifests::Manifests;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_core::workload::Workloads;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::{Clock as _, Io as _};

use crate::failed::Failed;
use crate::place::Place;

/// A cluster, and where what is remembered of it lies.
pub struct Session {
    /// Where.
    pub place: Place,
    /// The cluster.
    pub live: Arc<Live<SystemClock>>,
}

/// What was seen of a cluster.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Machines, etcd and nodes.
    pub snapshot: Snapshot,
    /// What runs on them.
    pub workloads: Fact<Workloads>,
    /// What left Talos's manifests.
    pub manifests: Fact<Manifests>,
}

/// How often a cluster is looked at before what is unknown is taken for it.
const LOOKS: u32 = 5;

/// How often, if all that is missing is a Kubernetes API that does not answer: each call
/// to it was repeated already.
const LOOKS_WITHOUT_API: u32 = 2;

/// The time between two looks.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

impl Seen {
    /// Whether every machine was seen, and Kubernetes told nothing.
    fn lacks_api(&self) -> bool {
        self.snapshot
            .nodes
            .values()
            .all(|node| node.talos.trouble().is_none() && node.kubernetes.trouble().is_some())
    }

    /// Whether something could not be seen.
    fn has_gaps(&self) -> bool {
        let Self { snapshot, workloads, manifests } = self;
        let nodes = snapshot.nodes.values().any(|node| {
            node.talos.trouble().is_some()
                || node.kubernetes.trouble().is_some()
                || node.images.trouble().is_some()
        });
        let etcd = match &snapshot.etcd {
            Fact::Known(etcd) => etcd.members.iter().any(|it| it.status.trouble().is_some()),
            Fact::Unknown(_) => true,
            Fact::Unasked => false,
        };
        let unmatched = !snapshot.unmatched.is_empty();
        nodes || unmatched || etcd || workloads.trouble().is_some() || manifests.trouble().is_some()
    }
}

impl Session {
    /// Reads what says how to reach the cluster. Nothing is asked yet.
    pub async fn open(place: Place, policy: &Policy) -> Result<Self, Failed> {
        let options = Options {
            talosconfig: place.talosconfig().map(ToOwned::to_owned),
            context: place.args.context.clone(),
            kubeconfig: place.kubeconfig().map(ToOwned::to_owned),
            snapshots: place.snapshots(policy),
        };
        let live = Live::connect(&options, SystemClock::new()).await.map_err(|error| {
            let next = match &error {
                ConnectError::Kubeconfig(_) => {
                    "name another file with --kubeconfig, or leave it out: Talos has one"
                }
                _ => "name another file with --talosconfig, or another context with --context",
            };
            Failed::of(&error, next)
        })?;
        Ok(Self { place, live: Arc::new(live) })
    }

    /// Looks at the whole cluster once.
    pub async fn snapshot(&self) -> Result<Snapshot, Failed> {
        // Boxed: it asks many at once, and is large.
        Box::pin(upgrade_engine::observe(&*self.live)).await.map_err(|trouble| {
            Failed::refused(
                format!("the cluster cannot be seen: {trouble}"),
                "check that the endpoints of the talosconfig can be reached from here",
            )
        })
    }

    /// Looks at the whole cluster, and at what runs on it. Something that could
    /// not be seen is looked at again: a connection that broke is no reason to
    /// send a person away.
    pub async fn look(&self) -> Result<Seen, Failed> {
        let mut looks = 1;
        loop {
            let (snapshot, workloads, manifests) = tokio::join!(
                self.snapshot(),
                Box::pin(workloads(self.live.kubernetes())),
                Box::pin(upgrade_engine::observe_manifests(&*self.live)),
            );
            let seen = Seen { snapshot: snapshot?, workloads, manifests };
            let enough = if seen.lacks_api() { LOOKS_WITHOUT_API } else { LOOKS };
            if looks >= enough || !seen.has_gaps() {
                return Ok(seen);
            }
            looks += 1;
            self.live.clock().sleep(PAUSE).await;
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.live.clock().now()
    }
}
