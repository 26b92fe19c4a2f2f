//! Nodes and their objects together, in memory: what the nodes do to pods and manifests by
//! themselves.

use std::sync::Arc;
use std::time::Duration;

use kube_sim::names::{
    CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS, SERVICE_ACCOUNTS,
};
use kube_sim::store::DeleteOptions;
use kube_sim::{ResourceName, Store, Write, object};
use serde_json::{Value, json};
use talos_proto::machine;

use super::*;
use crate::model::{Caller, ClusterSpec, EMPTY_SCHEMATIC, Fault, NodeSpec, Request};

const START: Time = Time::from_secs(1_800_000_000);

/// A deployment that stays on its node and cannot lose a pod, and a pod without an owner.
const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'example.com/web:1'}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: default}
spec: {nodeName: worker-1, containers: [{name: alone, image: 'example.com/alone:1'}]}
";

/// The index of the first worker.
const WORKER: usize = 3;

struct Both {
    world: World,
    kubernetes: Kubernetes,
    now: Time,
}

impl Both {
    fn new(talos: &str, workloads: &str) -> Self {
        let (talos, kubernetes) = (talos.parse().unwrap(), "1.34.2".parse().unwrap());
        let spec = ClusterSpec::new(3, 1, &talos, &kubernetes);
        let world = World::new(&spec, 0, START);
        let objects = read_workloads(workloads).unwrap();
        let kubernetes = Kubernetes::new(&world, 0, &objects).unwrap();
        Self { world, kubernetes, now: START }
    }

    /// Advances time, from one event to the next.
    fn secs(&mut self, seconds: u64) {
        let until = self.now.plus(Duration::from_secs(seconds));
        let next = |both: &Self| {
            let next = [both.world.next_event(), both.kubernetes.next_event(&both.world)];
            next.into_iter().flatten().min().filter(|next| *next <= until)
        };
        while let Some(at) = next(self) {
            self.world.advance(at);
            self.kubernetes.follow(&mut self.world, at);
            if next(self) == Some(at) {
                break;
            }
        }
        self.now = until;
        self.world.advance(until);
        self.kubernetes.follow(&mut self.world, until);
    }

    fn until(&mut self, what: &str, limit: u64, holds: impl Fn(&Self) -> bool) {
        for _ in 0..limit {
            if holds(self) {
                return;
            }
            self.secs(1);
        }
        panic!("still waiting after {limit} s: {what}");
    }

    fn call(&mut self, node: usize, request: Request) {
        let reply = self.world.request(self.now, NodeIndex(node), &Caller::admin(), request);
        assert!(!matches!(reply, crate::model::Reply::Error(_)), "{reply:?}");
        self.kubernetes.follow(&mut self.world, self.now);
    }

    /// Upgrades a node with the legacy call.
    fn upgrade(&mut self, node: usize, tag: &str) {
        let image = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{tag}");
        self.call(node, Request::Upgrade(machine::UpgradeRequest { image, ..Default::default() }));
    }

    fn store(&self) -> &Store {
        self.kubernetes.api().store()
    }

    fn get(&self, resource: &ResourceName, namespace: &str, name: &str) -> Option<&Value> {
        self.store().get(resource, namespace, name).map(AsRef::as_ref)
    }

    fn delete(&mut self, resource: &ResourceName, name: &str) {
        let (write, options) = (Write::by("somebody"), DeleteOptions::now());
        let store = self.kubernetes.api_mut().store_mut();
        store.delete(&write, resource, "kube-system", name, &options).unwrap();
        self.kubernetes.advance(&mut self.world, self.now);
    }

    /// The pods on the worker.
    fn pods(&self, namespace: &str) -> Vec<Arc<Value>> {
        let here = |pod: &&Arc<Value>| object::text(pod, &["spec", "nodeName"]) == "worker-1";
        self.store().list(&PODS, Some(namespace)).filter(here).cloned().collect()
    }

    /// The number of the deployment's pods.
    fn web(&self) -> usize {
        let pods = self.pods("default").into_iter();
        pods.filter(|pod| object::label(pod, "app") == Some("web")).count()
    }

    fn version(&self, node: usize) -> String {
        self.world.talos_version(NodeIndex(node)).map(ToString::to_string).unwrap_or_default()
    }

    fn is_drained(&self) -> bool {
        self.world.draining().next().is_none()
    }

    fn is_cordoned(&self) -> bool {
        let node = self.get(&NODES, "", "worker-1").unwrap();
        object::flag(node, &["spec", "unschedulable"])
    }
}

#[test]
fn a_drain_waits_for_the_budget_and_leaves_pods_without_a_controller() {
    let mut both = Both::new("1.12.11", WORKLOADS);
    assert_eq!(both.web(), 2);
    both.upgrade(WORKER, "v1.13.9");
    both.until("the drain", 120, |both| !both.is_drained());
    // The budget refuses until the drain's deadline.
    both.secs(100);
    assert!(!both.is_drained() && both.is_cordoned());
    assert_eq!(both.web(), 2);
    let store = both.kubernetes.api_mut().store_mut();
    let allow = |budget: &mut Value| object::set(budget, &["spec", "minAvailable"], json!(0));
    store.modify(&Write::by("me"), &POD_DISRUPTION_BUDGETS, "default", "web", allow).unwrap();
    both.until("an empty node", 100, Both::is_drained);
    assert_eq!(both.web(), 0);
    assert!(both.get(&PODS, "default", "alone").is_some());
    assert!(both.pods("kube-system").len() >= 2, "the pods of daemon sets stay");
    both.until("the new version", 300, |both| both.version(WORKER) == "1.13.9");
    both.until("no cordon", 300, |both| !both.is_cordoned());
}

#[test]
fn a_drain_ends_after_five_minutes_whatever_the_budget_says() {
    let mut both = Both::new("1.12.11", WORKLOADS);
    both.upgrade(WORKER, "v1.13.9");
    both.until("the drain", 120, |both| !both.is_drained());
    both.secs(295);
    assert!(!both.is_drained());
    both.until("the deadline of the drain", 10, Both::is_drained);
    assert_eq!(both.web(), 2);
    both.until("the new version", 300, |both| both.version(WORKER) == "1.13.9");
}

#[test]
fn an_upgrade_fails_if_its_cordon_is_not_accepted() {
    let mut both = Both::new("1.12.11", WORKLOADS);
    for node in [0, 1] {
        both.world.inject(both.now, Some(NodeIndex(node)), &Fault::Partition);
    }
    both.kubernetes.follow(&mut both.world, both.now);
    assert!(!both.world.kubernetes_api_is_up());
    let boot = both.world.kubernetes(NodeIndex(WORKER)).unwrap().boot_id;
    both.upgrade(WORKER, "v1.13.9");
    both.until("a reboot", 600, |both| {
        both.world.kubernetes(NodeIndex(WORKER)).unwrap().boot_id != boot
    });
    assert_eq!(both.version(WORKER), "1.12.11");
}

#[test]
fn deleted_objects_come_back_only_without_an_inventory() {
    const INVENTORY: &str = "talos-bootstrap-manifests-inventory";
    let mut both = Both::new("1.12.11", "");
    let there = |both: &Both| both.get(&SERVICE_ACCOUNTS, "kube-system", "flannel").is_some();
    let known = |both: &Both| both.get(&CONFIG_MAPS, "kube-system", INVENTORY).is_some();
    assert!(there(&both) && !known(&both));
    for (resource, name) in
        [(&DAEMON_SETS, "kube-proxy"), (&DAEMON_SETS, "kube-flannel"), (&DEPLOYMENTS, "coredns")]
    {
        assert!(both.get(resource, "kube-system", name).is_some(), "{name}");
    }
    both.delete(&SERVICE_ACCOUNTS, "flannel");
    both.secs(10);
    assert!(!there(&both));
    both.call(0, Request::Reboot(machine::RebootRequest::default()));
    both.until("another pass", 300, there);

    // The first node of 1.13 begins to keep one, with what it finds.
    both.secs(300);
    both.upgrade(0, "v1.13.9");
    both.until("an inventory", 900, known);
    let inventory = both.get(&CONFIG_MAPS, "kube-system", INVENTORY).unwrap();
    assert_eq!(inventory["data"]["kube-system_flannel__ServiceAccount"], "");
    let account = both.get(&SERVICE_ACCOUNTS, "kube-system", "flannel").unwrap();
    assert!(object::at(account, &["metadata", "annotations"]).is_none(), "{account}");

    let mut both = Both::new("1.13.9", "");
    assert!(there(&both) && known(&both));
    let account = both.get(&SERVICE_ACCOUNTS, "kube-system", "flannel").unwrap();
    assert_eq!(object::annotation(account, "config.k8s.io/owning-inventory"), Some(INVENTORY));
    both.delete(&SERVICE_ACCOUNTS, "flannel");
    both.call(0, Request::Reboot(machine::RebootRequest::default()));
    both.secs(300);
    assert!(!there(&both));
}

#[test]
fn a_worker_that_joins_is_registered_and_one_that_leaves_is_no_longer_reported() {
    let mut both = Both::new("1.13.9", "");
    let spec = both.world.spec().nodes[WORKER].clone();
    let address = std::net::Ipv4Addr::new(10, 5, 1, 1).into();
    let new = NodeSpec { hostname: "worker-2".to_owned(), addresses: vec![address], ..spec };
    assert!(both.world.join(both.now, new.clone()).is_some());
    assert!(both.world.leave(both.now, NodeIndex(WORKER)));
    let write = Write::by("somebody");
    let store = both.kubernetes.api_mut().store_mut();
    store.delete(&write, &NODES, "", "worker-1", &DeleteOptions::now()).unwrap();
    both.kubernetes.follow(&mut both.world, both.now);
    let ready = |both: &Both, name: &str| {
        let conditions =
            both.get(&NODES, "", name).map(|node| object::list(node, &["status", "conditions"]));
        conditions.into_iter().flatten().any(|condition| {
            object::text(condition, &["type"]) == "Ready"
                && object::text(condition, &["status"]) == "True"
        })
    };
    both.until("a node", 200, |both| ready(both, "worker-2"));
    // The daemon sets' pods run on the new node, and those of the other node are gone.
    both.secs(120);
    let on = |name: &str| {
        let here = |pod: &&Arc<Value>| object::text(pod, &["spec", "nodeName"]) == name;
        both.store().list(&PODS, None).filter(here).count()
    };
    assert_eq!((on("worker-1"), on("worker-2") >= 2), (0, true));
    assert!(both.get(&NODES, "", "worker-1").is_none());
    assert!(both.world.truth(NodeIndex(WORKER + 1)).unwrap().is_ready());
    let range = |name: &str| both.get(&NODES, "", name).unwrap()["spec"]["podCIDR"].clone();
    for other in ["cp-1", "cp-2", "cp-3"] {
        assert_ne!(range("worker-2"), range(other));
    }
}

#[test]
fn a_foreign_kubelet_serves_until_it_leaves() {
    let mut both = Both::new("1.13.9", "");
    let version = Version::new(1, 33, 2);
    both.kubernetes.join_foreign(both.now, "edge-1", "10.9.0.1", &version);
    // Longer than a node may be silent; its facts are sent again.
    both.secs(300);
    let node = both.get(&NODES, "", "edge-1").unwrap();
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.33.2");
    let conditions = object::list(node, &["status", "conditions"]);
    assert!(conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True"));
    assert!(both.world.find("edge-1").is_none() && both.world.find("10.9.0.1").is_none());
    both.kubernetes.leave_foreign(both.now, "edge-1");
    both.secs(60);
    assert!(both.get(&NODES, "", "edge-1").is_none());
}

#[test]
fn a_brief_cluster_behaves_like_another() {
    let seen = |kubernetes: fn(&World, u64, &[Value]) -> Result<Kubernetes, WorkloadError>| {
        let mut both = Both::new("1.12.11", "");
        let workloads = read_workloads(WORKLOADS).unwrap();
        both.kubernetes = kubernetes(&both.world, 0, &workloads).unwrap();
        both.upgrade(WORKER, "v1.13.9");
        let mut seen = Vec::new();
        for _ in 0..90 {
            both.secs(10);
            let node = both.get(&NODES, "", "worker-1").unwrap();
            let conditions = object::list(node, &["status", "conditions"]);
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
            let shown = |pod: &Arc<Value>| {
                let conditions = object::list(pod, &["status", "conditions"]);
                let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
                (object::name(pod).to_owned(), ready.map(|ready| ready["status"].clone()))
            };
            let pods: Vec<_> = both.store().list(&PODS, None).map(shown).collect();
            seen.push((ready["status"].clone(), both.is_cordoned(), both.version(WORKER), pods));
        }
        assert!(seen.iter().any(|seen| seen.0 == "Unknown" || seen.0 == "False"));
        seen
    };
    assert_eq!(seen(Kubernetes::brief), seen(Kubernetes::new));
}

/// The static pods of the first control plane that the Kubernetes API shows as not ready.
fn unready(both: &Both) -> Vec<&'static str> {
    let components = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let ready = |component: &str| {
        let mirror = both.get(&PODS, "kube-system", &format!("{component}-cp-1"));
        let conditions = object::list(mirror.expect("a mirror pod"), &["status", "conditions"]);
        conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    components.into_iter().filter(|component| !ready(component)).collect()
}

#[test]
fn a_kubelet_that_restarts_shows_static_pods_as_ready_once_it_has_probed_them() {
    // Rule 1. Their processes keep running. Up to 1.13 the pod of an API server has no probes.
    let (api_server, others) =
        ("kube-apiserver", ["kube-controller-manager", "kube-scheduler"].as_slice());
    for (talos, expected) in
        [("1.13.9", others.to_vec()), ("1.14.1", [&[api_server], others].concat())]
    {
        let mut both = Both::new(talos, "");
        assert_eq!(unready(&both), [""; 0], "{talos}");
        let request = machine::ServiceRestartRequest { id: "kubelet".to_owned() };
        both.call(0, Request::ServiceRestart(request));
        both.until("it is back", 10, |both| !unready(both).is_empty());
        assert_eq!(unready(&both), expected, "{talos}");
        assert!(both.world.api_server_runs(NodeIndex(0)), "{talos}: they still run");
        both.until("they are probed", 20, |both| unready(both).is_empty());
    }
}
