//! The drains of a plan, thought through beforehand.

use std::collections::BTreeMap;

use upgrade_core::catalogue::Catalogue;
use upgrade_core::jiff::Timestamp;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::{AtStake, Drain, Policy};
use upgrade_core::selector::LabelSelector;
use upgrade_core::snapshot::{Fact, NodeName, Snapshot};
use upgrade_core::workload::{Budget, Capacity, Pod, PodName, Resources, Workloads};
use upgrade_planner::drain::{Fate, fate};
use upgrade_planner::health::Verdict;
use upgrade_planner::{Request, health, plan};

use crate::common::{cluster, etcd, intent, kubernetes, talos};

fn pod(name: &str, node: &str) -> Pod {
    Pod {
        name: PodName { namespace: "shop".to_owned(), name: name.to_owned() },
        uid: format!("uid-{name}"),
        node: Some(node.into()),
        phase: "Running".to_owned(),
        ready: true,
        deleting_since: None,
        controller: Some(("ReplicaSet".to_owned(), "web".to_owned())),
        mirror: false,
        empty_dir: false,
        claims: vec![],
        labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        node_selector: BTreeMap::new(),
        tolerates: vec![],
        requests: Resources { cpu_millis: 100, memory_bytes: 1_000, pods: 1 },
        containers: vec![],
        config_hash: None,
    }
}

fn budget(name: &str, wants: i64, healthy: i64, of: i64) -> Budget {
    Budget {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        selector: LabelSelector(serde_json::json!({"matchLabels": {"app": "web"}})),
        disruptions_allowed: (healthy - wants).max(0),
        desired_healthy: wants,
        current_healthy: healthy,
        expected_pods: of,
    }
}

/// Three control planes that take no pods, and two workers with a little room.
fn workloads(pods: Vec<Pod>, budgets: Vec<Budget>) -> Workloads {
    let node = |taints: &[&str]| Capacity {
        allocatable: Resources { cpu_millis: 1_000, memory_bytes: 10_000, pods: 10 },
        labels: BTreeMap::new(),
        taints: taints.iter().map(|taint| (*taint).to_owned()).collect(),
    };
    let control_planes = (1..=3).map(|number| {
        (NodeName(format!("cp-{number}")), node(&["node-role.kubernetes.io/control-plane"]))
    });
    let workers = (1..=2).map(|number| (NodeName(format!("worker-{number}")), node(&[])));
    Workloads { pods, budgets, capacity: control_planes.chain(workers).collect() }
}

fn said(snapshot: &Snapshot, policy: &Policy, workloads: &Fact<Workloads>) -> String {
    let planned = plan(&Request {
        snapshot,
        intent: &intent(Some("1.13.9"), None),
        policy,
        matrix: &Matrix::builtin(),
        catalogue: &Catalogue::builtin(),
        workloads,
        manifests: &Fact::Unasked,
        external_upgrader: false,
    });
    let warnings = planned.expect("a plan").report.warnings;
    warnings.iter().fold(String::new(), |text, warning| text + &format!("warning: {warning}\n"))
}

fn warnings(policy: &Policy, workloads: Workloads) -> String {
    said(&cluster(3, 2, "1.13.2", "1.34.2"), policy, &Fact::Known(workloads))
}

#[test]
fn a_cluster_with_room_draws_no_warning() {
    let pods = vec![pod("web-1", "worker-1"), pod("web-2", "worker-2")];
    assert_eq!(warnings(&Policy::default(), workloads(pods, vec![budget("web", 1, 2, 2)])), "");
}

#[test]
fn budgets_in_the_way_are_named() {
    // Rule 6.
    let pods = || vec![pod("web-1", "worker-1"), pod("web-2", "worker-2")];
    let never = warnings(&Policy::default(), workloads(pods(), vec![budget("web", 2, 2, 2)]));
    assert_eq!(
        never,
        "warning: budget shop/web never allows an eviction: it requires 2 of 2 pods to be \
         healthy; it blocks shop/web-1, shop/web-2\n"
    );
    let now = warnings(&Policy::default(), workloads(pods(), vec![budget("web", 1, 1, 2)]));
    assert!(now.contains("allows no eviction now: it requires 1 healthy pods and has 1"), "{now}");
    let both = vec![budget("a", 1, 2, 2), budget("b", 1, 2, 2)];
    let both = warnings(&Policy::default(), workloads(pods(), both));
    assert!(both.contains("several budgets match (shop/a, shop/b): shop/web-1"), "{both}");
    // A budget over pods that stay where they are does not matter.
    let mut daemon = pod("web-1", "worker-1");
    daemon.controller = Some(("DaemonSet".to_owned(), "web".to_owned()));
    let quiet = warnings(&Policy::default(), workloads(vec![daemon], vec![budget("web", 1, 1, 1)]));
    assert_eq!(quiet, "");
}

#[test]
fn the_policy_decides_what_is_at_stake() {
    let mut bare = pod("job", "worker-1");
    bare.controller = None;
    let mut scratch = pod("cache", "worker-2");
    scratch.empty_dir = true;
    let with = |bare_pods, empty_dir| Policy {
        drain: Drain { bare_pods, empty_dir, ..Drain::default() },
        ..Policy::default()
    };
    let world = || workloads(vec![bare.clone(), scratch.clone()], vec![]);
    let halts = warnings(&with(AtStake::Halt, AtStake::Halt), world());
    assert!(
        halts.contains("drain of worker-1 will halt, since the policy halts for no controller")
    );
    assert!(halts.contains("drain of worker-2 will halt, since the policy halts for emptyDir"));
    let lost = warnings(&with(AtStake::Evict, AtStake::Evict), world());
    assert!(lost.starts_with("warning: evicted from worker-1 and not recreated"), "{lost}");
    assert_eq!(lost.lines().count(), 1, "{lost}");
    assert_eq!(warnings(&with(AtStake::Leave, AtStake::Leave), world()), "");
}

#[test]
fn every_pod_has_its_fate() {
    let policy = Drain::default();
    let changed = |change: &dyn Fn(&mut Pod)| {
        let mut pod = pod("x", "worker-1");
        change(&mut pod);
        fate(&pod, &policy)
    };
    assert_eq!(changed(&|_| {}), Fate::Evicted);
    assert_eq!(changed(&|pod| pod.empty_dir = true), Fate::Evicted);
    assert_eq!(changed(&|pod| pod.controller = None), Fate::Halts("no controller"));
    assert_eq!(changed(&|pod| pod.deleting_since = Some(Timestamp::UNIX_EPOCH)), Fate::Going);
    for stays in [
        changed(&|pod| pod.mirror = true),
        changed(&|pod| pod.phase = "Succeeded".to_owned()),
        // A finished pod needs no controller to be left alone.
        changed(&|pod| (pod.phase, pod.controller) = ("Failed".to_owned(), None)),
        changed(&|pod| pod.controller = Some(("DaemonSet".to_owned(), "x".to_owned()))),
    ] {
        assert!(matches!(stays, Fate::Stays(_)), "{stays:?}");
    }
}

#[test]
fn room_and_taints_are_checked() {
    let full = |name: &str, node: &str| {
        let requests = Resources { cpu_millis: 600, memory_bytes: 100, pods: 1 };
        Pod { requests, ..pod(name, node) }
    };
    let pods = vec![full("a", "worker-1"), full("b", "worker-2")];
    let lacks = warnings(&Policy::default(), workloads(pods, vec![]));
    assert!(lacks.contains("no room for these pods while worker-1 is drained: shop/a"), "{lacks}");
    assert!(lacks.contains("no room for these pods while worker-2 is drained: shop/b"), "{lacks}");
    let mut tied = pod("tied", "worker-1");
    tied.node_selector = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
    let mut world = workloads(vec![tied], vec![]);
    let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
    world.capacity.get_mut(&"worker-1".into()).unwrap().labels = labels;
    let nowhere = warnings(&Policy::default(), world);
    assert!(nowhere.contains("no other node takes these pods of worker-1"), "{nowhere}");
    // Both workers at once leave no node to go to.
    let mut policy = Policy::default();
    policy.workers.max_unavailable = upgrade_core::amount::Amount::Count(2);
    let both = warnings(&policy, workloads(vec![pod("web", "worker-1")], vec![]));
    assert!(both.contains("no other node takes these pods of worker-1,"), "{both}");
}

#[test]
fn what_is_not_known_is_said_and_what_was_not_asked_is_not() {
    let snapshot = cluster(3, 2, "1.13.2", "1.34.2");
    let unknown = said(&snapshot, &Policy::default(), &Fact::Unknown("no answer".to_owned()));
    assert!(unknown.contains("no drain was simulated: no answer"), "{unknown}");
    assert_eq!(said(&snapshot, &Policy::default(), &Fact::Unasked), "");
}

#[test]
fn health_names_what_is_wrong() {
    let mut snapshot = cluster(3, 2, "1.13.2", "1.34.2");
    let good = health(&snapshot, &Fact::Unasked);
    assert!(good.iter().all(|check| check.verdict == Verdict::Good), "{good:?}");
    talos(&mut snapshot, "cp-2").ready = false;
    kubernetes(&mut snapshot, "worker-1").unschedulable = true;
    etcd(&mut snapshot).alarms.push("NOSPACE on cp-1".to_owned());
    let mirror = |component: &str, node: &str| {
        let mut pod = pod(&format!("{component}-{node}"), node);
        pod.mirror = true;
        pod
    };
    let mut pods: Vec<_> = ["cp-1", "cp-2", "cp-3"]
        .into_iter()
        .flat_map(|node| {
            ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
                .map(|component| mirror(component, node))
        })
        .collect();
    pods[0].ready = false;
    pods.remove(8);
    pods.push(Pod { ready: false, ..pod("web-1", "worker-1") });
    pods.push(Pod { node: None, ..pod("web-2", "worker-1") });
    let found = health(&snapshot, &Fact::Known(workloads(pods, vec![budget("web", 2, 1, 2)])));
    let bad: Vec<_> = found
        .iter()
        .filter(|check| check.verdict != Verdict::Good)
        .map(|check| format!("{:?} {check}", check.verdict))
        .collect();
    assert_eq!(
        bad,
        [
            "Bad Talos: cp-2: 1.13.2 runs and is not ready",
            "Bad etcd: the alarm NOSPACE on cp-1 is raised",
            "Doubtful Kubernetes: worker-1: cordoned: it takes no new pods",
            "Bad Kubernetes: cp-1: kube-apiserver is not ready",
            "Bad Kubernetes: cp-3: kube-scheduler is not there",
            "Doubtful workloads: pods that found no node: shop/web-2",
            "Doubtful workloads: pods that are not ready: shop/web-1",
            "Doubtful workloads: budget shop/web wants 2 of 2 pods healthy and never lets one go",
        ]
    );
    let unseen = health(&snapshot, &Fact::Unknown("no answer".to_owned()));
    assert!(unseen.iter().any(|check| check.to_string() == "workloads: no answer"));
}
