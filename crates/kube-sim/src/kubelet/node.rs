//! A node's registration, its status and its lease.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Api, Due, Kubelets, NodeFacts, RETRY, events};
use crate::controllers::conditions;
use crate::names::{LEASES, NODES};
use crate::object;
use crate::store::lazy_leases::{NODE_LEASES, RENEWAL};
use crate::time::Time;

/// The interval of status reports without a change.
const HEARTBEAT: Duration = Duration::from_mins(5);

pub(super) const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const NO_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// One kubelet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kubelet {
    pub(super) facts: NodeFacts,
    /// Its index in order of registration, for the addresses of its pods.
    pub(super) number: u32,
    /// The UID of its node; empty as long as it is not registered.
    pub(super) uid: String,
    /// The boot during which its pods were started.
    pub(super) boot: String,
    /// The number of addresses given to pods.
    pub(super) given: u32,
    renewal: Option<Time>,
    heartbeat: Option<Time>,
    /// The kubelet has started, perhaps with its machine, and no event reports it yet.
    #[serde(default)]
    news: Option<bool>,
}

impl Kubelets {
    /// Takes the facts of a machine. Returns whether its kubelet has stopped.
    pub(super) fn learn(&mut self, now: Time, facts: &NodeFacts) -> bool {
        let Some(kubelet) = self.nodes.get_mut(&facts.name) else {
            // Earlier nodes may be gone, and their numbers with them.
            let last = self.nodes.values().map(|kubelet| kubelet.number).max();
            let number = last.map_or(0, |last| last.saturating_add(1));
            let kubelet = Kubelet {
                facts: facts.clone(),
                number,
                uid: String::new(),
                boot: facts.boot_id.clone(),
                given: 0,
                renewal: None,
                heartbeat: None,
                news: None,
            };
            self.nodes.insert(facts.name.clone(), kubelet);
            if facts.kubelet_up {
                self.starts(now, &facts.name);
            }
            return false;
        };
        if kubelet.facts == *facts {
            return false;
        }
        let before = std::mem::replace(&mut kubelet.facts, facts.clone());
        if facts.kubelet_up {
            self.changed.insert(facts.name.clone());
            if !before.kubelet_up || kubelet.boot != facts.boot_id {
                self.starts(now, &facts.name);
            } else if facts.ready && !before.ready {
                // The node controller marked its pods unready meanwhile.
                self.kubelet_starts(&facts.name, false);
            }
        } else {
            kubelet.renewal = None;
            kubelet.heartbeat = None;
        }
        before.kubelet_up && !facts.kubelet_up
    }

    /// A kubelet starts: it reports, renews its lease, and reconciles its pods.
    fn starts(&mut self, now: Time, name: &str) {
        self.changed.insert(name.to_owned());
        let renewal = self.plan(now, Due::Lease(name.to_owned()));
        let heartbeat = self.plan(now.plus(HEARTBEAT), Due::Heartbeat(name.to_owned()));
        let Some(kubelet) = self.nodes.get_mut(name) else { return };
        kubelet.renewal = Some(renewal);
        kubelet.heartbeat = Some(heartbeat);
        let rebooted = std::mem::replace(&mut kubelet.boot, kubelet.facts.boot_id.clone())
            != kubelet.facts.boot_id;
        kubelet.news = Some(rebooted);
        self.kubelet_starts(name, rebooted);
    }

    /// Another writer changed the node: a running kubelet corrects the status.
    pub(super) fn observe_node(&mut self, node: &Value) {
        let name = object::name(node);
        let Some(kubelet) = self.nodes.get(name).filter(|kubelet| kubelet.facts.kubelet_up) else {
            return;
        };
        if conditions::is_true(node, "Ready") != kubelet.facts.ready {
            self.changed.insert(name.to_owned());
        }
    }

    /// A lease is gone: a kubelet that does not keep count of its renewals itself creates it again
    /// at the next renewal.
    pub(super) fn observe_lost_lease(&mut self, now: Time, name: &str) {
        let stays = |kubelet: &Kubelet| kubelet.facts.kubelet_up && kubelet.renewal.is_none();
        if self.nodes.get(name).is_some_and(stays) {
            let at = self.plan(now.plus(RENEWAL), Due::Lease(name.to_owned()));
            if let Some(kubelet) = self.nodes.get_mut(name) {
                kubelet.renewal = Some(at);
            }
        }
    }

    /// Registers the node or updates its object, then its static pods.
    pub(super) fn report(&mut self, now: Time, api: &mut dyn Api, name: &str) {
        let Some(kubelet) = self.nodes.get(name).filter(|kubelet| kubelet.facts.kubelet_up) else {
            return;
        };
        match put_node(now, api, kubelet) {
            Ok(uid) => {
                if let Some(kubelet) = self.nodes.get_mut(name) {
                    kubelet.uid = uid;
                    if let Some(rebooted) = kubelet.news.take() {
                        events::started(now, api, kubelet, rebooted);
                    }
                }
                self.mirror(now, api, name);
            }
            Err(_) => self.again(now, name),
        }
    }

    /// Retries the report a little later.
    pub(super) fn again(&mut self, now: Time, name: &str) {
        let at = self.plan(now.plus(RETRY), Due::Heartbeat(name.to_owned()));
        if let Some(kubelet) = self.nodes.get_mut(name) {
            kubelet.heartbeat = Some(at);
        }
    }

    pub(super) fn heartbeat(&mut self, now: Time, name: &str, at: Time) {
        if self.nodes.get(name).is_none_or(|kubelet| kubelet.heartbeat != Some(at)) {
            return;
        }
        self.changed.insert(name.to_owned());
        let next = self.plan(now.plus(HEARTBEAT), Due::Heartbeat(name.to_owned()));
        if let Some(kubelet) = self.nodes.get_mut(name) {
            kubelet.heartbeat = Some(next);
        }
    }

    pub(super) fn renew(&mut self, now: Time, api: &mut dyn Api, name: &str, at: Time) {
        let Some(kubelet) = self.nodes.get(name).filter(|kubelet| kubelet.renewal == Some(at))
        else {
            return;
        };
        let written = put_lease(now, api, kubelet);
        if written && api.take_over_lease(name, now) {
            if let Some(kubelet) = self.nodes.get_mut(name) {
                // Without renewals as signs of life, no reports are needed either.
                (kubelet.renewal, kubelet.heartbeat) = (None, None);
            }
            return;
        }
        let wait = if written { RENEWAL } else { RETRY };
        let next = self.plan(now.plus(wait), Due::Lease(name.to_owned()));
        if let Some(kubelet) = self.nodes.get_mut(name) {
            kubelet.renewal = Some(next);
        }
    }
}

fn put_lease(now: Time, api: &mut dyn Api, kubelet: &Kubelet) -> bool {
    if kubelet.uid.is_empty() {
        return false;
    }
    let name = &kubelet.facts.name;
    let time = now.to_micro_text();
    let patch = json!({"spec": {"holderIdentity": name, "renewTime": time}});
    match api.patch(&LEASES, NODE_LEASES, name, "", &patch) {
        Ok(_) => true,
        Err(status) if status.code == 404 => {
            let lease = json!({
                "metadata": {"name": name, "namespace": NODE_LEASES, "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": name, "uid": kubelet.uid,
                }]},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": time},
            });
            api.create(&LEASES, lease).is_ok()
        }
        Err(_) => false,
    }
}

/// Returns the UID of the registered node.
fn put_node(
    now: Time,
    api: &mut dyn Api,
    kubelet: &Kubelet,
) -> Result<String, crate::status::Status> {
    let facts = &kubelet.facts;
    let Some(node) = api.get(&NODES, "", &facts.name)? else {
        let mut node = json!({
            "metadata": {
                "name": facts.name,
                "labels": labels(facts),
                "annotations": annotations(facts),
            },
            "spec": {
                "podCIDR": pod_cidr(kubelet.number),
                "podCIDRs": [pod_cidr(kubelet.number)],
            },
            "status": status(now, facts, &Value::Null),
        });
        if facts.control_plane && !facts.runs_workloads {
            let taint = json!([{"key": CONTROL_PLANE, "effect": "NoSchedule"}]);
            object::set(&mut node, &["spec", "taints"], taint);
        }
        return Ok(object::uid(&*api.create(&NODES, node)?).to_owned());
    };
    let mut patch = Map::new();
    for (field, wanted) in [("labels", labels(facts)), ("annotations", annotations(facts))] {
        let different: Map<String, Value> = wanted
            .into_iter()
            .filter(|(key, value)| object::at(&node, &["metadata", field, key]) != Some(value))
            .collect();
        if !different.is_empty() {
            patch.insert(field.to_owned(), Value::Object(different));
        }
    }
    if !patch.is_empty() {
        api.patch(&NODES, "", &facts.name, "", &json!({"metadata": patch}))?;
    }
    let status = status(now, facts, &node);
    api.patch(&NODES, "", &facts.name, "status", &json!({"status": status}))?;
    if conditions::is_true(&node, "Ready") != facts.ready {
        events::readiness_changed(now, api, &facts.name, facts.ready);
    }
    Ok(object::uid(&node).to_owned())
}

fn pod_cidr(number: u32) -> String {
    format!("10.{}.{}.0/24", 244 + (number >> 8), number & 255)
}

fn labels(facts: &NodeFacts) -> Map<String, Value> {
    let mut labels = Map::new();
    for prefix in ["kubernetes.io", "beta.kubernetes.io"] {
        labels.insert(format!("{prefix}/arch"), json!(facts.architecture));
        labels.insert(format!("{prefix}/os"), json!("linux"));
    }
    labels.insert("kubernetes.io/hostname".to_owned(), json!(facts.name));
    if facts.control_plane {
        labels.insert(CONTROL_PLANE.to_owned(), json!(""));
        labels.insert(NO_BALANCER.to_owned(), json!(""));
    }
    labels.extend(facts.labels.iter().map(|(key, value)| (key.clone(), json!(value))));
    labels
}

/// Talos records which labels, annotations and taints it manages.
fn annotations(facts: &NodeFacts) -> Map<String, Value> {
    let mut annotations = Map::new();
    let mut labels: Vec<&str> = facts.labels.keys().map(String::as_str).collect();
    if facts.control_plane {
        labels.extend([CONTROL_PLANE, NO_BALANCER]);
        if !facts.runs_workloads {
            let taints = json!([CONTROL_PLANE]).to_string();
            annotations.insert("talos.dev/owned-taints".to_owned(), json!(taints));
        }
    }
    if !labels.is_empty() {
        labels.sort_unstable();
        let labels = json!(labels).to_string();
        annotations.insert("talos.dev/owned-labels".to_owned(), json!(labels));
    }
    if !facts.annotations.is_empty() {
        let keys: Vec<&String> = facts.annotations.keys().collect();
        annotations
            .insert("talos.dev/owned-annotations".to_owned(), json!(json!(keys).to_string()));
    }
    annotations.extend(facts.annotations.iter().map(|(key, value)| (key.clone(), json!(value))));
    // The controller attaches the node's volumes, not the kubelet.
    let attached = "volumes.kubernetes.io/controller-managed-attach-detach".to_owned();
    annotations.insert(attached, json!("true"));
    annotations
}

fn status(now: Time, facts: &NodeFacts, old: &Value) -> Value {
    let mut addresses: Vec<Value> = facts
        .addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": facts.name}));
    let resources = |cpu: u64, memory: u64| {
        json!({
            "cpu": if cpu.is_multiple_of(1000) { (cpu / 1000).to_string() } else { format!("{cpu}m") },
            "memory": format!("{}Ki", memory >> 10),
            "ephemeral-storage": "100Gi",
            "pods": facts.pods.to_string(),
        })
    };
    let images: Vec<Value> = facts
        .images
        .values()
        .map(|image| json!({"names": [image], "sizeBytes": 80 << 20}))
        .collect();
    json!({
        "addresses": addresses,
        "capacity": resources(facts.cpu_millis, facts.memory),
        // Talos reserves some resources.
        "allocatable": resources(
            facts.cpu_millis.saturating_sub(50),
            facts.memory.saturating_sub(512 << 20),
        ),
        "conditions": node_conditions(now, facts, old),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": facts.architecture,
            "bootID": facts.boot_id,
            "containerRuntimeVersion": facts.runtime,
            "kernelVersion": facts.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": facts.kubelet_version,
            "machineID": facts.name,
            "operatingSystem": "linux",
            "osImage": facts.os_image,
            "systemUUID": facts.name,
        },
        "images": images,
    })
}

fn node_conditions(now: Time, facts: &NodeFacts, old: &Value) -> Vec<Value> {
    let mut list = object::list(old, &["status", "conditions"]).to_vec();
    for (kind, reason, message) in [
        ("MemoryPressure", "KubeletHasSufficientMemory", "sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "sufficient PID available"),
    ] {
        let message = format!("kubelet has {message}");
        conditions::put(&mut list, kind, "False", reason, &message, now);
    }
    if facts.ready {
        let message = "kubelet is posting ready status";
        conditions::put(&mut list, "Ready", "True", "KubeletReady", message, now);
    } else {
        let message = "container runtime network not ready: NetworkReady=false";
        conditions::put(&mut list, "Ready", "False", "KubeletNotReady", message, now);
    }
    for condition in &mut list {
        object::set(condition, &["lastHeartbeatTime"], now.to_text());
    }
    list
}
