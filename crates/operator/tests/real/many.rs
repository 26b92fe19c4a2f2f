//! Many clusters at once, bad neighbours among them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::model::{Range, Timings};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use upgrade_operator::files;

use crate::sabotage::{AT_ITS_BEGINNING, Sabotage};
use crate::watcher::Watcher;
use crate::world::{World, annotation, kubernetes_cluster, simulated};

/// Two hundred clusters take minutes where a machine has better things to do.
const LONG: Duration = Duration::from_mins(20);

/// How many upgrades are on their way together, beside those that never end.
/// All clusters are watched and looked at all the time. Nothing is optimised
/// here, nodes included: two hundred upgrades at a time on two cores would be
/// late for every deadline.
const UNDER_WAY: usize = 30;

/// The files that two hundred clusters and their operator have open in one
/// process, and some more.
const FILES: u64 = 4_000;

async fn set(world: &World, name: &str) {
    world
        .shell(&format!(
            "kubectl annotate kubernetescluster {name} upgrade.vitistack.io/talos-target=1.13.9"
        ))
        .await;
}

/// Bad neighbours delay nobody; handing over is quick, and the other goes on.
#[tokio::test(flavor = "multi_thread")]
async fn many_clusters_at_once_and_two_replicas() {
    const MANY: usize = 6;
    let world = World::start().await;
    // Keys that are none, keys of nobody, and no keys at all.
    world.keys("broken-1", "nonsense: [", "also nonsense").await;
    let nobody = "context: x\ncontexts:\n  x:\n    endpoints: [192.0.2.1]\n";
    world.keys("broken-2", nobody, "{}").await;
    for name in ["broken-1", "broken-2", "broken-3"] {
        world.apply(&kubernetes_cluster(name).to_string()).await;
        set(&world, name).await;
    }
    let mut clusters = Vec::new();
    for index in 0..MANY {
        let name = format!("many-{index}");
        let cluster = simulated(&name, 1, "1.12.11", "1.34.2").await;
        world.register(&name, &cluster).await;
        set(&world, &name).await;
        clusters.push(cluster);
    }
    let watcher = Watcher::start(world.kubectl(), "many-0");
    let (first, second) = (world.operator("first"), world.operator("second"));
    let what = "kubernetescluster many-0";
    world.until(what, "under way", |it| annotation(it, "talos-status") == "in-progress").await;
    // One leaves in the middle of it.
    first.stop().await;
    for index in 0..MANY {
        let what = format!("kubernetescluster many-{index}");
        world.until(&what, "done", |it| annotation(it, "talos-status") == "completed").await;
    }
    let runs = world.shell("kubectl get upgraderuns --no-headers").await;
    assert_eq!(runs.matches("Completed").count(), MANY, "{runs}");
    for name in ["broken-1", "broken-2", "broken-3"] {
        let what = format!("kubernetescluster {name}");
        let told =
            world.until(&what, "told", |it| !annotation(it, "talos-message").is_empty()).await;
        let text = told.to_string();
        assert!(!text.contains("nonsense"), "rule 14: {text}");
    }
    watcher.finish();
    second.stop().await;
    for cluster in clusters {
        cluster.stop().await;
    }
    world.stop().await;
}

/// A cluster of one node, as quick as it may be: two hundred share two cores
/// with everything else.
async fn small(name: &str) -> Cluster {
    let shape = Shape {
        name: name.to_owned(),
        control_planes: 1,
        workers: 0,
        talos: "1.12.11".parse().expect("a version"),
        kubernetes: "1.34.2".parse().expect("a version"),
        seed: 1,
    };
    // Short in itself, and not by a hurried clock: what a cluster does when
    // nobody asks, such as renewing leases, it does as often as a real one.
    let short = Range::millis(200, 400);
    let timings = Timings {
        pull: short,
        install: short,
        drain: short,
        stop: short,
        reboot: Range::millis(1_000, 2_000),
        rejoin: Range::millis(500, 1_000),
        election: short,
        static_pod: short,
        kubelet: short,
    };
    let options = Options { shape: Some(shape), timings, ..Options::default() };
    Cluster::start(options).await.expect("the cluster starts")
}

/// Clusters by their names, a few at a time.
async fn start_all(names: Vec<String>) -> BTreeMap<String, Cluster> {
    let width = Arc::new(Semaphore::new(4));
    let mut starting = JoinSet::new();
    for name in names {
        let width = Arc::clone(&width);
        starting.spawn(async move {
            let _permit = width.acquire_owned().await.expect("open");
            let cluster = small(&name).await;
            (name, cluster)
        });
    }
    starting.join_all().await.into_iter().collect()
}

/// The objects of clusters, all in one go: what is meant to be quick here is
/// not kubectl.
async fn register_all(world: &World, keys: &[(&str, String, String)]) {
    let objects: Vec<Value> = keys
        .iter()
        .flat_map(|(name, talosconfig, kubeconfig)| {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": "default"},
                "stringData": {"talosconfig": talosconfig, "kube.config": kubeconfig},
            });
            [secret, kubernetes_cluster(name)]
        })
        .collect();
    world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()).await;
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// All clusters; none while the hub has too much to do to answer.
async fn all(world: &World) -> Vec<Value> {
    let list = world.try_shell("kubectl get kubernetesclusters -o json").await;
    let list: Value = serde_json::from_slice(&list.stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Looks at all clusters until something holds of each of these.
async fn until_each(world: &World, names: &[&str], why: &str, holds: impl Fn(&Value) -> bool) {
    let begun = tokio::time::Instant::now();
    let mut left: BTreeSet<&str> = names.iter().copied().collect();
    loop {
        let objects = all(world).await;
        for object in objects.iter().filter(|it| holds(it)) {
            left.remove(name_of(object));
        }
        if left.is_empty() {
            return;
        }
        let missing = objects.iter().find(|it| left.contains(name_of(it)));
        assert!(begun.elapsed() < LONG, "{} never {why}, as {missing:#?}", left.len());
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

fn is_completed(object: &Value) -> bool {
    annotation(object, "talos-status") == "completed"
}

/// Sets the targets of these, so that never more than [`UNDER_WAY`] of them are
/// on their way, until all have arrived.
async fn upgrade_all(world: &World, names: &[&str]) {
    let begun = tokio::time::Instant::now();
    let mut rest = names.iter();
    let mut on_their_way = BTreeSet::new();
    loop {
        for object in all(world).await.iter().filter(|it| is_completed(it)) {
            on_their_way.remove(name_of(object));
        }
        let next: Vec<&str> = rest.by_ref().take(UNDER_WAY - on_their_way.len()).copied().collect();
        if !next.is_empty() {
            set_all(world, &next).await;
            on_their_way.extend(next.into_iter().map(ToOwned::to_owned));
        }
        if on_their_way.is_empty() {
            return;
        }
        assert!(begun.elapsed() < LONG, "never done: {on_their_way:?}");
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

async fn set_all(world: &World, names: &[&str]) {
    let target = "upgrade.vitistack.io/accept-outage=true upgrade.vitistack.io/talos-target=1.13.9";
    let names = names.join(" ");
    let set = format!("kubectl annotate --overwrite kubernetescluster {names} {target}");
    let begun = tokio::time::Instant::now();
    // Again, while the hub has too much to do.
    while !world.try_shell(&set).await.status.success() {
        assert!(begun.elapsed() < LONG, "the targets cannot be set");
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

/// Two hundred clusters at once. One has keys that are none, one never
/// answers, the node of one stays away in the middle of its upgrade, one
/// panics where its run begins and one inside of its run: all others arrive,
/// while those are as bad as ever.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_clusters_at_once() {
    const MANY: usize = 200;
    const HANGS: &str = "hangs";
    const PANICS_INSIDE: &str = "panics-inside";
    let world = World::start_alone().await;
    let most = files::allow_many();
    assert!(most.is_none_or(|most| most >= FILES), "{most:?} open files are not enough");
    let good: Vec<String> = (0..MANY - 5).map(|number| format!("fleet-{number}")).collect();
    let bad = [AT_ITS_BEGINNING, HANGS, PANICS_INSIDE].map(str::to_owned);
    let clusters = start_all([good.clone(), bad.to_vec()].concat()).await;
    for name in [HANGS, PANICS_INSIDE] {
        clusters[name].inject("cp-1", "never-returns").await.expect("a fault");
    }
    // Connections are made by the kernel; nobody ever says a word on them.
    let silence = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silence.local_addr().expect("an address").to_string();
    let any = &clusters[HANGS];
    let elsewhere = |text: &str| {
        let node = any.nodes()[0].address.to_string();
        let api = any.kubernetes_url().trim_start_matches("https://").to_owned();
        // The endpoint stands before the nodes.
        text.replace(&api, &silent).replacen(&format!("- {node}"), &format!("- {silent}"), 1)
    };
    let mut keys: Vec<(&str, String, String)> = clusters
        .iter()
        .map(|(name, it)| (name.as_str(), it.talosconfig().to_owned(), it.kubeconfig().to_owned()))
        .collect();
    keys.push(("broken", "nonsense: [".to_owned(), "nonsense".to_owned()));
    keys.push(("silent", elsewhere(any.talosconfig()), elsewhere(any.kubeconfig())));
    assert!(keys.last().expect("keys").1.contains(&silent), "it is elsewhere");
    assert_eq!(keys.len(), MANY);
    register_all(&world, &keys).await;

    let mut settings = world.settings("only");
    settings.options.look_every = Duration::from_mins(5);
    // Nobody else is there to take over.
    settings.options.lease = Duration::from_mins(5);
    let operator = world.operator_with(settings);
    set_all(&world, &["broken", "silent", HANGS, PANICS_INSIDE]).await;
    let under_way = |it: &Value| annotation(it, "talos-status") == "in-progress";
    until_each(&world, &[HANGS, PANICS_INSIDE], "under way", under_way).await;
    Sabotage::reads_of(&clusters[PANICS_INSIDE].nodes()[0].apid.to_string());
    let mut arrive = vec![AT_ITS_BEGINNING];
    arrive.extend(good.iter().map(String::as_str));
    upgrade_all(&world, &arrive).await;

    // The bad ones were as bad as they were meant to be, and are told of.
    let begun = tokio::time::Instant::now();
    while Sabotage::panics().0 == 0 || Sabotage::panics().1 == 0 {
        assert!(begun.elapsed() < LONG, "nobody panics: {:?}", Sabotage::panics());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let each = ["broken", "silent", HANGS, PANICS_INSIDE];
    until_each(&world, &each, "told", |it| !annotation(it, "talos-message").is_empty()).await;
    let list = world.get("kubernetesclusters").await;
    assert!(!list.to_string().contains("nonsense"), "rule 14");
    for object in list["items"].as_array().expect("a list") {
        assert_eq!(is_completed(object), arrive.contains(&name_of(object)), "{object:#}");
    }
    // A run each, the one that was begun anew included.
    let runs = world.shell("kubectl get upgraderuns --no-headers").await;
    assert_eq!(runs.matches("Completed").count(), arrive.len(), "{runs}");
    operator.stop().await;
    Sabotage::end();
    for cluster in clusters.into_values() {
        cluster.stop().await;
    }
    world.stop().await;
}
