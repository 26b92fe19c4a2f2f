//! A Kubernetes hop from end to end, in memory and under a paused clock.

#![expect(clippy::format_push_string, reason = "texts of a few lines")]
#![expect(clippy::match_bool, reason = "two answers side by side")]

mod api;
mod prunes;
mod talos;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::event::{Event, EventKind, StepProgress};
use upgrade_core::intent::Intent;
use upgrade_core::journal::{Evidence, Record, State};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::POOL_LABEL;
use upgrade_core::policy::Policy;
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_core::snapshot::{Component, Fact, Role};
use upgrade_core::step::Action;
use upgrade_engine::control::Command;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::journal::MemoryJournal;
use upgrade_engine::store::{Inherited, OpenRun};
use upgrade_engine::{drive, observe, observe_manifests};
use upgrade_planner::{Planned, Request, check, plan};

use world::{Fault, World};

async fn planned(world: &Arc<World>, to: &str, rollback: bool) -> Arc<Plan> {
    let policy = Policy { accept_outage: true, ..Policy::default() };
    Arc::new(planned_as(world, to, rollback, policy).await.plan)
}

async fn planned_as(world: &Arc<World>, to: &str, rollback: bool, policy: Policy) -> Planned {
    let snapshot = observe(&**world, POOL_LABEL).await.unwrap();
    let manifests = observe_manifests(&**world).await;
    let intent = Intent { kubernetes: Some(to.parse().unwrap()), rollback, ..Intent::default() };
    let (matrix, catalogue) = (Matrix::builtin(), Catalogue::builtin());
    let request = Request {
        snapshot: &snapshot,
        intent: &intent,
        policy: &policy,
        matrix: &matrix,
        catalogue: &catalogue,
        workloads: &Fact::Unasked,
        manifests: &manifests,
        external_upgrader: false,
    };
    let planned = plan(&request).unwrap_or_else(|report| panic!("{report:?}"));
    let findings = check(&planned.plan, &snapshot, &matrix);
    assert!(findings.is_empty(), "{findings:?}");
    planned
}

struct Driver {
    world: Arc<World>,
    plan: Arc<Plan>,
    journal: MemoryJournal,
    commands: watch::Sender<Command>,
    events: Vec<Event>,
}

impl Driver {
    fn new(world: &Arc<World>, plan: &Arc<Plan>) -> Self {
        Self {
            world: Arc::clone(world),
            plan: Arc::clone(plan),
            journal: MemoryJournal::default(),
            commands: watch::Sender::new(Command::Continue),
            events: vec![],
        }
    }

    fn run(&self) -> (Run<World, MemoryJournal>, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let run = Run {
            open: OpenRun {
                plan: Arc::clone(&self.plan),
                state: State::fold(&self.plan, &self.journal.entries()).unwrap(),
                journal: self.journal.clone(),
                inherited: Inherited::default(),
            },
            io: Arc::clone(&self.world),
            runner: "test".to_owned(),
            events: Arc::new(events),
            control: self.commands.subscribe(),
            resumed_by: None,
        };
        (run, receiver)
    }

    async fn go(&mut self) -> End {
        let (run, mut events) = self.run();
        let end = timeout(Duration::from_hours(48), drive(run)).await.unwrap().unwrap();
        while let Ok(event) = events.try_recv() {
            self.events.push(event);
        }
        end
    }

    /// Kills the run once the journal has this many entries, and a moment more.
    async fn go_until(&self, entries: usize, then: Duration) -> bool {
        let (run, _events) = self.run();
        let journal = self.journal.clone();
        let killed = async {
            while journal.entries().len() < entries {
                sleep(Duration::from_millis(20)).await;
            }
            sleep(then).await;
        };
        tokio::select! {
            biased;
            () = killed => false,
            _ = drive(run) => true,
        }
    }

    fn trace(&self) -> String {
        let entries = self.journal.entries();
        let entries: Vec<_> =
            entries.iter().map(|it| format!("{} {:?}", it.at, it.record)).collect();
        format!("{}\n{:?}", entries.join("\n"), self.world.cluster().acts)
    }

    fn messages(&self) -> Vec<String> {
        let said = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::StepProgress { progress: StepProgress { message, .. }, .. } => {
                Some(message.clone())
            }
            _ => None,
        });
        said.collect()
    }

    fn failure(&self, end: &End) -> (Action, FailureKind, String) {
        let End::Halted { reason: HaltReason::StepFailed { step, failure, .. }, .. } = end else {
            panic!("{end:?}\n{}", self.trace());
        };
        (step.action, failure.kind, failure.to_string())
    }
}

/// Everything runs the version, no node has rebooted, and the configurations
/// differ in their images only.
fn assert_upgraded(world: &World, from: &BTreeMap<String, (u64, String)>, tag: &str) {
    let cluster = world.cluster();
    for (name, sim) in &cluster.nodes {
        let (boot, config) = &from[&name.0];
        assert_eq!(sim.boot, *boot, "{name} rebooted");
        assert_eq!(sim.config, config.replace("v1.34.2", tag), "{name}");
        assert_eq!(sim.kubelet.tag(), tag, "{name}");
        assert!(sim.well && sim.node_ready, "{name}");
        let components = sim.ready.values().filter(|_| sim.role == Role::ControlPlane);
        assert!(components.copied().all(|ready| ready), "{name}");
        assert!(sim.role == Role::Worker || sim.api, "{name}: its API server does not answer");
    }
}

fn before(world: &World) -> BTreeMap<String, (u64, String)> {
    let cluster = world.cluster();
    let nodes = cluster.nodes.iter();
    nodes.map(|(name, sim)| (name.0.clone(), (sim.boot, sim.config.clone()))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_done_once_the_last_control_plane_serves_with_its_new_kubelet() {
    // Rules 1 and 10, found on real nodes: static pods are not ready right after a kubelet
    // restarts, and no gate waits for the last control plane.
    let world = World::new(3, 0, "1.13.9");
    let from = before(&world);
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    assert_upgraded(&world, &from, "v1.35.4");
}

#[tokio::test(start_paused = true)]
async fn a_hop_moves_everything_in_order_and_reboots_no_node() {
    let world = World::new(3, 3, "1.13.9");
    let from = before(&world);
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    assert_upgraded(&world, &from, "v1.35.4");

    let sets = world.acts("set ");
    assert_eq!(sets.len(), 3 * 4 + 6, "each once: {sets:?}");
    let last = |component: &str| sets.iter().rposition(|it| it.ends_with(component)).unwrap();
    let first = |component: &str| sets.iter().position(|it| it.ends_with(component)).unwrap();
    assert!(last("apiserver") < first("controller-manager"));
    assert!(last("scheduler") < first("proxy") && last("proxy") < first("kubelet"));
    let pulls = world.acts("pull ");
    let kubelet = "ghcr.io/siderolabs/kubelet:v1.35.4-slim System";
    assert!(pulls.contains(&format!("worker-2 {kubelet}")), "{pulls:?}");
    assert!(pulls.contains(&"cp-1 mirror.lan/kube-scheduler:v1.35.4 Kubernetes".to_owned()));
    // All at once: the last begins before the first has come.
    let acts = world.acts("");
    let begun = acts.iter().rposition(|act| act.starts_with("pull cp-1 ")).unwrap();
    let come = acts.iter().position(|act| act.starts_with("pulled ")).unwrap();
    assert!(begun < come, "{acts:?}");

    // Talos's inventory: what is applied is in it, what left it is pruned.
    let cluster = world.cluster();
    let inventory = &cluster.objects["ConfigMap kube-system/talos-bootstrap-manifests-inventory"];
    let keys: Vec<_> = inventory["data"].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "_system__default-sa_rbac.authorization.k8s.io_ClusterRoleBinding",
            "kube-system_coredns__ConfigMap",
            "kube-system_coredns_apps_Deployment",
            "kube-system_kube-proxy_apps_DaemonSet",
        ]
    );
    let deleted: Vec<_> = cluster.acts.iter().filter(|it| it.starts_with("delete")).collect();
    assert_eq!(deleted, ["delete ConfigMap kube-system/left-over"]);
    let proxy = &cluster.objects["DaemonSet kube-system/kube-proxy"];
    assert_eq!(
        proxy["metadata"]["annotations"]["config.k8s.io/owning-inventory"],
        "talos-bootstrap-manifests-inventory"
    );
    assert_eq!(proxy["status"]["observedGeneration"], proxy["metadata"]["generation"]);
    drop(cluster);
    let said = driver.messages();
    assert!(said.iter().any(|it| it.ends_with("kube-proxy: 0 of 6 updated")), "{said:?}");
    assert!(said.iter().all(|it| !it.contains("s3cr3t")), "rule 14");
}

#[tokio::test(start_paused = true)]
async fn a_single_control_plane_outlives_its_api_server() {
    let world = World::new(1, 1, "1.13.9");
    let from = before(&world);
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    assert_upgraded(&world, &from, "v1.35.4");
}

#[tokio::test(start_paused = true)]
async fn older_nodes_keep_no_inventory() {
    let world = World::new(1, 0, "1.12.11");
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    let cluster = world.cluster();
    assert!(cluster.objects.contains_key("ConfigMap kube-system/left-over"), "nothing is pruned");
    let proxy = &cluster.objects["DaemonSet kube-system/kube-proxy"];
    assert!(proxy["metadata"]["annotations"].is_null(), "{proxy}");
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_entry_nothing_is_done_twice() {
    // Rule 8.
    let world = World::new(2, 1, "1.13.9");
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    driver.go().await;
    let entries = driver.journal.entries().len();
    for at in 1..entries {
        for then in [0, 3] {
            let world = World::new(2, 1, "1.13.9");
            let from = before(&world);
            let mut driver = Driver::new(&world, &plan);
            driver.go_until(at, Duration::from_secs(then)).await;
            assert_eq!(driver.go().await, End::Done, "{at}+{then}: {}", driver.trace());
            assert_upgraded(&world, &from, "v1.35.4");
            let mut sets = world.acts("set ");
            let all = sets.len();
            sets.sort();
            sets.dedup();
            assert_eq!(sets.len(), all, "{at}+{then}: {}", driver.trace());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_that_does_not_come_is_named_and_taken_back() {
    let world = World::new(3, 1, "1.13.9");
    let from = before(&world);
    let component = Component::KubeApiserver;
    let fault = Fault::NoImage { node: "cp-3", component, tag: "v1.35.4" };
    world.change(|cluster| cluster.fault = Some(fault));
    let forward = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &forward);
    let end = driver.go().await;
    let (action, kind, text) = driver.failure(&end);
    assert_eq!((action, kind), (Action::SetKubeApiserver, FailureKind::Pull), "{text}");
    let why = "kube-apiserver on cp-3 waits: ImagePullBackOff (mirror.lan/kube-apiserver:v1.35.4)";
    assert!(text.contains(why), "{text}");
    assert!(driver.messages().iter().any(|it| it == why), "rule 11: told while it lasts");
    assert_eq!(world.acts("set "), ["cp-2 kube-apiserver", "cp-3 kube-apiserver"]);

    // `rollback --kubernetes`: only what went ahead, and no gate holds it up.
    let back = planned(&world, "1.34.2", true).await;
    let mut driver = Driver::new(&world, &back);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    assert_upgraded(&world, &from, "v1.34.2");
    let sets = world.acts("set ");
    assert_eq!(sets.len(), 4, "{sets:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_gone_is_brought_back() {
    // Rule 12: the only API server does not start, so Kubernetes tells nothing.
    let world = World::new(1, 1, "1.13.9");
    let from = before(&world);
    let component = Component::KubeApiserver;
    let fault = Fault::NoImage { node: "cp-1", component, tag: "v1.35.4" };
    world.change(|cluster| cluster.fault = Some(fault));
    let forward = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &forward);
    let end = driver.go().await;
    let (action, _, text) = driver.failure(&end);
    assert_eq!(action, Action::SetKubeApiserver, "{text}");
    let back = planned(&world, "1.34.2", true).await;
    let mut driver = Driver::new(&world, &back);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    assert_upgraded(&world, &from, "v1.34.2");
}

#[tokio::test(start_paused = true)]
async fn what_the_next_minor_does_not_know_stops_the_run_before_it_begins() {
    let world = World::new(1, 5, "1.13.9");
    world.change(|cluster| {
        for (name, sim) in &mut cluster.nodes {
            if sim.role == Role::Worker {
                let flag = "  kubelet:\n    extraArgs: {pod-infra-container-image: p:v1}\n";
                sim.config = sim.config.replace("  kubelet:\n", flag);
            } else {
                let gate = "  scheduler:\n    extraArgs: {feature-gates: PodIndexLabel=true}\n";
                sim.config = sim.config.replace("  scheduler:\n", gate);
            }
            assert!(talos_machine_config::images(&sim.config).is_ok(), "{name}");
        }
        let used = |what: &str, minor: &str| (what.to_owned(), minor.to_owned());
        cluster.deprecated = vec![used("old.io/v1beta1 things", "1.35"), used("x/v1 y", "1.36")];
    });
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    let end = driver.go().await;
    let (action, kind, text) = driver.failure(&end);
    assert_eq!((action, kind), (Action::CheckRemovals, FailureKind::Refused));
    assert_eq!(
        text,
        "not ready for Kubernetes 1.35: kubelet 1.35 has no flag --pod-infra-container-image (set \
         in machine.kubelet) on worker-1, worker-2, worker-3 and 2 more: remove it from extraArgs; \
         kube-scheduler 1.35 has no feature gate PodIndexLabel (set in cluster.scheduler) on cp-1: \
         remove it, since its feature is always on or gone"
    );
    let warned = "Kubernetes 1.35 has no old.io/v1beta1 things, but a client has used it: \
                  update the client that uses it";
    let said = driver.messages();
    assert!(said.iter().any(|it| it == warned), "{said:?}");
    assert!(!said.iter().any(|it| it.contains("x/v1 y")), "not on this way");
    assert_eq!(world.acts("set "), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn objects_that_could_not_be_reached_stop_the_run() {
    let world = World::new(1, 0, "1.14.1");
    for to in ["1.35.4", "1.36.3"] {
        let plan = planned(&world, to, false).await;
        assert_eq!(Driver::new(&world, &plan).go().await, End::Done);
    }
    let workloads = "scheduling.k8s.io/v1alpha2 workloads";
    world.change(|cluster| cluster.counts.insert(workloads.to_owned(), 3));
    let plan = planned(&world, "1.37.1", false).await;
    let mut driver = Driver::new(&world, &plan);
    let end = driver.go().await;
    let (_, _, text) = driver.failure(&end);
    assert!(text.contains(&format!("has no {workloads}, but 3 objects exist")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_not_a_lost_act() {
    // Rule 8.
    let world = World::new(3, 1, "1.13.9");
    let from = before(&world);
    world.change(|cluster| cluster.fault = Some(Fault::LosesAnswers));
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    assert_upgraded(&world, &from, "v1.35.4");
    assert_eq!(world.acts("set ").len(), 3 * 4 + 4);
}

#[tokio::test(start_paused = true)]
async fn an_unrequested_reboot_is_not_passed_over() {
    let world = World::new(1, 1, "1.13.9");
    world.change(|cluster| cluster.fault = Some(Fault::Reboots));
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    let end = driver.go().await;
    let (action, kind, text) = driver.failure(&end);
    assert_eq!((action, kind), (Action::SetKubelet, FailureKind::Mismatch), "{text}");
    assert!(text.contains("rebooted"), "{text}");
    let halted = |record: &Record| matches!(record, Record::Halted { .. });
    assert!(driver.journal.entries().iter().any(|entry| halted(&entry.record)));
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_back_when_its_node_is_as_ready_as_before() {
    // Rule 10.
    let world = World::new(1, 1, "1.13.9");
    let unmet = |name: &str| UnmetCondition { name: name.to_owned(), reason: String::new() };
    let node = "worker-1".into();
    world.change(|cluster| cluster.nodes.get_mut(&node).unwrap().unmet = vec![unmet("time")]);
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    let noted = driver.journal.entries().iter().any(|entry| {
        matches!(&entry.record, Record::Started { evidence: Some(Evidence::Unmet(noted)), .. }
            if *noted == [unmet("time")])
    });
    assert!(noted, "{}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_less_ready_with_its_new_kubelet_is_named() {
    // Rule 10.
    let world = World::new(1, 1, "1.13.9");
    let plan = planned(&world, "1.35.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    let changed = Arc::clone(&world);
    tokio::spawn(async move {
        while changed.acts("set worker-1").is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        let reason = "ext-tailscale not healthy".to_owned();
        let unmet = UnmetCondition { name: "services".to_owned(), reason };
        let node = "worker-1".into();
        changed.change(|cluster| cluster.nodes.get_mut(&node).unwrap().unmet = vec![unmet]);
    });
    let end = driver.go().await;
    let (action, kind, text) = driver.failure(&end);
    assert_eq!((action, kind), (Action::SetKubelet, FailureKind::Deadline), "{text}");
    assert!(text.contains("services (ext-tailscale not healthy)"), "{text}");
}
