//! The workloads of simulated clusters.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use kube_sim::random::Random;

/// A set of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kit {
    /// Only Talos's own.
    Bare,
    /// A deployment with two replicas, of which one may be unavailable.
    Web,
    /// A deployment with one replica whose budget allows no eviction.
    Guarded,
    /// Pods with an `emptyDir`, and one without a controller.
    Loose,
    /// A stateful set with volumes.
    Stateful,
}

impl Kit {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Bare, Self::Web, Self::Guarded, Self::Loose, Self::Stateful];

    pub(super) fn draw(random: &mut Random, workers: usize) -> Self {
        match workers {
            0 => Self::Bare,
            // Pods that cannot be rescheduled block every drain, so they are rare.
            1 => *random.pick(&[Self::Bare, Self::Bare, Self::Bare, Self::Loose, Self::Web]),
            _ => *random.pick(&[
                Self::Bare,
                Self::Bare,
                Self::Web,
                Self::Web,
                Self::Web,
                Self::Web,
                Self::Web,
                Self::Guarded,
                Self::Loose,
                Self::Stateful,
            ]),
        }
    }

    /// The objects of the set.
    pub fn objects(self) -> Vec<Value> {
        match self {
            Self::Bare => vec![],
            Self::Web => vec![deployment("web", 2, &json!([])), budget("web", 1)],
            Self::Guarded => vec![deployment("alone", 1, &json!([])), budget("alone", 1)],
            Self::Loose => {
                let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
                vec![deployment("scratch", 1, &scratch), bare()]
            }
            Self::Stateful => vec![stateful(), budget("store", 1)],
        }
    }
}

fn template(name: &str, volumes: &Value) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "app", "image": "registry.example/app:1"}],
            "volumes": volumes,
        },
    })
}

fn deployment(name: &str, replicas: u32, volumes: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, volumes),
        },
    })
}

fn stateful() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "store", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "serviceName": "store",
            "selector": {"matchLabels": {"app": "store"}},
            "template": template("store", &json!([])),
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }],
        },
    })
}

fn bare() -> Value {
    let mut pod = template("bare", &json!([]));
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"] = json!({"name": "bare", "namespace": "default", "labels": {"app": "bare"}});
    pod
}

fn budget(app: &str, min: u32) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": min, "selector": {"matchLabels": {"app": app}}},
    })
}
