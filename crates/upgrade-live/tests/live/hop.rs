//! A whole Kubernetes hop over sockets: images, pods and manifests of all nodes change,
//! no node reboots, and nothing else changes in the machine configurations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talos_sim::kubernetes::remote::RealApi;
use testkit::Hub;
use tokio::sync::{mpsc, watch};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::event::{Event, EventKind, StepProgress};
use upgrade_core::intent::Intent;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::POOL_LABEL;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_engine::clock::SystemClock;
use upgrade_engine::control::Command;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::io::kubernetes::{Apply, ObjectName};
use upgrade_engine::io::{Io as _, Kubernetes as _, Machines as _};
use upgrade_engine::journal::MemoryJournal;
use upgrade_engine::store::{Inherited, OpenRun};
use upgrade_engine::{drive, observe, observe_manifests};
use upgrade_live::{Live, Options};
use upgrade_planner::{Request, plan};

use super::{
    KUBERNETES, SimOptions, TALOS_1_12, TALOS_1_13, TALOS_1_14, World, eventually, simulated,
};

const TO: &str = "1.35.4";

/// Far more than it takes, on any machine.
const LONG: Duration = Duration::from_mins(10);

async fn connect(world: &World) -> Live<SystemClock> {
    let options = Options {
        talosconfig: Some(world.folder.path().join("talosconfig")),
        context: None,
        kubeconfig: None,
        snapshots: world.folder.path().join("backups").into(),
    };
    Live::connect(&options, SystemClock::new()).await.expect("usable files")
}

/// The cluster, once all of it is up.
async fn settled(live: &Live<SystemClock>, nodes: usize) -> Snapshot {
    eventually(live.kubernetes().changes(), "every node is up", || async {
        let snapshot = observe(live, POOL_LABEL).await.ok()?;
        let up = snapshot.nodes.values().all(upgrade_core::snapshot::Node::is_up);
        let known = snapshot.kubernetes.known().is_some() && snapshot.etcd.known().is_some();
        (up && known && snapshot.nodes.len() == nodes).then_some(snapshot)
    })
    .await
}

fn boots(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let nodes = snapshot.nodes.iter();
    let boot = |fact: &Fact<upgrade_core::snapshot::TalosFacts>| {
        fact.known().expect("the node is up").boot_id.clone()
    };
    nodes.map(|(name, node)| (name.0.clone(), boot(&node.talos))).collect()
}

async fn configs(live: &Live<SystemClock>) -> BTreeMap<String, String> {
    let (_, machines) = live.machines().list().await.expect("machines");
    let mut configs = BTreeMap::new();
    for machine in machines {
        let config = live.machines().config(&machine).await.expect("a configuration");
        configs.insert(machine.name.0.clone(), config.0);
    }
    configs
}

async fn hop(talos: &str, control_planes: usize, workers: usize, real_api: Option<RealApi>) {
    let options = simulated(talos, control_planes, workers);
    let world = World::launch(SimOptions { real_api, ..options }).await;
    let live = Arc::new(connect(&world).await);
    let before = settled(&live, control_planes + workers).await;
    let configs_before = configs(&live).await;
    let intent = Intent { kubernetes: Some(TO.parse().expect("a version")), ..Intent::default() };
    let policy = Policy { accept_outage: true, ..Policy::default() };
    let (matrix, catalogue) = (Matrix::builtin(), Catalogue::builtin());
    if talos != TALOS_1_12 {
        leave_over(&live).await;
    }
    let manifests = observe_manifests(&*live).await;
    let request = Request {
        snapshot: &before,
        intent: &intent,
        policy: &policy,
        matrix: &matrix,
        catalogue: &catalogue,
        workloads: &Fact::Unasked,
        manifests: &manifests,
        external_upgrader: false,
    };
    let made = plan(&request).unwrap_or_else(|report| panic!("{report:?}"));
    let (events, mut hears) = mpsc::unbounded_channel();
    let control = watch::Sender::new(Command::Continue);
    let run = Run {
        open: OpenRun::new(Arc::new(made.plan), Inherited::default(), MemoryJournal::default()),
        io: Arc::clone(&live),
        runner: "test".to_owned(),
        events: Arc::new(events),
        control: control.subscribe(),
        resumed_by: None,
    };
    let driven = tokio::time::timeout(LONG, drive(run)).await;
    let mut said = Vec::new();
    while let Ok(Event { kind, .. }) = hears.try_recv() {
        match kind {
            EventKind::StepProgress { step, progress: StepProgress { message, .. } } => {
                said.push(format!("{step}: {message}"));
            }
            EventKind::StepFinished { step, outcome, .. } => {
                said.push(format!("{step} {outcome:?}"));
            }
            _ => {}
        }
    }
    let said = said.join("\n");
    let end = driven.unwrap_or_else(|_| panic!("no end in sight\n{said}")).expect("a journal");
    assert_eq!(end, End::Done, "{said}");

    let after = settled(&live, control_planes + workers).await;
    assert_eq!(boots(&after), boots(&before), "no node reboots");
    for (name, node) in &after.nodes {
        let images = node.images.known().expect("images");
        assert!(images.len() == 1 || images.len() == 5, "{name}: {images:?}");
        for (component, image) in images {
            let version = image.version().map(|version| version.to_string());
            assert_eq!(version.as_deref(), Some(TO), "{component} on {name}");
        }
        let kubelet = &node.kubernetes.known().expect("a node").kubelet;
        assert_eq!(kubelet.to_string(), TO, "{name}");
    }
    let expected: BTreeMap<String, String> = configs_before
        .into_iter()
        .map(|(name, text)| (name, text.replace(&format!("v{KUBERNETES}"), &format!("v{TO}"))))
        .collect();
    // Compared without printing: they hold keys (rule 14).
    assert!(configs(&live).await == expected, "configurations change in their images only");

    let proxy = object("DaemonSet", "apps/v1", "kube-proxy");
    let proxy = live.kubernetes().object(&proxy).await.expect("an answer").expect("kube-proxy");
    let image = &proxy["spec"]["template"]["spec"]["containers"][0]["image"];
    assert!(image.as_str().is_some_and(|image| image.ends_with(TO)), "{image}");
    assert_eq!(proxy["status"]["updatedNumberScheduled"], control_planes + workers);
    let inventory = object("ConfigMap", "v1", "talos-bootstrap-manifests-inventory");
    let inventory = live.kubernetes().object(&inventory).await.expect("an answer");
    if talos == TALOS_1_12 {
        return;
    }
    let inventory = inventory.expect("an inventory");
    let data = inventory["data"].as_object().expect("entries");
    assert!(data.contains_key("kube-system_kube-proxy_apps_DaemonSet"), "{data:?}");
    assert!(data.contains_key("kube-system_coredns_apps_Deployment"), "{data:?}");
    // What left the manifests is deleted, and out of the inventory, regardless of who put it
    // there.
    assert!(!data.contains_key("kube-system_left-over__ConfigMap"), "{data:?}");
    let left = object("ConfigMap", "v1", "left-over");
    assert_eq!(live.kubernetes().object(&left).await.expect("an answer"), None);
}

fn object(kind: &str, api_version: &str, name: &str) -> ObjectName {
    ObjectName {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: "kube-system".to_owned(),
        name: name.to_owned(),
    }
}

/// An object that the manifests had once, as a node leaves it behind.
async fn leave_over(live: &Live<SystemClock>) {
    let config = |name: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "kube-system"}, "data": data})
    };
    let inventory = json!({"kube-system_left-over__ConfigMap": ""});
    for object in [
        config("left-over", json!({"a": "b"})),
        config("talos-bootstrap-manifests-inventory", inventory),
    ] {
        let applied = live.kubernetes().apply(&object, "machined", Apply::default()).await;
        applied.expect("it is applied");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubernetes_hop_on_talos_1_12() {
    Box::pin(hop(TALOS_1_12, 1, 1, None)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubernetes_hop_on_talos_1_13() {
    Box::pin(hop(TALOS_1_13, 3, 2, None)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubernetes_hop_on_talos_1_14() {
    Box::pin(hop(TALOS_1_14, 1, 1, None)).await;
}

/// The same with a real API server: every object, apply and watch goes there.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubernetes_hop_at_a_real_api_server() {
    let plane = Hub::empty().await;
    Box::pin(hop(TALOS_1_14, 3, 1, Some(plane.real_api()))).await;
}
