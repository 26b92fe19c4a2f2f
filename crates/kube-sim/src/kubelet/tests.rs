use std::time::Duration;

use serde_json::json;

use super::*;
use crate::controllers::conditions;
use crate::names::{LEASES, NODES};
use crate::object;
use crate::store::{DeleteOptions, Write};

fn start() -> Time {
    Time::from_secs(1_767_323_045)
}

fn after(seconds: u64) -> Time {
    start().plus(Duration::from_secs(seconds))
}

fn cluster() -> Cluster {
    Cluster::new(1, start(), Timings::default())
}

fn worker() -> NodeFacts {
    NodeFacts::new("w1", "10.0.0.2", false)
}

fn control_plane(version: u64, image: &str, ready: bool) -> NodeFacts {
    let mut facts = NodeFacts::new("c1", "10.0.0.1", true);
    facts.static_pods = vec![StaticPod {
        component: "kube-apiserver".to_owned(),
        image: image.to_owned(),
        ready,
        config_version: version,
        config_file_version: None,
        config_hash: format!("{version}-{image}"),
    }];
    facts
}

fn bound(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": "w1", "containers": [{"name": "app", "image": "app:1"}]},
    })
}

fn pod(cluster: &Cluster, name: &str) -> Option<Arc<Value>> {
    cluster.server.store().get(&PODS, "default", name).cloned()
}

#[test]
fn a_node_registers_and_renews() {
    let mut cluster = cluster();
    cluster.sync(start(), &[control_plane(1, "api:1", true), worker()]);
    let store = cluster.server.store();
    let node = store.get(&NODES, "", "c1").unwrap();
    assert_eq!(object::label(node, "node-role.kubernetes.io/control-plane"), Some(""));
    assert_eq!(object::text(node, &["status", "nodeInfo", "kubeletVersion"]), "v1.35.0");
    assert!(conditions::is_true(node, "Ready"));
    assert_eq!(object::list(node, &["spec", "taints"]).len(), 1);
    cluster.advance(after(35));
    let lease = cluster.server.store().get(&LEASES, "kube-node-lease", "w1").unwrap();
    let renewed = Time::from_text(object::text(lease, &["spec", "renewTime"])).unwrap();
    assert!(after(35).since(renewed) <= Duration::from_secs(10));
}

#[test]
fn a_pod_runs_and_stops() {
    let mut cluster = cluster();
    cluster.sync(start(), &[worker()]);
    cluster.server.store_mut().create(&Write::by("me"), &PODS, bound("a")).unwrap();
    cluster.advance(after(0));
    let waiting = pod(&cluster, "a").unwrap();
    assert_eq!(object::text(&waiting, &["status", "phase"]), "Pending");
    cluster.advance(after(10));
    let running = pod(&cluster, "a").unwrap();
    assert!(conditions::is_true(&running, "Ready"));
    assert_eq!(object::text(&running, &["status", "hostIP"]), "10.0.0.2");
    assert!(object::text(&running, &["status", "podIP"]).starts_with("10.244.0."));
    let (write, options) = (Write::by("me"), DeleteOptions::default());
    cluster.server.store_mut().delete(&write, &PODS, "default", "a", &options).unwrap();
    cluster.advance(after(10));
    assert!(object::is_deleting(&pod(&cluster, "a").unwrap()));
    cluster.advance(after(14));
    assert_eq!(pod(&cluster, "a"), None);
}

#[test]
fn a_pod_uses_all_of_a_long_grace_period() {
    let mut cluster = cluster();
    cluster.sync(start(), &[worker()]);
    let mut long = bound("a");
    object::set(&mut long, &["spec", "terminationGracePeriodSeconds"], 120);
    cluster.server.store_mut().create(&Write::by("me"), &PODS, long).unwrap();
    cluster.advance(after(10));
    let options = DeleteOptions::default();
    let write = Write::by("me");
    cluster.server.store_mut().delete(&write, &PODS, "default", "a", &options).unwrap();
    cluster.advance(after(120));
    assert!(pod(&cluster, "a").is_some());
    // A user shortens the grace period.
    let options = DeleteOptions { grace_period_seconds: Some(5), ..DeleteOptions::default() };
    cluster.server.store_mut().delete(&write, &PODS, "default", "a", &options).unwrap();
    cluster.advance(after(126));
    assert_eq!(pod(&cluster, "a"), None);
}

#[test]
fn a_pod_of_a_dead_node_stays_until_its_kubelet_is_back() {
    let mut cluster = cluster();
    let mut facts = worker();
    cluster.sync(start(), std::slice::from_ref(&facts));
    cluster.server.store_mut().create(&Write::by("me"), &PODS, bound("a")).unwrap();
    cluster.server.store_mut().create(&Write::by("me"), &PODS, bound("b")).unwrap();
    cluster.advance(after(10));
    facts.kubelet_up = false;
    cluster.sync(after(11), std::slice::from_ref(&facts));
    let (write, options) = (Write::by("me"), DeleteOptions::default());
    cluster.server.store_mut().delete(&write, &PODS, "default", "a", &options).unwrap();
    cluster.advance(after(60));
    assert!(pod(&cluster, "a").is_some());
    facts.kubelet_up = true;
    facts.boot_id = "2".to_owned();
    cluster.sync(after(61), std::slice::from_ref(&facts));
    cluster.advance(after(75));
    assert_eq!(pod(&cluster, "a"), None);
    let survivor = pod(&cluster, "b").unwrap();
    assert!(conditions::is_true(&survivor, "Ready"));
    let containers = object::list(&survivor, &["status", "containerStatuses"]);
    assert_eq!(object::number(&containers[0], &["restartCount"]), Some(1));
}

#[test]
fn a_restart_of_the_kubelet_leaves_its_pods_alone() {
    let mut cluster = cluster();
    let mut facts = worker();
    cluster.sync(start(), std::slice::from_ref(&facts));
    cluster.server.store_mut().create(&Write::by("me"), &PODS, bound("a")).unwrap();
    cluster.advance(after(10));
    let before = pod(&cluster, "a").unwrap();
    facts.kubelet_up = false;
    cluster.sync(after(11), std::slice::from_ref(&facts));
    facts.kubelet_up = true;
    facts.kubelet_version = "v1.36.0".to_owned();
    cluster.sync(after(15), std::slice::from_ref(&facts));
    cluster.advance(after(30));
    assert_eq!(pod(&cluster, "a").unwrap(), before);
    let node = cluster.server.store().get(&NODES, "", "w1").unwrap();
    assert_eq!(object::text(node, &["status", "nodeInfo", "kubeletVersion"]), "v1.36.0");
    assert_eq!(object::text(node, &["status", "nodeInfo", "bootID"]), "1");
}

#[test]
fn a_kubelet_corrects_the_status_that_others_wrote() {
    let mut cluster = cluster();
    let mut facts = worker();
    cluster.sync(start(), std::slice::from_ref(&facts));
    cluster.server.store_mut().create(&Write::by("me"), &PODS, bound("a")).unwrap();
    cluster.advance(after(10));
    // The node is not ready for a while, and its pods are marked unready.
    facts.ready = false;
    cluster.sync(after(11), std::slice::from_ref(&facts));
    assert!(!conditions::is_true(&pod(&cluster, "a").unwrap(), "Ready"));
    facts.ready = true;
    cluster.sync(after(12), std::slice::from_ref(&facts));
    assert!(conditions::is_true(&pod(&cluster, "a").unwrap(), "Ready"));
    // The node controller marks it as lost.
    let unready = |object: &mut Value| {
        let conditions = object["status"]["conditions"].as_array_mut().unwrap();
        let ready = conditions.iter_mut().find(|it| it["type"] == "Ready").unwrap();
        ready["status"] = json!("Unknown");
    };
    let store = cluster.server.store_mut();
    store.modify_status(&Write::by("me"), &NODES, "", "w1", unready).unwrap();
    store.modify_status(&Write::by("me"), &PODS, "default", "a", unready).unwrap();
    cluster.advance(after(13));
    assert!(conditions::is_true(cluster.server.store().get(&NODES, "", "w1").unwrap(), "Ready"));
    assert!(conditions::is_true(&pod(&cluster, "a").unwrap(), "Ready"));
}

#[test]
fn an_image_that_cannot_be_pulled_backs_off() {
    let mut cluster = cluster();
    let mut facts = worker();
    facts.faults.unpullable = vec!["app:".to_owned()];
    cluster.sync(start(), std::slice::from_ref(&facts));
    cluster.server.store_mut().create(&Write::by("me"), &PODS, bound("a")).unwrap();
    let reason = |cluster: &Cluster| {
        let pod = pod(cluster, "a").unwrap();
        let containers = object::list(&pod, &["status", "containerStatuses"]).to_vec();
        object::text(&containers[0], &["state", "waiting", "reason"]).to_owned()
    };
    cluster.advance(after(4));
    assert_eq!(reason(&cluster), "ErrImagePull");
    cluster.advance(after(10));
    assert_eq!(reason(&cluster), "ImagePullBackOff");
    facts.faults.unpullable.clear();
    cluster.sync(after(11), std::slice::from_ref(&facts));
    cluster.advance(after(30));
    assert!(conditions::is_true(&pod(&cluster, "a").unwrap(), "Ready"));
}

#[test]
fn static_pods_are_mirrored() {
    let mut cluster = cluster();
    cluster.sync(start(), &[control_plane(1, "api:1", true)]);
    let mirror = |cluster: &Cluster| {
        cluster.server.store().get(&PODS, "kube-system", "kube-apiserver-c1").cloned().unwrap()
    };
    let before = mirror(&cluster);
    assert!(conditions::is_true(&before, "Ready"));
    assert_eq!(object::label(&before, "k8s-app"), Some("kube-apiserver"));
    assert_eq!(object::annotation(&before, "talos.dev/config-version"), Some("1"));
    assert_eq!(object::text(&before, &["status", "hostIP"]), "10.0.0.1");
    // A new definition makes a new pod.
    cluster.sync(after(5), &[control_plane(2, "api:2", false)]);
    let changed = mirror(&cluster);
    assert_ne!(object::uid(&changed), object::uid(&before));
    assert_eq!(object::annotation(&changed, "talos.dev/config-version"), Some("2"));
    assert!(!conditions::is_true(&changed, "Ready"));
    cluster.sync(after(8), &[control_plane(2, "api:2", true)]);
    assert!(conditions::is_true(&mirror(&cluster), "Ready"));
    // A deleted mirror pod comes back.
    let write = Write::by("me");
    let options = DeleteOptions::default();
    let name = "kube-apiserver-c1";
    cluster.server.store_mut().delete(&write, &PODS, "kube-system", name, &options).unwrap();
    cluster.advance(after(9));
    let again = mirror(&cluster);
    assert_ne!(object::uid(&again), object::uid(&changed));
    assert!(conditions::is_true(&again, "Ready"));
}

/// The renewal time of the worker's lease, as a request sees it.
fn renewed(cluster: &mut Cluster, now: Time) -> Time {
    cluster.advance(now);
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/w1";
    let request = crate::Request::get(path);
    let reply = cluster.server.request(now, &crate::Caller::admin(), &request);
    let crate::Reply::Response { body, .. } = reply else { panic!("{reply:?}") };
    let lease: Value = serde_json::from_slice(&body).unwrap();
    Time::from_text(object::text(&lease, &["spec", "renewTime"])).unwrap()
}

fn brief() -> Cluster {
    let mut cluster = cluster();
    cluster.server.store_mut().write_lazily();
    cluster.sync(start(), &[worker()]);
    cluster
}

#[test]
fn lazy_leases_are_written_when_they_are_read() {
    let mut cluster = brief();
    cluster.advance(after(5));
    let before = cluster.server.store().revision();
    cluster.advance(after(95));
    assert_eq!(cluster.server.store().revision(), before, "nothing was written");
    assert_eq!(cluster.next_event(), Some(after(300)), "the next heartbeat");
    assert_eq!(renewed(&mut cluster, after(95)), after(90));
    let list = crate::Request::get("/apis/coordination.k8s.io/v1/leases");
    let _ = cluster.server.request(after(125), &crate::Caller::admin(), &list);
    assert!(cluster.server.store().revision() > before + 1);
    // A watch gets every renewal.
    let watch = crate::Request::get("/apis/coordination.k8s.io/v1/leases?watch=1");
    let _ = cluster.server.request(after(125), &crate::Caller::admin(), &watch);
    cluster.server.outputs();
    assert_eq!(cluster.next_event(), Some(after(130)));
    cluster.advance(after(155));
    assert_eq!(cluster.server.outputs().len(), 3);
    let node = cluster.server.store().get(&NODES, "", "w1").unwrap();
    assert!(conditions::is_true(node, "Ready"));
}

#[test]
fn a_silent_node_is_lost_at_the_same_time_whether_its_lease_was_written_or_not() {
    let lost = |mut cluster: Cluster| {
        cluster.sync(start(), &[worker()]);
        cluster.advance(after(127));
        cluster.sync(after(127), &[NodeFacts { kubelet_up: false, ..worker() }]);
        let ready = |cluster: &Cluster| {
            conditions::is_true(cluster.server.store().get(&NODES, "", "w1").unwrap(), "Ready")
        };
        let seconds = (128..400).find(|seconds| {
            cluster.advance(after(*seconds));
            !ready(&cluster)
        });
        let lease = renewed(&mut cluster, after(400));
        cluster.sync(after(400), &[worker()]);
        cluster.advance(after(405));
        assert!(ready(&cluster));
        (seconds, lease, renewed(&mut cluster, after(433)))
    };
    let plain = lost(cluster());
    assert_eq!(plain, (Some(160), after(120), after(430)));
    assert_eq!(lost(brief()), plain);
}

#[test]
fn a_deleted_lease_comes_back() {
    let mut cluster = brief();
    cluster.advance(after(25));
    let options = DeleteOptions::now();
    let store = cluster.server.store_mut();
    store.delete(&Write::by("me"), &LEASES, "kube-node-lease", "w1", &options).unwrap();
    cluster.advance(after(60));
    assert!(after(60).since(renewed(&mut cluster, after(60))) < Duration::from_secs(10));
}

#[test]
fn a_brief_store_tracks_fields_of_outside_writers_only() {
    let mut cluster = brief();
    cluster.server.store_mut().create(&Write::by("me"), &PODS, bound("a")).unwrap();
    cluster.advance(after(30));
    let managers = |object: &Value| -> Vec<String> {
        let entries = object::list(object, &["metadata", "managedFields"]);
        entries.iter().map(|entry| object::text(entry, &["manager"]).to_owned()).collect()
    };
    let pod = pod(&cluster, "a").unwrap();
    assert!(conditions::is_true(&pod, "Ready"));
    assert_eq!(managers(&pod), ["me"]);
    let store = cluster.server.store_mut();
    assert!(managers(Store::get(store, &NODES, "", "w1").unwrap()).is_empty());
    // Server-side apply tracks ownership here too.
    let wanted = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"},
        "spec": {"unschedulable": true}});
    let (node, _) = store.apply(&Write::by("me"), &NODES, &wanted, "", false).unwrap();
    assert!(managers(&node).contains(&"me".to_owned()), "{node}");
    cluster.advance(after(400));
    let node = cluster.server.store().get(&NODES, "", "w1").unwrap();
    assert!(managers(node).contains(&"me".to_owned()), "{node}");
}
