//! What the nodes and their objects tell each other: a cordon either way, and
//! whether a node is ready.

use kube_sim::names::NODES;
use kube_sim::{ApiServer, Write, object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{NodeIndex, Time, World};

/// Talos marks the cordons that are its own to lift.
const CORDONED: &str = "talos.dev/cordoned";

/// What both sides have agreed on, by node: whoever differs from it has changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Feed {
    nodes: Vec<Agreed>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Agreed {
    cordoned: bool,
    /// As the object has it; `None` before there is one.
    ready: Option<bool>,
}

impl Feed {
    /// One look at all nodes.
    pub(super) fn pass(&mut self, api: &mut ApiServer, world: &mut World, now: Time) {
        self.nodes.resize_with(world.len(), Agreed::default);
        for (index, agreed) in self.nodes.iter_mut().enumerate() {
            let node = NodeIndex(index);
            let Some(here) = world.kubernetes(node) else { continue };
            let Some(there) = api.store().get(&NODES, "", &here.name) else { continue };
            let ready = is_ready(there);
            let cordoned = object::flag(there, &["spec", "unschedulable"]);
            if agreed.ready != Some(ready) {
                agreed.ready = Some(ready);
                world.set_node_ready(now, node, ready);
            }
            if here.unschedulable != agreed.cordoned {
                agreed.cordoned = here.unschedulable;
                if cordoned != here.unschedulable {
                    cordon(api, &here.name, here.unschedulable);
                }
            } else if cordoned != agreed.cordoned {
                agreed.cordoned = cordoned;
                world.set_unschedulable(now, node, cordoned);
            }
        }
    }
}

fn is_ready(node: &Value) -> bool {
    object::list(node, &["status", "conditions"]).iter().any(|condition| {
        object::text(condition, &["type"]) == "Ready"
            && object::text(condition, &["status"]) == "True"
    })
}

/// Writes Talos's own cordon into the object, or takes it back.
fn cordon(api: &mut ApiServer, name: &str, cordoned: bool) {
    let write = Write::by("talos");
    // A node that has gone from the API has nothing to be cordoned.
    let _ = api.store_mut().modify(&write, &NODES, "", name, |node| {
        if cordoned {
            object::set(node, &["spec", "unschedulable"], json!(true));
            object::set(node, &["metadata", "annotations", CORDONED], json!("true"));
        } else {
            object::map(&mut node["spec"]).remove("unschedulable");
            object::map(&mut node["metadata"]["annotations"]).remove(CORDONED);
        }
    });
}
