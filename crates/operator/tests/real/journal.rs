//! The journal of a run in objects of a real API server: fenced, and bounded in size.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Entry, Record as Kind};
use upgrade_core::plan::{PLAN_FORMAT, Plan, Versions};
use upgrade_core::policy::Policy;
use upgrade_core::version::Version;
use upgrade_engine::journal::{Fence, Lost};
use upgrade_operator::run::{NewRun, Record, RecordError, RunStore};
use vitistack_api::KubernetesCluster;
use vitistack_api::run::{Product, UpgradeRun};

use crate::world::World;

/// A lease that the test can take away.
struct Switch(AtomicBool);

impl Fence for Switch {
    fn holds(&self) -> Result<(), Lost> {
        if self.0.load(Ordering::Relaxed) { Ok(()) } else { Err(Lost("gone".to_owned())) }
    }
}

fn entry(plan: &Plan, number: usize) -> Entry {
    // Text that does not compress well: the worst case for the size.
    let key = format!("{:x?}", Sha256::digest(number.to_be_bytes()));
    Entry {
        at: Timestamp::UNIX_EPOCH,
        plan: plan.hash(),
        runner: "test".to_owned(),
        record: Kind::Waiting { key },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_is_fenced_and_stays_small() {
    const LONG: usize = 1200;
    let world = World::start("journal").await;
    world.cluster("long").await;
    let cluster = world.get("kubernetescluster long").await;
    let cluster: KubernetesCluster = serde_json::from_value(cluster).expect("a cluster");
    let client = world.client().await;
    let store = RunStore::new(client.clone(), &cluster);
    let plan = Plan {
        format: PLAN_FORMAT,
        cluster: "long".to_owned(),
        parent: None,
        rollback: false,
        from: Versions::default(),
        to: Versions::default(),
        policy: Policy::default(),
        prune: Vec::new(),
        nodes: BTreeMap::new(),
        hops: Vec::new(),
    };
    let new = NewRun {
        product: Product::Talos,
        from: None,
        to: &Version::new(1, 13, 9),
        rollback: false,
        plan: Ok(&plan),
        cast: &BTreeMap::new(),
        runner: "test",
    };
    let made = store.create(&new).await.expect("a run");
    let name = made.metadata.name.clone().expect("a name");
    let lease = Arc::new(Switch(AtomicBool::new(true)));
    let fence = || Arc::clone(&lease) as Arc<dyn Fence>;
    let open = async |run: UpgradeRun| Record::open(client.clone(), run, fence()).await;
    let mut first = open(made.clone()).await.expect("readable");
    let mut second = open(made).await.expect("readable");
    first.append(&entry(&plan, 0)).await.expect("written");
    // Rule 9: a writer with an older state has lost the run.
    let taken = second.append(&entry(&plan, LONG)).await;
    assert!(matches!(taken, Err(RecordError::Taken(_))), "{taken:?}");
    // A label that somebody else sets does not matter.
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    world.merge(&format!("upgraderun {name}"), &label).await;
    for number in 1..LONG {
        first.append(&entry(&plan, number)).await.expect("written");
    }
    let status = first.status();
    assert!(status.parts >= 1 && !status.sealed.is_empty() && !status.journal.is_empty());
    for object in [name.clone(), format!("{name}-part-0")] {
        let found = world.get(&format!("upgraderun {object}")).await;
        let size = serde_json::to_string_pretty(&found).expect("JSON").len();
        assert!(size < 200 * 1024, "{object} has {size} bytes");
    }
    let run = store.newest().await.expect("an answer").0.expect("a run");
    assert_eq!(run.metadata.name.as_deref(), Some(name.as_str()), "a part is no run");
    let past = open(run).await.expect("readable").take_past();
    assert_eq!(past.len(), LONG);
    for (number, read) in past.iter().enumerate() {
        assert_eq!(*read, entry(&plan, number), "entry {number}");
    }
    // Without the lease nothing is written.
    lease.0.store(false, Ordering::Relaxed);
    let late = first.append(&entry(&plan, LONG)).await;
    assert!(matches!(late, Err(RecordError::Late { .. })), "{late:?}");
}
