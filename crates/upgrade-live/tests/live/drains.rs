//! Whole runs of the engine over sockets, for the sake of their drains.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::POOL_LABEL;
use upgrade_core::policy::{Order, Policy};
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_core::snapshot::{Fact, Stage};
use upgrade_engine::clock::SystemClock;
use upgrade_engine::control::Command;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::io::{Io as _, Kubernetes as _};
use upgrade_engine::journal::MemoryJournal;
use upgrade_engine::store::{Inherited, OpenRun};
use upgrade_engine::{drive, observe, observe_workloads};
use upgrade_live::{Live, Options};
use upgrade_planner::{Request, plan};

use super::kubernetes::{web, web_pods};
use super::{World, eventually};

/// Upgrades the cluster, workers first, and gives the end and the warnings of
/// the plan.
async fn upgrade(live: &Arc<Live<SystemClock>>, policy: Policy) -> (End, String) {
    let policy = Policy { order: Order::WorkersFirst, accept_outage: true, ..policy };
    let changes = live.kubernetes().changes();
    let snapshot = eventually(changes, "everything is up", || async {
        let snapshot = observe(&**live, POOL_LABEL).await.ok()?;
        let up = snapshot.nodes.values().all(|node| {
            let running =
                |it: &upgrade_core::snapshot::TalosFacts| it.stage == Stage::Running && it.ready;
            node.is_up() && node.talos.known().is_some_and(running)
        });
        up.then_some(snapshot)
    })
    .await;
    let intent = Intent { talos: Some("1.13.9".parse().unwrap()), ..Intent::default() };
    let planned = plan(&Request {
        snapshot: &snapshot,
        intent: &intent,
        policy: &policy,
        matrix: &Matrix::builtin(),
        catalogue: &Catalogue::builtin(),
        manifests: &Fact::Unasked,
        workloads: &observe_workloads(live.kubernetes()).await,
        external_upgrader: false,
    })
    .expect("a plan");
    let warnings: Vec<_> = planned.report.warnings.iter().map(ToString::to_string).collect();
    let (events, mut received) = mpsc::unbounded_channel();
    let (_commands, control) = watch::channel(Command::Continue);
    let run = Run {
        open: OpenRun::new(Arc::new(planned.plan), Inherited::default(), MemoryJournal::default()),
        io: Arc::clone(live),
        runner: "test".to_owned(),
        events: Arc::new(events),
        control,
        resumed_by: None,
    };
    let end = drive(run).await.expect("a journal that can be written");
    // The last events, to explain an assertion that fails.
    let mut last: Vec<_> = std::iter::from_fn(|| received.try_recv().ok()).collect();
    let last = last.split_off(last.len().saturating_sub(10));
    let last = last.iter().map(|event| format!("{:?}", event.kind));
    (end, warnings.into_iter().chain(last).collect::<Vec<_>>().join("\n"))
}

async fn live(world: &World) -> Arc<Live<SystemClock>> {
    let options = Options {
        talosconfig: Some(world.folder.path().join("talosconfig")),
        snapshots: world.folder.path().join("backups").into(),
        ..Options::default()
    };
    Arc::new(Live::connect(&options, SystemClock::new()).await.expect("usable files"))
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_move_as_their_budget_allows() {
    let world = World::with("1.13.8", 1, 2, web(4, 3)).await;
    web_pods(&world, 4).await;
    let (end, warnings) = upgrade(&live(&world).await, Policy::default()).await;
    assert_eq!(end, End::Done, "{warnings}");
    assert!(!warnings.contains("never lets"), "{warnings}");
    web_pods(&world, 4).await;
    for node in ["cp-1", "worker-1", "worker-2"] {
        let facts = world.facts(node).await;
        assert_eq!(facts.version.to_string(), "1.13.9", "{node}");
    }
    let nodes = world.live.kubernetes().nodes().await.unwrap();
    assert!(nodes.values().all(|node| !node.unschedulable), "rule 7: {nodes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_never_allows_is_named_before_and_after() {
    // Rule 6.
    let world = World::with("1.13.8", 1, 2, web(2, 2)).await;
    web_pods(&world, 2).await;
    let mut policy = Policy::default();
    policy.drain.timeout = SignedDuration::from_secs(8);
    let (end, warnings) = upgrade(&live(&world).await, policy).await;
    assert!(warnings.contains("budget default/web never allows an eviction"), "{warnings}");
    let End::Halted { reason: HaltReason::StepFailed { step, failure, .. }, .. } = &end else {
        panic!("it must halt: {end:?}");
    };
    assert_eq!(failure.kind, FailureKind::Drain, "{failure}");
    assert!(failure.text().contains("budget default/web blocks default/web-"), "{failure}");
    let node = step.node.clone().expect("a node");
    let nodes = world.live.kubernetes().nodes().await.unwrap();
    assert!(!nodes[&node].unschedulable, "rule 7: the cordon is lifted");
    assert_eq!(world.facts(&node.0).await.version.to_string(), "1.13.8", "nothing rebooted");
    web_pods(&world, 2).await;
}
