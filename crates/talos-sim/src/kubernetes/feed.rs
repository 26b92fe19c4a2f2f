//! Synchronises the nodes with their Node objects: cordons in both directions, and readiness.

use kube_sim::names::NODES;
use kube_sim::{Store, Write, object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{NodeIndex, World};

/// Talos marks the cordons that it set itself and may lift.
const CORDONED: &str = "talos.dev/cordoned";

/// The last state that both sides agreed on, by node: the side that differs from it has changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Feed {
    nodes: Vec<Agreed>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Agreed {
    cordoned: bool,
    /// Readiness in the object; `None` before the object exists.
    ready: Option<bool>,
}

/// Talos's own cordon, to be set or lifted on a Node object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CordonChange {
    pub(super) node: NodeIndex,
    pub(super) name: String,
    pub(super) cordoned: bool,
}

impl Feed {
    /// Compares all nodes with their objects by name and returns the cordons to write. Objects that
    /// have not changed since the last pass are compared only if their node has.
    pub(super) fn pass<'a>(
        &mut self,
        world: &mut World,
        changed: impl Fn(&str) -> bool,
        object: impl Fn(&str) -> Option<&'a Value>,
    ) -> Vec<CordonChange> {
        let now = world.now();
        let mut cordons = Vec::new();
        self.nodes.resize_with(world.len(), Agreed::default);
        for (index, agreed) in self.nodes.iter_mut().enumerate() {
            let node = NodeIndex(index);
            let Some((name, unschedulable)) = world.cordon(node) else { continue };
            if unschedulable == agreed.cordoned && agreed.ready.is_some() && !changed(name) {
                continue;
            }
            let Some(there) = object(name) else { continue };
            let name = name.to_owned();
            let ready = is_ready(there);
            let cordoned = object::flag(there, &["spec", "unschedulable"]);
            if agreed.ready != Some(ready) {
                agreed.ready = Some(ready);
                world.set_node_ready(now, node, ready);
            }
            if unschedulable != agreed.cordoned {
                agreed.cordoned = unschedulable;
                if cordoned != unschedulable {
                    cordons.push(CordonChange { node, name, cordoned: unschedulable });
                }
            } else if cordoned != agreed.cordoned {
                agreed.cordoned = cordoned;
                world.set_unschedulable(now, node, cordoned);
            }
        }
        cordons
    }

    /// A cordon could not be written: the next pass returns it again.
    pub(super) fn failed(&mut self, node: NodeIndex, cordoned: bool) {
        if let Some(agreed) = self.nodes.get_mut(node.0) {
            agreed.cordoned = !cordoned;
        }
    }
}

fn is_ready(node: &Value) -> bool {
    object::list(node, &["status", "conditions"]).iter().any(|condition| {
        object::text(condition, &["type"]) == "Ready"
            && object::text(condition, &["status"]) == "True"
    })
}

/// The merge patch that carries out a cordon change.
pub(super) fn cordon_patch(cordoned: bool) -> Value {
    let (flag, mark) = if cordoned { (json!(true), json!("true")) } else { Default::default() };
    json!({"spec": {"unschedulable": flag}, "metadata": {"annotations": {CORDONED: mark}}})
}

/// Carries it out in the embedded store.
pub(super) fn cordon(store: &mut Store, CordonChange { name, cordoned, .. }: &CordonChange) {
    let write = Write::by("talos");
    // A node without an object has nothing to cordon.
    let _ = store.modify(&write, &NODES, "", name, |node| {
        if *cordoned {
            object::set(node, &["spec", "unschedulable"], json!(true));
            object::set(node, &["metadata", "annotations", CORDONED], json!("true"));
        } else {
            object::remove(node, &["spec", "unschedulable"]);
            object::remove(node, &["metadata", "annotations", CORDONED]);
        }
    });
}
