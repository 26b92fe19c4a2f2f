//! What really happened to the nodes of a simulated cluster, whatever its object says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talos_sim::cluster::Cluster;
use talos_sim::driver::Driver;
use talos_sim::model::{NodeIndex, NodeRole};
use tokio::task::JoinHandle;

/// How often the nodes are observed. A reboot takes many times as long.
const TICK: Duration = Duration::from_millis(20);

/// One node at one moment.
#[derive(Clone, Debug)]
struct NodeSample {
    name: String,
    control_plane: bool,
    downs: u64,
    away: bool,
    version: String,
}

/// What happened so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// How often each node went down. Counted by the node itself.
    pub(crate) downs: BTreeMap<String, u64>,
    /// The Talos of each node.
    pub(crate) versions: BTreeMap<String, String>,
    /// The nodes that went down between two looks, in order.
    order: Vec<BTreeSet<String>>,
    /// The most workers that were away at once: cordoned, or not ready.
    pub(crate) workers_away: usize,
    /// The same for control planes.
    pub(crate) control_planes_away: usize,
}

impl Story {
    fn take(&mut self, samples: &[NodeSample]) {
        let mut went = BTreeSet::new();
        for sample in samples {
            let before = self.downs.insert(sample.name.clone(), sample.downs);
            if sample.downs > before.unwrap_or(0) {
                went.insert(sample.name.clone());
            }
            self.versions.insert(sample.name.clone(), sample.version.clone());
        }
        if !went.is_empty() {
            self.order.push(went);
        }
        let away = |control_plane: bool| {
            samples.iter().filter(|it| it.away && it.control_plane == control_plane).count()
        };
        self.workers_away = self.workers_away.max(away(false));
        self.control_planes_away = self.control_planes_away.max(away(true));
    }

    /// Every node went down this often.
    #[track_caller]
    pub(crate) fn all_went_down(&self, times: u64) {
        assert!(self.downs.values().all(|downs| *downs == times), "{self:#?}");
    }

    /// How many reboots there were in all.
    pub(crate) fn boots(&self) -> u64 {
        self.downs.values().sum()
    }

    /// All nodes whose names start with `first` went down before any that starts with
    /// `then`. The order of two that one look found down is not known.
    #[track_caller]
    pub(crate) fn went_first(&self, first: &str, then: &str) {
        let of = |role: &str| {
            let mut numbers = Vec::new();
            for (number, went) in self.order.iter().enumerate() {
                if went.iter().any(|name| name.starts_with(role)) {
                    numbers.push(number);
                }
            }
            numbers
        };
        let (first, then) = (of(first), of(then));
        assert!(!first.is_empty() && !then.is_empty(), "{self:#?}");
        assert!(first.last() <= then.first(), "{self:#?}");
    }
}

/// Watches the nodes from now on.
pub(crate) struct Follower {
    driver: Driver,
    story: Arc<Mutex<Story>>,
    task: JoinHandle<()>,
}

impl Follower {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let driver = cluster.driver().clone();
        let story = Arc::new(Mutex::new(Story::default()));
        let (sampled, observed) = (driver.clone(), Arc::clone(&story));
        let task = tokio::spawn(async move {
            while let Some(samples) = sample_nodes(&sampled).await {
                observed.lock().expect("no panic").take(&samples);
                tokio::time::sleep(TICK).await;
            }
        });
        Self { driver, story, task }
    }

    /// Everything until now.
    pub(crate) async fn story(&self) -> Story {
        let samples = sample_nodes(&self.driver).await.expect("the cluster runs");
        let mut story = self.story.lock().expect("no panic");
        story.take(&samples);
        story.clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn sample_nodes(driver: &Driver) -> Option<Vec<NodeSample>> {
    let visited = driver.visit(|inside| {
        let world = &inside.world;
        let sample = |index: NodeIndex| {
            let (truth, node) = (world.truth(index)?, world.kubernetes(index)?);
            Some(NodeSample {
                name: truth.hostname().to_owned(),
                control_plane: truth.role() == NodeRole::ControlPlane,
                downs: truth.downs(),
                away: node.unschedulable || !node.ready,
                version: truth.installed().version.to_string(),
            })
        };
        (0..world.len()).filter_map(|index| sample(NodeIndex(index))).collect()
    });
    visited.await
}
