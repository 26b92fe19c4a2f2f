//! What the workload controllers share.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Controllers, conditions, manager, select};
use crate::names::PODS;
use crate::object;
use crate::store::{DeleteOptions, Store};
use crate::time::Time;

/// An owner reference with `controller: true`.
pub(super) fn controlled_by(owner: &Value) -> Value {
    json!({
        "apiVersion": object::text(owner, &["apiVersion"]),
        "kind": object::text(owner, &["kind"]),
        "name": object::name(owner),
        "uid": object::uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// A pod from its owner's template, without a name.
pub(super) fn from_template(owner: &Value) -> Value {
    let template = |field: &str| object::at(owner, &["spec", "template", "metadata", field]);
    let mut pod = json!({
        "metadata": {
            "namespace": object::namespace(owner),
            "ownerReferences": [controlled_by(owner)],
        },
        "spec": object::at(owner, &["spec", "template", "spec"]).cloned().unwrap_or(json!({})),
    });
    for field in ["labels", "annotations"] {
        if let Some(value) = template(field) {
            object::set(&mut pod, &["metadata", field], value.clone());
        }
    }
    pod
}

/// A short hash of a template.
pub(super) fn hash(template: &Value) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in template.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (0..9)
        .map(|_| {
            let letter = usize::try_from(hash % 27).unwrap_or(0);
            hash /= 27;
            char::from(ALPHABET[letter])
        })
        .collect()
}

/// Whether the difference is irrelevant to every controller that counts, selects or schedules pods:
/// most status updates of kubelets are.
pub(super) fn count_alike(previous: &Value, pod: &Value) -> bool {
    let same = |path: &[&str]| object::at(previous, path) == object::at(pod, path);
    let ready = |pod: &Value, field: &str| {
        conditions::get(pod, "Ready").map(|ready| object::text(ready, &[field]).to_owned())
    };
    same(&["status", "phase"])
        && same(&["status", "podIP"])
        && same(&["metadata", "deletionTimestamp"])
        && ready(previous, "status") == ready(pod, "status")
        && ready(previous, "lastTransitionTime") == ready(pod, "lastTransitionTime")
        && same(&["metadata", "labels"])
        && same(&["metadata", "ownerReferences"])
        && same(&["metadata", "finalizers"])
        && same(&["spec"])
}

pub(super) fn is_ready(pod: &Value) -> bool {
    conditions::is_true(pod, "Ready")
}

/// Whether a pod has been ready for long enough; if not, when it will be.
pub(super) fn is_available(pod: &Value, wait: i64, now: Time) -> Result<bool, Time> {
    if !is_ready(pod) {
        return Ok(false);
    }
    let wait = Duration::from_secs(u64::try_from(wait).unwrap_or(0));
    match conditions::since(pod, "Ready") {
        Some(since) if !wait.is_zero() && since.plus(wait) > now => Err(since.plus(wait)),
        _ => Ok(true),
    }
}

/// The rank of a pod for deletion: the lowest is deleted first.
pub(super) fn worth(pod: &Value) -> (bool, bool, bool, std::cmp::Reverse<u64>) {
    (
        !object::text(pod, &["spec", "nodeName"]).is_empty(),
        object::text(pod, &["status", "phase"]) == "Running",
        is_ready(pod),
        std::cmp::Reverse(
            Time::from_text(object::text(pod, &["metadata", "creationTimestamp"]))
                .map_or(0, Time::as_secs),
        ),
    )
}

/// Deletes a pod on behalf of its owner, with its grace period.
pub(super) fn delete(store: &mut Store, pod: &Value) {
    let options =
        DeleteOptions { uid: Some(object::uid(pod).to_owned()), ..DeleteOptions::default() };
    let (namespace, name) = (object::namespace(pod), object::name(pod));
    let _ = store.delete(&manager(), &PODS, namespace, name, &options);
}

impl Controllers {
    /// The pods that an object controls.
    pub(super) fn pods_of(&self, store: &Store, owner: &Value) -> Vec<Arc<Value>> {
        let uid = object::uid(owner);
        self.index
            .owned(uid, &PODS)
            .filter_map(|(namespace, name)| store.get(&PODS, namespace, name))
            .filter(|pod| {
                select::controller(pod).is_some_and(|found| object::text(found, &["uid"]) == uid)
            })
            .cloned()
            .collect()
    }

    /// Adopts pods that match the selector and have no controller.
    pub(super) fn adopt(store: &mut Store, owner: &Value) {
        let namespace = object::namespace(owner);
        let selector = object::at(owner, &["spec", "selector"]);
        let orphans: Vec<String> = store
            .list(&PODS, Some(namespace))
            .filter(|pod| {
                select::controller(pod).is_none()
                    && !object::is_deleting(pod)
                    && !select::is_over(pod)
                    && select::matches(selector, pod)
            })
            .map(|pod| object::name(pod).to_owned())
            .collect();
        for name in orphans {
            let _ = store.modify(&manager(), &PODS, namespace, &name, |pod| {
                let mut owners = object::list(pod, &["metadata", "ownerReferences"]).to_vec();
                owners.push(controlled_by(owner));
                object::set(pod, &["metadata", "ownerReferences"], owners);
            });
        }
    }
}

/// Omits counters that are zero, as the API does with optional fields.
pub(super) fn drop_zeros(status: &mut Value, fields: &[&str]) {
    for field in fields {
        if object::number(status, &[field]) == Some(0) {
            object::remove(status, &[field]);
        }
    }
}
