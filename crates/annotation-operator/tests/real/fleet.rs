//! A fleet of clusters at once, with bad neighbours among them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use talos_sim::cluster::{Cluster, Options};
use talos_sim::model::{Range, Timings};
use testkit::cluster::shape;
use testkit::{annotation, kubernetes_cluster};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use upgrade_controller::rlimit;

use crate::sabotage::{AT_ITS_BEGINNING, Sabotage};
use crate::world::{World, operator_with};

/// How many clusters there are, unless [`VARIABLE`] says otherwise. More than the
/// operator looks at together.
const FLEET: usize = 48;

/// The least that is more than the operator looks at together.
const LEAST: usize = 40;

/// The variable with another number, for `cargo xtask nightly`.
const VARIABLE: &str = "TALOS_OPERATOR_TEST_FLEET";

/// Two hundred clusters take minutes on a busy machine.
const LONG: Duration = Duration::from_mins(20);

/// How many upgrades run together, not counting those that never end. The nodes of all
/// clusters share this machine with the operator: with two hundred at once, nodes would
/// miss their deadlines.
const UNDER_WAY: usize = 30;

/// How many files each cluster and its part of the operator have open, at most.
const FILES_EACH: u64 = 20;

/// The clusters that stay as they are: keys that cannot be parsed, an address that never
/// answers, a node that never comes back, and a run that panics.
const BAD: [&str; 4] = [BROKEN, SILENT, HANGS, PANICS_INSIDE];
const BROKEN: &str = "broken";
const SILENT: &str = "silent";
const HANGS: &str = "hangs";
const PANICS_INSIDE: &str = "panics-inside";

#[expect(clippy::disallowed_methods, reason = "this is how the nightly tests set the number")]
fn size_of_the_fleet() -> usize {
    let Some(text) = std::env::var_os(VARIABLE) else { return FLEET };
    let number = text.to_str().and_then(|text| text.parse().ok());
    let number = number.filter(|number| *number >= LEAST);
    number.unwrap_or_else(|| panic!("{VARIABLE}={} is not a number from {LEAST}", text.display()))
}

/// A cluster with one node, as quick as possible.
async fn small(name: &str) -> Cluster {
    // The spans are short, and the clock is not fast: leases of the simulated nodes are
    // renewed as rarely as real ones.
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
    let shape = shape(name, 1, 0, "1.12.11", "1.34.2");
    testkit::cluster::start(Options { shape: Some(shape), timings, ..Options::default() }).await
}

/// Clusters by their names, started a few at a time.
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

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_completed(object: &Value) -> bool {
    annotation(object, "talos-status") == "completed"
}

async fn set_target(world: &World, name: &str) {
    world.annotate(name, &["accept-outage=true", "talos-target=1.13.9"]).await;
}

/// Watches all clusters until something holds of each of these.
async fn until_each(world: &World, names: &[&str], why: &str, holds: impl Fn(&Value) -> bool) {
    let mut left: BTreeSet<&str> = names.iter().copied().collect();
    let mut clusters = world.watch("kubernetesclusters");
    let watching = async {
        while !left.is_empty() {
            let object = clusters.next().await;
            if holds(&object) {
                left.remove(name_of(&object));
            }
        }
    };
    let watched = tokio::time::timeout(LONG, watching).await;
    watched.unwrap_or_else(|_| panic!("never {why}: {left:?}"));
}

/// Sets the targets of these, at most [`UNDER_WAY`] at a time, until all have
/// completed.
async fn upgrade_all(world: &World, names: &[&str]) {
    let mut waiting = names.iter().copied();
    let mut under_way = BTreeSet::new();
    let mut clusters = world.watch("kubernetesclusters");
    let upgrading = async {
        loop {
            while under_way.len() < UNDER_WAY
                && let Some(name) = waiting.next()
            {
                set_target(world, name).await;
                under_way.insert(name);
            }
            if under_way.is_empty() {
                return;
            }
            let object = clusters.next().await;
            if is_completed(&object) {
                under_way.remove(name_of(&object));
            }
        }
    };
    let upgraded = tokio::time::timeout(LONG, upgrading).await;
    upgraded.unwrap_or_else(|_| panic!("never completed: {under_way:?}"));
}

/// The keys of a cluster, with another address instead of its nodes and its API.
fn keys_to(cluster: &Cluster, address: &str) -> (String, String) {
    let node = format!("- {}", cluster.nodes()[0].address);
    let api = cluster.kubernetes_url().trim_start_matches("https://").to_owned();
    // The endpoint comes before the nodes.
    let other =
        |text: &str| text.replace(&api, address).replacen(&node, &format!("- {address}"), 1);
    let keys = (other(cluster.talosconfig()), other(cluster.kubeconfig()));
    assert!(keys.0.contains(address), "another address");
    keys
}

/// All clusters of a fleet are upgraded while five are in trouble: the keys of one cannot
/// be parsed, one never answers, the node of one does not come back from its reboot, one
/// panics where its run starts, and one panics in the middle of its run.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_at_once_with_bad_neighbours() {
    let fleet = size_of_the_fleet();
    let world = World::start("fleet").await;
    let most = rlimit::raise_nofile_limit();
    let files = FILES_EACH * u64::try_from(fleet).expect("a number");
    assert!(most.is_none_or(|most| most >= files), "{most:?} open files are not enough");
    let good: Vec<String> = (0..fleet - 5).map(|number| format!("fleet-{number}")).collect();
    let bad = [AT_ITS_BEGINNING, HANGS, PANICS_INSIDE].map(str::to_owned);
    let clusters = start_all([good.clone(), bad.to_vec()].concat()).await;
    for name in [HANGS, PANICS_INSIDE] {
        clusters[name].inject("cp-1", "never-returns").await.expect("a fault");
    }
    // The kernel accepts connections here, and nothing ever answers on them.
    let silence = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silence.local_addr().expect("an address").to_string();
    let (talosconfig, kubeconfig) = keys_to(&clusters[HANGS], &silent);
    world.keys(SILENT, &talosconfig, &kubeconfig).await;
    world.keys(BROKEN, "nonsense: [", "nonsense").await;
    for name in [SILENT, BROKEN] {
        world.apply(&kubernetes_cluster(name)).await;
    }
    for (name, cluster) in &clusters {
        world.register(name, cluster).await;
    }
    assert_eq!(clusters.len() + 2, fleet);

    let (settings, mut options) = world.settings("only");
    options.controller.probe_interval = Duration::from_mins(5);
    // There is no other replica that could take over.
    options.controller.lease = Duration::from_mins(5);
    let operator = operator_with((settings, options));
    for name in BAD {
        set_target(&world, name).await;
    }
    let under_way = |it: &Value| annotation(it, "talos-status") == "in-progress";
    until_each(&world, &[HANGS, PANICS_INSIDE], "under way", under_way).await;
    Sabotage::reads_of(&clusters[PANICS_INSIDE].nodes()[0].apid.to_string());
    let mut arrive = vec![AT_ITS_BEGINNING];
    arrive.extend(good.iter().map(String::as_str));
    upgrade_all(&world, &arrive).await;

    // The bad ones were as bad as they should be, and their objects say so.
    tokio::time::timeout(LONG, Sabotage::panicked_in_both_places())
        .await
        .unwrap_or_else(|_| panic!("nothing panics: {:?}", Sabotage::panics()));
    until_each(&world, &BAD, "told", |it| !annotation(it, "talos-message").is_empty()).await;
    let list = world.get("kubernetesclusters").await;
    assert!(!list.to_string().contains("nonsense"), "rule 14");
    let list = list["items"].as_array().expect("a list");
    assert_eq!(list.len(), fleet);
    for object in list {
        assert_eq!(is_completed(object), arrive.contains(&name_of(object)), "{object:#}");
    }
    // One run for each, also for the one whose task was started again.
    let runs = world.get("upgraderuns").await;
    let runs = runs["items"].as_array().expect("a list");
    let completed = runs.iter().filter(|run| run["status"]["phase"] == "Completed").count();
    assert_eq!(completed, arrive.len(), "{runs:#?}");
    operator.stop().await;
    Sabotage::end();
    for cluster in clusters.into_values() {
        cluster.stop().await;
    }
}
