//! The machines of all clusters, as the platform lists them, kept by a watch.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use kube::ResourceExt as _;
use upgrade_controller::connect::AccessError;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::io;
use vitistack_api::{Machine, label};

/// What is remembered of a machine: as little as finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    role: Option<Role>,
    address: Option<Ipv4Addr>,
}

/// Namespace and identifier of a cluster.
type Key = (String, String);

/// The machines of all clusters.
#[derive(Debug, Default)]
pub struct Machines(Mutex<HashMap<Key, BTreeMap<String, Listed>>>);

impl Machines {
    /// A machine was created or changed.
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

    /// All machines, from a new list.
    pub fn replace(&self, machines: &[Machine]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for machine in machines {
            self.apply(machine);
        }
    }

    /// The machines of a cluster. One without an address or a role yet is an error: without
    /// it the cluster would have a machine that no rule protects (rule 10).
    pub fn of(&self, namespace: &str, cluster_id: &str) -> Result<Vec<io::Machine>, AccessError> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), cluster_id.to_owned());
        let machines = all.get(&key).into_iter().flatten();
        machines
            .map(|(name, Listed { role, address })| {
                let lacks = |problem: String| AccessError::Machine {
                    kind: "Machine",
                    name: name.clone(),
                    problem,
                };
                let role =
                    role.ok_or_else(|| lacks(format!("has no label {}", label::NODE_ROLE)))?;
                let address = address.ok_or_else(|| lacks("has no IPv4 address yet".to_owned()))?;
                Ok(io::Machine { name: NodeName(name.clone()), address: address.to_string(), role })
            })
            .collect()
    }
}

fn key(machine: &Machine) -> Option<Key> {
    Some((machine.namespace()?, machine.cluster_id()?.to_owned()))
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
        assert!(machines.of("a", "c1").unwrap().is_empty(), "Talos knows its own");
        machines.apply(&machine("w1", &["fe80::1", "10.0.0.1"]));
        let found = machines.of("a", "c1").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.0.as_str(), found[0].address.as_str()), ("w1", "10.0.0.1"));
        assert!(machines.of("b", "c1").unwrap().is_empty(), "another namespace, another cluster");
        // Rule 10.
        machines.apply(&machine("w2", &[]));
        let error = machines.of("a", "c1").unwrap_err();
        assert!(matches!(&error, AccessError::Machine { name, .. } if name == "w2"), "{error}");
        machines.delete(&machine("w2", &[]));
        assert_eq!(machines.of("a", "c1").unwrap().len(), 1);
        machines.replace(&[]);
        assert!(machines.of("a", "c1").unwrap().is_empty());
    }
}
