mod budgets;

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::kubelet::{Cluster, NodeFacts, Timings};
use crate::names::*;
use crate::object;
use crate::store::{DeleteOptions, Propagation};

pub(super) fn start() -> Time {
    Time::from_secs(1_767_323_045)
}

pub(super) fn after(seconds: u64) -> Time {
    start().plus(Duration::from_secs(seconds))
}

pub(super) fn facts(workers: usize) -> Vec<NodeFacts> {
    let mut facts = vec![NodeFacts::new("c1", "10.0.0.1", true)];
    facts.extend(
        (0..workers).map(|at| NodeFacts::new(&format!("w{at}"), &format!("10.0.1.{at}"), false)),
    );
    facts
}

pub(super) fn cluster(workers: usize) -> Cluster {
    let mut cluster = Cluster::new(1, start(), Timings::default());
    cluster.sync(start(), &facts(workers));
    cluster
}

pub(super) fn me() -> Write {
    Write::by("me")
}

pub(super) fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
        },
    })
}

pub(super) fn budget(name: &str, field: &str, value: &Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {field: value, "selector": {"matchLabels": {"app": name}}},
    })
}

pub(super) fn add(cluster: &mut Cluster, object: Value) {
    apply(cluster.server.store_mut(), "me", vec![object]).unwrap();
}

fn get(cluster: &Cluster, resource: &ResourceName, name: &str) -> Value {
    let store = cluster.server.store();
    let found = store.get(resource, "default", name).or_else(|| store.get(resource, "", name));
    found.unwrap_or_else(|| panic!("no {resource} {name}")).as_ref().clone()
}

fn status(cluster: &Cluster, resource: &ResourceName, name: &str, field: &str) -> i64 {
    object::number(&get(cluster, resource, name), &["status", field]).unwrap_or(0)
}

fn pods(cluster: &Cluster) -> Vec<Value> {
    let store = cluster.server.store();
    store.list(&PODS, Some("default")).map(|pod| pod.as_ref().clone()).collect()
}

fn set_image(cluster: &mut Cluster, resource: &ResourceName, name: &str, image: &str) {
    let store = cluster.server.store_mut();
    store
        .modify(&me(), resource, "default", name, |object| {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        })
        .unwrap();
}

#[test]
fn a_deployment_comes_up_on_workers() {
    let mut cluster = cluster(3);
    add(&mut cluster, deployment("web", 6, "web:1"));
    cluster.advance(after(20));
    assert_eq!(status(&cluster, &DEPLOYMENTS, "web", "availableReplicas"), 6);
    let found = get(&cluster, &DEPLOYMENTS, "web");
    assert!(conditions::is_true(&found, "Available"));
    let progress = conditions::get(&found, "Progressing").unwrap();
    assert_eq!(object::text(progress, &["reason"]), "NewReplicaSetAvailable");
    assert_eq!(object::annotation(&found, "deployment.kubernetes.io/revision"), Some("1"));
    for node in ["w0", "w1", "w2"] {
        let here = pods(&cluster)
            .iter()
            .filter(|pod| object::text(pod, &["spec", "nodeName"]) == node)
            .count();
        assert_eq!(here, 2, "{node}");
    }
}

#[test]
fn a_rollout_completes_and_keeps_enough_pods() {
    let mut cluster = cluster(3);
    add(&mut cluster, deployment("web", 8, "web:1"));
    cluster.advance(after(20));
    set_image(&mut cluster, &DEPLOYMENTS, "web", "web:2");
    let mut arrived = false;
    for tenth in 0..600 {
        cluster.advance(after(20).plus(Duration::from_millis(tenth * 100)));
        let ready = pods(&cluster)
            .iter()
            .filter(|pod| conditions::is_true(pod, "Ready") && !object::is_deleting(pod))
            .count();
        assert!(ready >= 6, "{ready} of 8 are ready");
        let alive = pods(&cluster).iter().filter(|pod| !object::is_deleting(pod)).count();
        assert!(alive <= 10, "{alive} for 8");
        arrived = status(&cluster, &DEPLOYMENTS, "web", "updatedReplicas") == 8
            && status(&cluster, &DEPLOYMENTS, "web", "availableReplicas") == 8
            && status(&cluster, &DEPLOYMENTS, "web", "replicas") == 8;
    }
    assert!(arrived);
    let images: BTreeSet<String> = pods(&cluster)
        .iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].to_string())
        .collect();
    assert_eq!(images.len(), 1);
    let found = get(&cluster, &DEPLOYMENTS, "web");
    assert_eq!(object::annotation(&found, "deployment.kubernetes.io/revision"), Some("2"));
}

#[test]
fn a_stuck_rollout_reports_its_deadline() {
    let mut cluster = cluster(2);
    let mut wanted = deployment("web", 2, "web:1");
    object::set(&mut wanted, &["spec", "progressDeadlineSeconds"], 60);
    add(&mut cluster, wanted);
    cluster.advance(after(20));
    let mut broken = facts(2);
    for facts in &mut broken {
        facts.faults.unpullable = vec!["web:2".to_owned()];
    }
    cluster.sync(after(20), &broken);
    set_image(&mut cluster, &DEPLOYMENTS, "web", "web:2");
    cluster.advance(after(120));
    let found = get(&cluster, &DEPLOYMENTS, "web");
    let progress = conditions::get(&found, "Progressing").unwrap();
    assert_eq!(object::text(progress, &["reason"]), "ProgressDeadlineExceeded");
    assert!(status(&cluster, &DEPLOYMENTS, "web", "availableReplicas") >= 1);
}

/// A short form of the workloads that a cluster starts with.
const FURNITURE: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-proxy}}
  template:
    metadata: {labels: {k8s-app: kube-proxy}}
    spec:
      containers: [{name: kube-proxy, image: 'kube-proxy:v1.35.0'}]
      tolerations: [{operator: Exists}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {selector: {k8s-app: kube-dns}, ports: [{port: 53, protocol: UDP}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      containers: [{name: coredns, image: 'coredns:v1.13.1'}]
      tolerations: [{operator: Exists}]
";

#[test]
fn the_furniture_runs_everywhere() {
    let mut cluster = cluster(3);
    let objects = load_workloads(FURNITURE).unwrap();
    apply(cluster.server.store_mut(), "talos", objects).unwrap();
    cluster.advance(after(20));
    let store = cluster.server.store();
    let set = store.get(&DAEMON_SETS, "kube-system", "kube-proxy").unwrap();
    assert_eq!(object::number(set, &["status", "desiredNumberScheduled"]), Some(4));
    assert_eq!(object::number(set, &["status", "numberAvailable"]), Some(4));
    let dns = store.get(&DEPLOYMENTS, "kube-system", "coredns").unwrap();
    assert_eq!(object::number(dns, &["status", "readyReplicas"]), Some(2));
    let slices = store.list(&ENDPOINT_SLICES, Some("kube-system")).next().unwrap();
    assert_eq!(object::list(slices, &["endpoints"]).len(), 2);
    // A new image rolls out, one node at a time.
    let write = me();
    cluster
        .server
        .store_mut()
        .modify(&write, &DAEMON_SETS, "kube-system", "kube-proxy", |set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("kube-proxy:v1.36.0");
        })
        .unwrap();
    for second in 0..60 {
        cluster.advance(after(20 + second));
        let set = cluster.server.store().get(&DAEMON_SETS, "kube-system", "kube-proxy").unwrap();
        assert!(object::number(set, &["status", "numberUnavailable"]).unwrap_or(0) <= 1);
    }
    let set = cluster.server.store().get(&DAEMON_SETS, "kube-system", "kube-proxy").unwrap();
    assert_eq!(object::number(set, &["status", "updatedNumberScheduled"]), Some(4));
}

#[test]
fn a_lost_node_loses_its_pods() {
    let mut cluster = cluster(2);
    add(&mut cluster, deployment("web", 2, "web:1"));
    cluster.advance(after(20));
    let mut down = facts(2);
    down[1].kubelet_up = false;
    cluster.sync(after(20), &down);
    cluster.advance(after(50));
    assert!(conditions::is_true(&get(&cluster, &NODES, "w0"), "Ready"));
    cluster.advance(after(70));
    let node = get(&cluster, &NODES, "w0");
    let ready = conditions::get(&node, "Ready").unwrap();
    assert_eq!(object::text(ready, &["status"]), "Unknown");
    assert_eq!(object::list(&node, &["spec", "taints"]).len(), 2);
    assert_eq!(status(&cluster, &DEPLOYMENTS, "web", "readyReplicas"), 1);
    assert_eq!(pods(&cluster).len(), 2);
    // After five minutes a replacement runs; the old pod stays in Terminating.
    cluster.advance(after(400));
    assert_eq!(status(&cluster, &DEPLOYMENTS, "web", "readyReplicas"), 2);
    assert_eq!(pods(&cluster).len(), 3);
    down[1].kubelet_up = true;
    down[1].boot_id = "2".to_owned();
    cluster.sync(after(401), &down);
    cluster.advance(after(420));
    assert_eq!(pods(&cluster).len(), 2);
    assert!(object::list(&get(&cluster, &NODES, "w0"), &["spec", "taints"]).is_empty());
}

#[test]
fn no_node_is_lost_while_the_api_server_is_down() {
    let mut cluster = cluster(2);
    cluster.advance(after(20));
    cluster.resume(after(600));
    cluster.advance(after(610));
    assert!(conditions::is_true(&get(&cluster, &NODES, "w0"), "Ready"));
    assert!(object::list(&get(&cluster, &NODES, "w0"), &["spec", "taints"]).is_empty());
}

#[test]
fn garbage_collection_follows_the_propagation_policy() {
    for (propagation, pods_left, sets_left) in [
        (Propagation::Background, 0, 0),
        (Propagation::Foreground, 0, 0),
        (Propagation::Orphan, 3, 1),
    ] {
        let mut cluster = cluster(2);
        add(&mut cluster, deployment("web", 3, "web:1"));
        cluster.advance(after(20));
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        let store = cluster.server.store_mut();
        store.delete(&me(), &DEPLOYMENTS, "default", "web", &options).unwrap();
        cluster.advance(after(20));
        let there = cluster.server.store().get(&DEPLOYMENTS, "default", "web").is_some();
        assert_eq!(there, propagation == Propagation::Foreground);
        cluster.advance(after(40));
        let store = cluster.server.store();
        assert!(store.get(&DEPLOYMENTS, "default", "web").is_none(), "{propagation:?}");
        assert_eq!(store.list(&PODS, Some("default")).count(), pods_left, "{propagation:?}");
        assert_eq!(store.list(&REPLICA_SETS, Some("default")).count(), sets_left);
    }
}

#[test]
fn a_namespace_gets_its_default_objects_and_is_emptied() {
    let mut cluster = cluster(2);
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    add(&mut cluster, space);
    cluster.advance(after(1));
    let store = cluster.server.store();
    assert!(store.get(&SERVICE_ACCOUNTS, "shop", "default").is_some());
    assert!(store.get(&CONFIG_MAPS, "shop", "kube-root-ca.crt").is_some());
    let mut web = deployment("web", 2, "web:1");
    object::set(&mut web, &["metadata", "namespace"], "shop");
    add(&mut cluster, web);
    cluster.advance(after(20));
    let options = DeleteOptions::default();
    cluster.server.store_mut().delete(&me(), &NAMESPACES, "", "shop", &options).unwrap();
    cluster.advance(after(20));
    assert!(cluster.server.store().get(&NAMESPACES, "", "shop").is_some());
    cluster.advance(after(40));
    let store = cluster.server.store();
    assert!(store.get(&NAMESPACES, "", "shop").is_none());
    assert!(store.types().iter().all(|kind| store.list(&kind.name, Some("shop")).count() == 0));
}

#[test]
fn a_job_completes() {
    let mut cluster = cluster(2);
    add(
        &mut cluster,
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "once", "namespace": "default"},
            "spec": {
                "completions": 3, "parallelism": 2,
                "template": {"spec": {
                    "restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}],
                }},
            },
        }),
    );
    cluster.advance(after(60));
    let job = get(&cluster, &JOBS, "once");
    assert!(conditions::is_true(&job, "Complete"));
    assert_eq!(object::number(&job, &["status", "succeeded"]), Some(3));
    assert_eq!(pods(&cluster).len(), 3);
}

fn stateful_set(replicas: i64) -> Value {
    let mut set = deployment("db", replicas, "db:1");
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("db");
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }]);
    set
}

#[test]
fn a_stateful_set_moves_with_its_volume() {
    let mut cluster = cluster(2);
    add(&mut cluster, stateful_set(2));
    cluster.advance(after(40));
    assert_eq!(status(&cluster, &STATEFUL_SETS, "db", "readyReplicas"), 2);
    let claim = get(&cluster, &PERSISTENT_VOLUME_CLAIMS, "data-db-0");
    assert_eq!(object::text(&claim, &["status", "phase"]), "Bound");
    assert_eq!(cluster.server.store().count(&VOLUME_ATTACHMENTS), 2);
    // Its node is emptied, and the volume does not detach.
    let home = object::text(&get(&cluster, &PODS, "db-0"), &["spec", "nodeName"]).to_owned();
    let mut stuck = facts(2);
    for facts in &mut stuck {
        facts.faults.volumes_stay = facts.name == home;
    }
    cluster.sync(after(40), &stuck);
    let store = cluster.server.store_mut();
    let cordon = |node: &mut Value| object::set(node, &["spec", "unschedulable"], true);
    store.modify(&me(), &NODES, "", &home, cordon).unwrap();
    store.delete(&me(), &PODS, "default", "db-0", &DeleteOptions::default()).unwrap();
    cluster.advance(after(100));
    let pod = get(&cluster, &PODS, "db-0");
    assert_ne!(object::text(&pod, &["spec", "nodeName"]), home);
    assert_eq!(object::text(&pod, &["status", "phase"]), "Pending");
    cluster.sync(after(100), &facts(2));
    cluster.advance(after(120));
    assert_eq!(status(&cluster, &STATEFUL_SETS, "db", "readyReplicas"), 2);
    // A new image rolls out from the last pod to the first.
    set_image(&mut cluster, &STATEFUL_SETS, "db", "db:2");
    cluster.advance(after(180));
    assert_eq!(status(&cluster, &STATEFUL_SETS, "db", "updatedReplicas"), 2);
    let set = get(&cluster, &STATEFUL_SETS, "db");
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
}

#[test]
fn workloads_are_read() {
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\n---\napiVersion: v1\n\
                kind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: b}\n";
    let objects = load_workloads(yaml).unwrap();
    assert_eq!(objects.len(), 2);
    let mut cluster = cluster(1);
    apply(cluster.server.store_mut(), "me", objects).unwrap();
    assert!(cluster.server.store().get(&SECRETS, "default", "b").is_some());
    assert!(load_workloads("kind: x\n").is_err());
    assert!(load_workloads("a: [").is_err());
}

#[test]
fn a_pod_that_fits_on_no_node_stays_pending() {
    let mut cluster = cluster(1);
    let mut big = deployment("big", 1, "big:1");
    let container = &mut big["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({"requests": {"cpu": "6"}});
    add(&mut cluster, big);
    cluster.advance(after(10));
    let waiting = &pods(&cluster)[0];
    let condition = conditions::get(waiting, "PodScheduled").unwrap();
    assert_eq!(object::text(condition, &["reason"]), "Unschedulable");
    assert!(object::text(condition, &["message"]).starts_with("0/2 nodes are available: "));
    let mut more = facts(1);
    more[1].cpu_millis = 8000;
    cluster.sync(after(10), &more);
    cluster.advance(after(20));
    assert!(conditions::is_true(&pods(&cluster)[0], "Ready"));
}

#[test]
fn a_cluster_survives_serialisation() {
    let mut cluster = cluster(2);
    add(&mut cluster, deployment("web", 3, "web:1"));
    cluster.advance(after(2));
    let text = serde_json::to_string(&cluster).unwrap();
    let mut other: Cluster = serde_json::from_str(&text).unwrap();
    other.advance(after(30));
    assert_eq!(status(&other, &DEPLOYMENTS, "web", "availableReplicas"), 3);
    let mut down = facts(2);
    down[1].kubelet_up = false;
    other.sync(after(31), &down);
    other.advance(after(90));
    let ready = get(&other, &NODES, "w0");
    assert!(!conditions::is_true(&ready, "Ready"));
}

#[test]
fn irrelevant_changes_queue_no_work() {
    let pod = json!({
        "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"nodeName": "w1"},
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}],
        },
    });
    let with = |path: &[&str], value: Value| {
        let mut changed = pod.clone();
        object::set(&mut changed, path, value);
        changed
    };
    let ready = |status: &str| json!([{"type": "Ready", "status": status, "reason": "Other"}]);
    let alike = |other: &Value| super::pods::count_alike(&pod, other);
    assert!(alike(&with(&["status", "conditions"], ready("False"))), "only why differs");
    assert!(alike(&with(&["status", "startTime"], json!("2027-01-01T00:00:00Z"))));
    assert!(!alike(&with(&["status", "conditions"], ready("True"))));
    assert!(!alike(&with(&["status", "phase"], json!("Failed"))));
    assert!(!alike(&with(&["status", "podIP"], json!("10.0.0.2"))));
    assert!(!alike(&with(&["metadata", "labels", "app"], json!("b"))));
    assert!(!alike(&with(&["metadata", "deletionTimestamp"], json!("2027-01-01T00:00:00Z"))));
    assert!(!alike(&with(&["spec", "nodeName"], json!("w2"))));
}
