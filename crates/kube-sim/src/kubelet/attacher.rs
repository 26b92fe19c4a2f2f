//! The volume attacher: the storage driver's part in attaching volumes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Api, Due, Kubelets, RETRY};
use crate::names::{PERSISTENT_VOLUME_CLAIMS, VOLUME_ATTACHMENTS};
use crate::object;
use crate::time::Time;

/// The finalizer of an attachment until the volume is detached.
const FINALIZER: &str = "external-attacher/sim";

/// A volume that is attached to a node or is going to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attachment {
    object: Arc<Value>,
    due: Option<Time>,
}

impl Kubelets {
    pub(super) fn observe_attachment(&mut self, now: Time, object: &Arc<Value>, gone: bool) {
        let name = object::name(object);
        if gone {
            self.attachments.remove(name);
            return;
        }
        let before = self.attachments.get(name).and_then(|known| known.due);
        let mut known = Attachment { object: object.clone(), due: before };
        let settled = object::flag(object, &["status", "attached"]) && !object::is_deleting(object);
        if before.is_none() && !settled {
            let lasts = self.draw(self.timings.volume);
            known.due = Some(self.plan(now.plus(lasts), Due::Attachment(name.to_owned())));
        }
        self.attachments.insert(name.to_owned(), known);
    }

    /// Attaches or detaches a volume when it is due.
    pub(super) fn attach(&mut self, now: Time, api: &mut dyn Api, name: &str, at: Time) {
        let Some(known) = self.attachments.get_mut(name).filter(|known| known.due == Some(at))
        else {
            return;
        };
        known.due = None;
        let object = known.object.clone();
        let node = object::text(&object, &["spec", "nodeName"]);
        let stuck = self.nodes.get(node).is_some_and(|kubelet| kubelet.facts.faults.volumes_stay);
        let mut finalizers = object::list(&object, &["metadata", "finalizers"]).to_vec();
        let result = if object::is_deleting(&object) {
            if stuck {
                // Retried without end, like a real driver.
                Err(())
            } else {
                finalizers.retain(|name| name != FINALIZER);
                let patch = json!({"metadata": {"finalizers": finalizers}});
                api.patch(&VOLUME_ATTACHMENTS, "", name, "", &patch).map(drop).map_err(drop)
            }
        } else {
            if !finalizers.iter().any(|name| name == FINALIZER) {
                finalizers.push(json!(FINALIZER));
            }
            let patch = json!({"metadata": {"finalizers": finalizers}});
            let status = json!({"status": {"attached": true}});
            api.patch(&VOLUME_ATTACHMENTS, "", name, "", &patch)
                .and_then(|_| api.patch(&VOLUME_ATTACHMENTS, "", name, "status", &status))
                .map(drop)
                .map_err(drop)
        };
        if result.is_err() {
            let again = self.plan(now.plus(RETRY), Due::Attachment(name.to_owned()));
            if let Some(known) = self.attachments.get_mut(name) {
                known.due = Some(again);
            }
        }
    }

    /// Whether every volume that a pod claims is attached to its node.
    pub(super) fn volumes_are_there(&self, api: &mut dyn Api, key: &str) -> bool {
        let Some(pod) = self.pod(key) else { return false };
        let node = object::text(pod, &["spec", "nodeName"]);
        object::list(pod, &["spec", "volumes"])
            .iter()
            .map(|volume| object::text(volume, &["persistentVolumeClaim", "claimName"]))
            .filter(|claim| !claim.is_empty())
            .all(|claim| {
                let claims = &PERSISTENT_VOLUME_CLAIMS;
                let Ok(Some(claim)) = api.get(claims, object::namespace(pod), claim) else {
                    return false;
                };
                let volume = object::text(&claim, &["spec", "volumeName"]);
                self.attachments.values().any(|known| {
                    let source = ["spec", "source", "persistentVolumeName"];
                    object::text(&known.object, &["spec", "nodeName"]) == node
                        && object::text(&known.object, &source) == volume
                        && object::flag(&known.object, &["status", "attached"])
                        && !object::is_deleting(&known.object)
                })
            })
    }
}
