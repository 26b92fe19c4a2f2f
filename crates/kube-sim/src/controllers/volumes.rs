//! Volumes: one for each claim, attached to the nodes that need it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Controllers, Kind, manager, pods, select};
use crate::names::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTACHMENTS};
use crate::object;
use crate::store::{DeleteOptions, Store};

/// The storage driver.
const DRIVER: &str = "sim";

/// The claims that a pod names.
pub(super) fn claims(pod: &Value) -> impl Iterator<Item = &str> {
    object::list(pod, &["spec", "volumes"])
        .iter()
        .map(|volume| object::text(volume, &["persistentVolumeClaim", "claimName"]))
        .filter(|claim| !claim.is_empty())
}

impl Controllers {
    /// Creates a volume for an unbound claim; deletes the volume of a deleted claim.
    pub(super) fn bind_claim(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let claims = &PERSISTENT_VOLUME_CLAIMS;
        let Some(claim) = store.get(claims, namespace, name).cloned() else {
            let left: Vec<String> = store
                .list(&PERSISTENT_VOLUMES, None)
                .filter(|volume| {
                    object::text(volume, &["spec", "claimRef", "namespace"]) == namespace
                        && object::text(volume, &["spec", "claimRef", "name"]) == name
                        && object::text(volume, &["spec", "persistentVolumeReclaimPolicy"])
                            != "Retain"
                })
                .map(|volume| object::name(volume).to_owned())
                .collect();
            for volume in left {
                let options = DeleteOptions::default();
                let _ = store.delete(&manager(), &PERSISTENT_VOLUMES, "", &volume, &options);
            }
            return;
        };
        if object::is_deleting(&claim) || object::text(&claim, &["status", "phase"]) == "Bound" {
            return;
        }
        let size = object::at(&claim, &["spec", "resources", "requests", "storage"])
            .cloned()
            .unwrap_or(json!("1Gi"));
        let modes = object::at(&claim, &["spec", "accessModes"])
            .cloned()
            .unwrap_or(json!(["ReadWriteOnce"]));
        let mut volume = object::text(&claim, &["spec", "volumeName"]).to_owned();
        if volume.is_empty() {
            volume = format!("pvc-{}", object::uid(&claim));
            let object = json!({
                "metadata": {"name": volume},
                "spec": {
                    "accessModes": modes,
                    "capacity": {"storage": size},
                    "claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "namespace": namespace, "name": name, "uid": object::uid(&claim),
                    },
                    "csi": {"driver": DRIVER, "volumeHandle": volume},
                    "persistentVolumeReclaimPolicy": "Delete",
                    "storageClassName": object::text(&claim, &["spec", "storageClassName"]),
                    "volumeMode": "Filesystem",
                },
            });
            let _ = store.create(&manager(), &PERSISTENT_VOLUMES, object);
        }
        let _ = store.modify_status(&manager(), &PERSISTENT_VOLUMES, "", &volume, |volume| {
            object::set(volume, &["status", "phase"], "Bound");
        });
        let _ = store.modify(&manager(), claims, namespace, name, |claim| {
            object::set(claim, &["spec", "volumeName"], volume.clone());
        });
        let _ = store.modify_status(&manager(), claims, namespace, name, |claim| {
            let status =
                json!({"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}});
            object::set(claim, &["status"], status);
        });
        self.enqueue(Kind::Volume, "", &volume);
    }

    /// Attaches a volume to the nodes whose pods need it, and detaches it from others. A
    /// single-node volume waits until the other node has detached it.
    #[expect(clippy::unused_self, reason = "as all controllers are called")]
    pub(super) fn attach(&mut self, store: &mut Store, volume: &str) {
        let attached: Vec<_> = store
            .list(&VOLUME_ATTACHMENTS, None)
            .filter(|found| {
                object::text(found, &["spec", "source", "persistentVolumeName"]) == volume
            })
            .cloned()
            .collect();
        let mut wanted = BTreeSet::new();
        let mut shared = false;
        if let Some(volume) = store.get(&PERSISTENT_VOLUMES, "", volume) {
            shared = object::list(volume, &["spec", "accessModes"])
                .iter()
                .any(|mode| mode == "ReadWriteMany");
            let namespace = object::text(volume, &["spec", "claimRef", "namespace"]);
            let claim = object::text(volume, &["spec", "claimRef", "name"]);
            for pod in store.list(&PODS, Some(namespace)) {
                let node = object::text(pod, &["spec", "nodeName"]);
                if !node.is_empty()
                    && !select::is_over(pod)
                    && claims(pod).any(|name| name == claim)
                {
                    wanted.insert(node.to_owned());
                }
            }
        }
        for found in &attached {
            if !wanted.remove(object::text(found, &["spec", "nodeName"]))
                && !object::is_deleting(found)
            {
                let options = DeleteOptions::default();
                let _ = store.delete(
                    &manager(),
                    &VOLUME_ATTACHMENTS,
                    "",
                    object::name(found),
                    &options,
                );
            }
        }
        let mut free = shared || attached.is_empty();
        for node in wanted {
            if !free {
                break;
            }
            free = shared;
            let hash = pods::hash(&json!([volume, node]));
            let attachment = json!({
                "metadata": {
                    "name": format!("csi-{hash}"),
                    "annotations": {"csi.alpha.kubernetes.io/node-id": node},
                    "finalizers": ["external-attacher/sim"],
                },
                "spec": {
                    "attacher": DRIVER,
                    "nodeName": node,
                    "source": {"persistentVolumeName": volume},
                },
            });
            let _ = store.create(&manager(), &VOLUME_ATTACHMENTS, attachment);
        }
    }
}
