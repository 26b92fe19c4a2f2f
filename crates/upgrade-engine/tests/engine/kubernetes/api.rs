//! The Kubernetes API of the world, with as much of server-side apply as
//! matters here: who owns a key of a ConfigMap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;
use upgrade_core::snapshot::{Component, KubernetesFacts, NodeName, Role};
use upgrade_core::workload::{Budget, Capacity, Container, Pod, PodName, Resources};
use upgrade_engine::io::kubernetes::{Apply, Evicted, ObjectName};
use upgrade_engine::io::kubernetes_error::RequestError;
use upgrade_engine::io::{Changes, IoError, Kubernetes, Machine};

use super::world::{Cluster, STATIC, World};

fn key(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, namespace) = (text("/kind"), text("/metadata/namespace"));
    format!("{kind} {namespace}/{}", text("/metadata/name"))
}

pub(crate) fn key_of(name: &ObjectName) -> String {
    let ObjectName { kind, namespace, name, .. } = name;
    format!("{kind} {namespace}/{name}")
}

impl World {
    fn answers(&self) -> Result<(), IoError> {
        let cluster = self.cluster();
        let mut servers = cluster.nodes.values().filter(|sim| sim.role == Role::ControlPlane);
        match servers.any(|sim| sim.api) {
            true => Ok(()),
            false => Err(RequestError::not_sent("no API server answers").on_read("Kubernetes")),
        }
    }

    /// Its controller sees a workload after a while, and its pods follow.
    fn roll(&self, key: String) {
        let world = self.me.upgrade().unwrap();
        tokio::spawn(async move {
            sleep(Duration::from_secs(2)).await;
            world.change(|cluster| {
                let desired = cluster.nodes.len();
                let Some(object) = cluster.objects.get_mut(&key) else { return };
                let generation = object["metadata"]["generation"].clone();
                object["status"] = json!({"observedGeneration": generation,
                    "desiredNumberScheduled": desired, "replicas": 2});
            });
            sleep(Duration::from_secs(5)).await;
            world.change(|cluster| {
                let desired = cluster.nodes.len();
                let Some(object) = cluster.objects.get_mut(&key) else { return };
                let generation = object["metadata"]["generation"].clone();
                object["status"] = json!({"observedGeneration": generation,
                    "desiredNumberScheduled": desired, "updatedNumberScheduled": desired,
                    "numberAvailable": desired, "replicas": 2, "updatedReplicas": 2,
                    "availableReplicas": 2});
            });
        });
    }
}

fn pods_of(cluster: &Cluster, node: &NodeName) -> Vec<Pod> {
    let sim = &cluster.nodes[node];
    let stuck = cluster.stuck(node);
    let components = STATIC.iter().filter(|_| sim.role == Role::ControlPlane);
    let pod = |component: &Component| {
        let ready = sim.ready[component];
        let waiting = (stuck == Some(*component) && !ready).then(|| "ImagePullBackOff".to_owned());
        let image = sim.runs[component].to_string();
        Pod {
            name: PodName {
                namespace: "kube-system".to_owned(),
                name: format!("{component}-{node}"),
            },
            uid: format!("{component}-{}", sim.pods),
            node: Some(node.clone()),
            phase: "Running".to_owned(),
            ready,
            deleting_since: None,
            controller: Some(("Node".to_owned(), node.0.clone())),
            mirror: true,
            empty_dir: false,
            claims: vec![],
            labels: BTreeMap::from([("k8s-app".to_owned(), component.to_string())]),
            node_selector: BTreeMap::new(),
            tolerates: vec!["*".to_owned()],
            requests: Resources::default(),
            config_hash: Some(image.clone()),
            containers: vec![Container { name: component.to_string(), image, ready, waiting }],
        }
    };
    components.map(pod).collect()
}

impl Kubernetes for World {
    async fn nodes(&self) -> Result<BTreeMap<NodeName, KubernetesFacts>, IoError> {
        self.answers()?;
        let cluster = self.cluster();
        let facts = cluster.nodes.iter().map(|(name, sim)| {
            let (kubelet, ready) = (sim.kubelet.clone(), sim.node_ready);
            let (unschedulable, marked, addresses) = (false, false, Vec::new());
            (name.clone(), KubernetesFacts { kubelet, ready, unschedulable, marked, addresses })
        });
        Ok(facts.collect())
    }

    async fn api_server(&self, of: &Machine) -> Result<(), IoError> {
        match self.cluster().nodes[&of.name].api {
            true => Ok(()),
            false => {
                Err(RequestError::not_sent("connection refused").on_read("its own API server"))
            }
        }
    }

    async fn capacity(&self) -> Result<BTreeMap<NodeName, Capacity>, IoError> {
        self.answers()?;
        Ok(BTreeMap::new())
    }

    async fn set_unschedulable(&self, node: &NodeName, _: bool) -> Result<(), IoError> {
        panic!("a Kubernetes upgrade cordons no node, but here it cordons {node}");
    }

    async fn pods(&self, on: Option<&NodeName>) -> Result<Vec<Pod>, IoError> {
        self.answers()?;
        let cluster = self.cluster();
        let nodes = cluster.nodes.keys().filter(|name| on.is_none_or(|on| on == *name));
        Ok(nodes.flat_map(|name| pods_of(&cluster, name)).collect())
    }

    async fn budgets(&self) -> Result<Vec<Budget>, IoError> {
        Ok(vec![])
    }

    async fn evict(&self, pod: &PodName, _: &str) -> Result<Evicted, IoError> {
        panic!("a Kubernetes upgrade evicts no pod, but here it evicts {pod}");
    }

    async fn attachments(&self, _: &NodeName) -> Result<Vec<String>, IoError> {
        Ok(vec![])
    }

    fn changes(&self) -> Changes {
        self.changed.subscribe()
    }

    async fn deprecated(&self) -> Result<Vec<(String, String)>, IoError> {
        self.answers()?;
        Ok(self.cluster().deprecated.clone())
    }

    async fn count(&self, api_version: &str, resource: &str) -> Result<usize, IoError> {
        self.answers()?;
        let name = format!("{api_version} {resource}");
        Ok(self.cluster().counts.get(&name).copied().unwrap_or_default())
    }

    async fn preferred(&self, group: &str) -> Result<Option<String>, IoError> {
        self.answers()?;
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        Ok(Some(version))
    }

    async fn object(&self, name: &ObjectName) -> Result<Option<Value>, IoError> {
        self.answers()?;
        Ok(self.cluster().objects.get(&key_of(name)).cloned())
    }

    async fn apply(&self, object: &Value, manager: &str, how: Apply) -> Result<Value, IoError> {
        self.answers()?;
        assert_eq!((manager, how.dry_run), ("talos", false));
        let key = key(object);
        let (applied, rolls) = self.change(|cluster| {
            let old = cluster.objects.get(&key).cloned().unwrap_or(json!({}));
            let mut new = object.clone();
            new["data"] = owned(&mut cluster.owners, &key, &old["data"], &object["data"], manager);
            let changed = old["spec"] != new["spec"];
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + i64::from(changed));
            new["status"] = old["status"].clone();
            cluster.objects.insert(key.clone(), new.clone());
            (new, changed && object["spec"].is_object())
        });
        if rolls {
            self.roll(key);
        }
        Ok(applied)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), IoError> {
        self.answers()?;
        self.change(|cluster| {
            cluster.acts.push(format!("delete {name}"));
            cluster.objects.remove(&key_of(name));
        });
        Ok(())
    }
}

/// The data of an object after `manager` applied `new`.
fn owned(
    owners: &mut BTreeMap<(String, String), BTreeSet<String>>,
    object: &str,
    old: &Value,
    new: &Value,
    manager: &str,
) -> Value {
    let none = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let mut data = old.clone();
    for (key, value) in new {
        let owners = owners.entry((object.to_owned(), key.clone())).or_default();
        if old.get(key) != Some(value) {
            owners.clear();
        }
        owners.insert(manager.to_owned());
        data.insert(key.clone(), value.clone());
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        let owners = owners.entry((object.to_owned(), key.clone())).or_default();
        if owners.remove(manager) && owners.is_empty() {
            data.remove(key);
        }
    }
    Value::Object(data)
}
