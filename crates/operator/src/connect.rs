//! From a cluster's object to its live side: its Secret, its machines.
//!
//! The Secret is read by name when it is needed, and forgotten: no cache of
//! Secrets, and what was rotated is picked up with the next connection.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use sha2::{Digest as _, Sha256};
use upgrade_cluster::{Credentials, Live};
use upgrade_core::secret::scrub;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_core::text::chain;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io;
use vitistack_api::{KubernetesCluster, Machine, secret};

use crate::pace::{Pace, Paced};

/// One call.
const CALL: Duration = Duration::from_secs(10);

/// What is remembered of a machine: as little as finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    role: Option<Role>,
    address: Option<Ipv4Addr>,
}

type Key = (String, String);

/// The machines of all clusters, kept by a watch.
#[derive(Debug, Default)]
pub struct Machines(Mutex<HashMap<Key, BTreeMap<String, Listed>>>);

impl Machines {
    /// A machine is there, or changed.
    pub fn apply(&self, machine: &Machine) {
        let Some(key) = key(machine) else { return };
        let role = machine
            .is_control_plane()
            .map(|control_plane| if control_plane { Role::ControlPlane } else { Role::Worker });
        let listed = Listed { role, address: machine.address() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key).or_default().insert(machine.name_any(), listed);
    }

    /// A machine is gone.
    pub fn delete(&self, machine: &Machine) {
        let Some(key) = key(machine) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machines) = all.get_mut(&key) {
            machines.remove(&machine.name_any());
            if machines.is_empty() {
                all.remove(&key);
            }
        }
    }

    /// All of them are listed anew.
    pub fn replace(&self, machines: &[Machine]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for machine in machines {
            self.apply(machine);
        }
    }

    /// The machines of a cluster; one that cannot be found yet is an error, or
    /// it would be one that no rule protects (rule 10).
    fn of(&self, namespace: &str, cluster_id: &str) -> Result<Vec<io::Machine>, String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), cluster_id.to_owned());
        let machines = all.get(&key).into_iter().flatten();
        machines
            .map(|(name, listed)| {
                let Listed { role, address } = listed;
                let role = role.ok_or_else(|| {
                    format!("the Machine {name} has no label {}", vitistack_api::label::NODE_ROLE)
                })?;
                let address =
                    address.ok_or_else(|| format!("the Machine {name} has no IPv4 address yet"))?;
                Ok(io::Machine { name: NodeName(name.clone()), address: address.to_string(), role })
            })
            .collect()
    }
}

fn key(machine: &Machine) -> Option<Key> {
    Some((machine.namespace()?, machine.cluster_id()?.to_owned()))
}

/// What a cluster is reached with.
pub struct Keys {
    talosconfig: Vec<u8>,
    kubeconfig: Option<Vec<u8>>,
}

impl Keys {
    /// Tells whether they changed, and nothing else.
    pub fn digest(&self) -> [u8; 32] {
        let Self { talosconfig, kubeconfig } = self;
        let mut hasher = Sha256::new();
        hasher.update(talosconfig.len().to_be_bytes());
        hasher.update(talosconfig);
        hasher.update(kubeconfig.as_deref().unwrap_or_default());
        hasher.finalize().into()
    }
}

/// The way to clusters.
pub struct Connector {
    /// The API server of the platform.
    pub client: Client,
    /// What the names of Secrets begin with.
    pub secret_prefix: String,
    /// Where etcd snapshots go, a folder for each cluster.
    pub snapshots: PathBuf,
    /// The machines.
    pub machines: Machines,
    /// Who is looked at next.
    pub pace: Arc<Pace>,
}

impl Connector {
    /// Reads a cluster's Secret. Nothing of it is in the error (rule 14).
    pub async fn keys(&self, cluster: &KubernetesCluster) -> Result<Keys, String> {
        let namespace = cluster.namespace().unwrap_or_default();
        let id = cluster.cluster_id();
        if id.is_empty() {
            return Err("the cluster has no spec.data.clusterId".to_owned());
        }
        let name = secret::name(&self.secret_prefix, id);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let found = tokio::time::timeout(CALL, api.get_opt(&name)).await;
        let found = found.map_err(|_| format!("the Secret {name}: no answer"))?;
        let found = found.map_err(|error| match error {
            kube::Error::Api(answer) => format!("the Secret {name}: {}", scrub(&answer.message)),
            _ => format!("the Secret {name}: the API server does not answer"),
        })?;
        let mut data = found.ok_or_else(|| format!("there is no Secret {name}"))?.data;
        let mut take = |key: &str| data.as_mut()?.remove(key).map(|bytes| bytes.0);
        let talosconfig = take(secret::TALOSCONFIG)
            .ok_or_else(|| format!("the Secret {name} has no `{}`", secret::TALOSCONFIG))?;
        Ok(Keys { talosconfig, kubeconfig: take(secret::KUBECONFIG) })
    }

    /// A cluster's live side. Nothing is asked of it yet.
    pub async fn live(&self, cluster: &KubernetesCluster, keys: &Keys) -> Result<Paced, String> {
        let namespace = cluster.namespace().unwrap_or_default();
        let credentials = Credentials {
            talosconfig: &keys.talosconfig,
            kubeconfig: keys.kubeconfig.as_deref(),
            machines: self.machines.of(&namespace, cluster.cluster_id())?,
            snapshots: self.snapshots.join(&namespace).join(cluster.name_any()),
        };
        let live = Live::with(credentials, SystemClock::new()).await;
        // The parts of the error say nothing of what is in the files (rule 14).
        let live = live.map_err(|error| scrub(&chain(&error)).into_owned())?;
        Ok(Paced::new(live, Arc::clone(&self.pace)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, addresses: &[&str]) -> Machine {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "a", "labels": {
                "vitistack.io/clusterid": "c1", "vitistack.io/node-role": "worker"}},
            "status": {"publicIPAddresses": addresses},
        }))
        .expect("a machine")
    }

    #[test]
    fn machines_are_found_by_their_cluster() {
        let machines = Machines::default();
        assert_eq!(machines.of("a", "c1"), Ok(Vec::new()), "Talos knows its own");
        machines.apply(&machine("w1", &["fe80::1", "10.0.0.1"]));
        let found = machines.of("a", "c1").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.0.as_str(), found[0].address.as_str()), ("w1", "10.0.0.1"));
        assert_eq!(machines.of("b", "c1"), Ok(Vec::new()), "another namespace, another cluster");
        // Rule 10.
        machines.apply(&machine("w2", &[]));
        assert!(machines.of("a", "c1").unwrap_err().contains("w2 has no IPv4 address"));
        machines.delete(&machine("w2", &[]));
        assert_eq!(machines.of("a", "c1").unwrap().len(), 1);
        machines.replace(&[]);
        assert_eq!(machines.of("a", "c1"), Ok(Vec::new()));
    }
}
