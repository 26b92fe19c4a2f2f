//! The journal of a run in objects of a real API server: fenced, and bounded in size.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use upgrade_api::run::{RunVersions, UpgradeRun};
use upgrade_controller::clock::Clock;
use upgrade_controller::cluster::ClusterRef;
use upgrade_controller::limits::Limiter;
use upgrade_controller::run::{LeasedRuns, NewRun, RunObject, RunObjectError, UpgradeRuns};
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Entry, Record, State};
use upgrade_core::plan::{
    Change, Group, Hop, Lane, PLAN_FORMAT, Plan, PlanHash, RebootMode, TalosTarget, Target,
    UpgradeMethod, Versions, Wave,
};
use upgrade_core::policy::Policy;
use upgrade_core::step::Action;
use upgrade_core::version::Version;
use upgrade_engine::journal::{Fence, Lost};
use vitistack_api::KubernetesCluster;

use crate::world::World;

#[path = "../../../upgrade-engine/tests/engine/stores/contract.rs"]
mod contract;

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
        record: Record::Waiting { key },
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
    let store = UpgradeRuns::new(client.clone(), ClusterRef::of(&cluster), Clock::SYSTEM);
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
        versions: RunVersions::default(),
        rollback: false,
        plan: Ok(&plan),
        roles: &BTreeMap::new(),
        runner: "test",
    };
    let made = store.create(&new).await.expect("a run");
    let name = made.metadata.name.clone().expect("a name");
    let lease = Arc::new(Switch(AtomicBool::new(true)));
    let fence = || Arc::clone(&lease) as Arc<dyn Fence>;
    let state = State::new(&plan);
    let shared = Arc::new(plan.clone());
    let open = |run: UpgradeRun| {
        RunObject::new(client.clone(), run, Arc::clone(&shared), fence(), Clock::SYSTEM)
    };
    let mut first = open(made.clone());
    let mut second = open(made);
    first.append(&entry(&plan, 0), &state).await.expect("written");
    // Rule 9: a writer with an older state has lost the run.
    let taken = second.append(&entry(&plan, LONG), &state).await;
    assert!(matches!(taken, Err(RunObjectError::Taken(_))), "{taken:?}");
    // A label that another user sets does not matter.
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    world.merge(&format!("upgraderun {name}"), &label).await;
    for number in 1..LONG {
        first.append(&entry(&plan, number), &state).await.expect("written");
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
    let read = store.read(&run).await.expect("readable");
    assert_eq!(read.entries.len(), LONG);
    for (number, read) in read.entries.iter().enumerate() {
        assert_eq!(*read, entry(&plan, number), "entry {number}");
    }
    // Without the lease nothing is written.
    lease.0.store(false, Ordering::Relaxed);
    let late = first.append(&entry(&plan, LONG), &state).await;
    assert!(matches!(late, Err(RunObjectError::Late { .. })), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_objects_keep_to_the_contract_of_a_run_store() {
    let world = World::start("store").await;
    world.cluster("kept").await;
    let cluster = world.get("kubernetescluster kept").await;
    let cluster: KubernetesCluster = serde_json::from_value(cluster).expect("a cluster");
    let store = LeasedRuns {
        runs: UpgradeRuns::new(world.client().await, ClusterRef::of(&cluster), Clock::SYSTEM),
        fence: Arc::new(Switch(AtomicBool::new(true))),
        runner: "test".to_owned(),
        writes: Arc::new(Limiter::default()),
    };
    let first = plan_of("1.13.9", None);
    let second = plan_of("1.13.8", Some(first.hash()));
    contract::keeps_runs(&store, &first, &second).await;
}

/// A plan that installs on `worker-1` and cordons it.
fn plan_of(to: &str, parent: Option<PlanHash>) -> Plan {
    let version = |text: &str| text.parse::<Version>().expect("a version");
    let image = |tag: &str| format!("ghcr.io/siderolabs/installer:v{tag}").parse().expect("one");
    let versions = |talos: &str| Versions { talos: Some(version(talos)), kubernetes: None };
    let target = TalosTarget {
        from: version("1.13.1"),
        method: UpgradeMethod::Lifecycle,
        installer: image(to),
        schematic: None,
        extensions: None,
        previous: Some(image("1.13.1")),
        etcd: None,
        force: false,
        reboot: RebootMode::Default,
        platform: None,
        secure_boot: None,
    };
    let lane = Lane {
        node: Some("worker-1".into()),
        pool: None,
        target: Target::Talos(Box::new(target)),
        steps: [Action::Install, Action::Cordon, Action::Reboot, Action::Uncordon]
            .map(Into::into)
            .to_vec(),
    };
    let hop = Hop {
        number: 1,
        change: Change::Talos { from: version("1.13.1"), to: version(to) },
        versions: versions(to),
        limit: 1,
        pool_limits: BTreeMap::new(),
        waves: vec![Wave { number: 1, group: Group::Workers, lanes: vec![lane] }],
    };
    Plan {
        format: PLAN_FORMAT,
        cluster: "kept".to_owned(),
        parent,
        rollback: false,
        from: versions("1.13.1"),
        to: versions(to),
        policy: Policy::default(),
        prune: Vec::new(),
        nodes: BTreeMap::new(),
        hops: vec![hop],
    }
}
