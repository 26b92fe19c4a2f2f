//! The Kubernetes API of the cluster in memory.

use std::collections::BTreeMap;

use serde_json::Value;
use upgrade_core::selector::LabelSelector;
use upgrade_core::snapshot::{KubernetesFacts, NodeName, Role};
use upgrade_core::workload::{Budget, Capacity, Pod, PodName, Resources};
use upgrade_engine::io::kubernetes::{Apply, Evicted, ObjectName};
use upgrade_engine::io::kubernetes_error::{Cause, Details, RequestError, Status};
use upgrade_engine::io::{Changes, IoError, Kubernetes, Machine};

use super::{Cluster, Fault, World};

pub(super) fn pod(name: &str, node: &NodeName) -> Pod {
    Pod {
        name: PodName { namespace: "default".to_owned(), name: name.to_owned() },
        uid: name.to_owned(),
        node: Some(node.clone()),
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
        requests: Resources { cpu_millis: 10, memory_bytes: 10, pods: 1 },
        containers: vec![],
        config_hash: None,
    }
}

impl Cluster {
    /// Kubernetes answers while one control plane does.
    pub(super) fn kubernetes_answers(&self) -> bool {
        let mut serving = self.nodes.values().filter(|sim| sim.role == Role::ControlPlane);
        !self.dark && serving.any(|sim| sim.answers && sim.api)
    }
}

impl World {
    fn kubernetes_answers(&self) -> Result<(), IoError> {
        if self.cluster().kubernetes_answers() {
            Ok(())
        } else {
            Err(RequestError::not_sent("no API server answers").on_read("Kubernetes"))
        }
    }
}

impl Kubernetes for World {
    async fn nodes(&self) -> Result<BTreeMap<NodeName, KubernetesFacts>, IoError> {
        self.kubernetes_answers()?;
        let cluster = self.cluster();
        let facts = |sim: &super::Sim| KubernetesFacts {
            kubelet: cluster.kubernetes.clone(),
            ready: sim.node_ready,
            unschedulable: sim.unschedulable,
            marked: sim.marked,
            addresses: Vec::new(),
        };
        Ok(cluster.nodes.iter().map(|(name, sim)| (name.clone(), facts(sim))).collect())
    }

    async fn api_server(&self, of: &Machine) -> Result<(), IoError> {
        let cluster = self.cluster();
        match cluster.nodes.get(&of.name).filter(|sim| sim.answers && sim.api && !cluster.dark) {
            Some(_) => Ok(()),
            None => Err(RequestError::not_sent("connection refused").on_read("its own API server")),
        }
    }

    async fn capacity(&self) -> Result<BTreeMap<NodeName, Capacity>, IoError> {
        self.kubernetes_answers()?;
        let much = Resources { cpu_millis: 9_000, memory_bytes: 1 << 30, pods: 110 };
        let cluster = self.cluster();
        let capacity = |sim: &super::Sim| Capacity {
            allocatable: much,
            labels: sim
                .pool
                .iter()
                .map(|pool| ("vitistack.io/nodepool".to_owned(), pool.clone()))
                .collect(),
            taints: vec![],
        };
        Ok(cluster.nodes.iter().map(|(name, sim)| (name.clone(), capacity(sim))).collect())
    }

    async fn set_unschedulable(&self, node: &NodeName, to: bool) -> Result<(), IoError> {
        self.kubernetes_answers()?;
        self.change(|cluster| {
            let act = if to { "cordon" } else { "uncordon" };
            cluster.acts.push(format!("{act} {node}"));
            let sim = cluster.sim(node);
            (sim.unschedulable, sim.marked) = (to, to);
            if sim.fault.take_if(|fault| *fault == Fault::LeadsAgain).is_some() {
                cluster.leader = node.clone();
            }
        });
        match self.cluster().nodes[node].fault {
            Some(Fault::LosesAnswer) => Err(RequestError::no_answer("the connection broke")
                .on_change(&format!("cordoning {node}"))),
            _ => Ok(()),
        }
    }

    async fn pods(&self, on: Option<&NodeName>) -> Result<Vec<Pod>, IoError> {
        self.kubernetes_answers()?;
        let cluster = self.cluster();
        let here = |pod: &&Pod| on.is_none() || pod.node.as_ref() == on;
        Ok(cluster.pods.iter().filter(here).cloned().collect())
    }

    async fn budgets(&self) -> Result<Vec<Budget>, IoError> {
        self.kubernetes_answers()?;
        let blocks = self.cluster().budget_blocks;
        let budget = Budget {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            selector: LabelSelector(serde_json::json!({"matchLabels": {"app": "web"}})),
            disruptions_allowed: i64::from(!blocks),
            desired_healthy: 1,
            current_healthy: 1,
            expected_pods: 1,
        };
        Ok(vec![budget])
    }

    async fn evict(&self, pod: &PodName, uid: &str) -> Result<Evicted, IoError> {
        self.kubernetes_answers()?;
        if self.cluster().budget_blocks {
            let message = "The disruption budget web needs 1 healthy pods and has 1 currently";
            let cause =
                Cause { reason: "DisruptionBudget".to_owned(), message: message.to_owned() };
            let details = Some(Details { causes: vec![cause] });
            let status = Status { details, ..Status::new(429, "Cannot evict pod") };
            return RequestError::from(status).evicted(pod);
        }
        Ok(self.change(|cluster| {
            let Some(at) = cluster.pods.iter().position(|it| it.name == *pod && it.uid == uid)
            else {
                return Evicted::Gone;
            };
            // Its controller makes another one, which finds a place or waits.
            let gone = cluster.pods.remove(at);
            let fits = |sim: &super::Sim| sim.role == Role::Worker && !sim.unschedulable;
            let mut places = cluster.nodes.iter().filter(|(_, sim)| fits(sim) && sim.node_ready);
            let node = places.next().map(|(name, _)| name.clone());
            let name = PodName { name: format!("{}x", gone.name.name), ..gone.name.clone() };
            let uid = format!("{}x", gone.uid);
            cluster.pods.push(Pod { name, uid, node, ..gone });
            Evicted::Accepted
        }))
    }

    async fn attachments(&self, _: &NodeName) -> Result<Vec<String>, IoError> {
        Ok(vec![])
    }

    fn changes(&self) -> Changes {
        self.changed.subscribe()
    }

    async fn deprecated(&self) -> Result<Vec<(String, String)>, IoError> {
        Ok(vec![])
    }

    async fn count(&self, _: &str, _: &str) -> Result<usize, IoError> {
        Ok(0)
    }

    async fn preferred(&self, _: &str) -> Result<Option<String>, IoError> {
        Ok(None)
    }

    async fn object(&self, _: &ObjectName) -> Result<Option<Value>, IoError> {
        Ok(None)
    }

    async fn apply(&self, _: &Value, _: &str, _: Apply) -> Result<Value, IoError> {
        Err(RequestError::not_sent("not in this world").on_change("applying"))
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), IoError> {
        self.kubernetes_answers()?;
        let pod = PodName { namespace: name.namespace.clone(), name: name.name.clone() };
        self.change(|cluster| {
            cluster.acts.push(format!("delete {name}"));
            cluster.pods.retain(|it| it.name != pod);
        });
        Ok(())
    }
}
