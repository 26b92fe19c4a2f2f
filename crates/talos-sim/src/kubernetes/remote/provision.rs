//! Volumes for claims: the part of a storage driver that the controllers leave to an external
//! provisioner.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_sim::kubelet::Api;
use kube_sim::names::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use kube_sim::{Status, object};
use serde_json::{Value, json};

use super::DRIVER;
use super::watch::Change;

/// The annotation in which the controllers name the provisioner of a claim.
const WANTED: [&str; 3] = ["metadata", "annotations", "volume.kubernetes.io/storage-provisioner"];
/// The annotation in which a volume names its provisioner.
const MADE: &str = "pv.kubernetes.io/provisioned-by";

/// Creates volumes, and deletes those without a claim.
#[derive(Debug, Default)]
pub(super) struct Provisioner {
    /// Pending work, by UID.
    work: BTreeMap<String, Work>,
}

#[derive(Clone, Debug)]
enum Work {
    Make(Arc<Value>),
    Remove(Arc<Value>),
}

impl Provisioner {
    /// Observes a change of a claim or a volume.
    pub(super) fn observe(&mut self, change: &Change) {
        let object = &change.object;
        let uid = object::uid(object).to_owned();
        let work = if change.gone || object::is_deleting(object) {
            None
        } else if change.resource == PERSISTENT_VOLUME_CLAIMS {
            let wanted = object::text(object, &WANTED) == DRIVER
                && object::text(object, &["spec", "volumeName"]).is_empty();
            wanted.then(|| Work::Make(Arc::clone(object)))
        } else if change.resource == PERSISTENT_VOLUMES {
            let left = object::annotation(object, MADE) == Some(DRIVER)
                && object::text(object, &["status", "phase"]) == "Released"
                && object::text(object, &["spec", "persistentVolumeReclaimPolicy"]) == "Delete";
            left.then(|| Work::Remove(Arc::clone(object)))
        } else {
            return;
        };
        match work {
            Some(work) => drop(self.work.insert(uid, work)),
            None => drop(self.work.remove(&uid)),
        }
    }

    /// Does the pending work; `false` if something has to be retried.
    pub(super) fn work(&mut self, api: &mut dyn Api) -> bool {
        self.work.retain(|_, work| match work {
            Work::Make(claim) => make(api, claim).is_err_and(|status| status.code != 409),
            Work::Remove(volume) => {
                let (name, uid) = (object::name(volume), object::uid(volume));
                api.delete(&PERSISTENT_VOLUMES, "", name, uid)
                    .is_err_and(|status| ![404, 409].contains(&status.code))
            }
        });
        self.work.is_empty()
    }
}

fn make(api: &mut dyn Api, claim: &Value) -> Result<Arc<Value>, Status> {
    let name = format!("pvc-{}", object::uid(claim));
    let mut spec = json!({
        "capacity": object::at(claim, &["spec", "resources", "requests"]),
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": object::namespace(claim), "name": object::name(claim),
            "uid": object::uid(claim),
        },
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Delete",
    });
    for field in ["accessModes", "storageClassName", "volumeMode"] {
        if let Some(value) = object::at(claim, &["spec", field]) {
            object::set(&mut spec, &[field], value.clone());
        }
    }
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {MADE: DRIVER}},
        "spec": spec,
    });
    api.create(&PERSISTENT_VOLUMES, volume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_sim::{ApiServer, Time};

    #[test]
    fn a_claim_gets_a_volume_once() {
        let mut server = ApiServer::new(1, Time::from_secs(1_767_323_045));
        let store = server.store_mut();
        let mut provisioner = Provisioner::default();
        let claim = |volume: &str| Change {
            resource: PERSISTENT_VOLUME_CLAIMS,
            object: Arc::new(json!({
                "metadata": {
                    "namespace": "default", "name": "data", "uid": "7",
                    "annotations": {"volume.kubernetes.io/storage-provisioner": DRIVER},
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "sim",
                    "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume,
                },
            })),
            gone: false,
        };
        provisioner.observe(&claim(""));
        assert!(provisioner.work(store));
        let volume = Api::get(store, &PERSISTENT_VOLUMES, "", "pvc-7").unwrap().unwrap();
        assert_eq!(volume["spec"]["claimRef"]["name"], "data");
        assert_eq!(volume["spec"]["capacity"]["storage"], "1Gi");
        provisioner.observe(&claim("pvc-7"));
        assert!(provisioner.work.is_empty());

        let mut released = volume.as_ref().clone();
        object::set(&mut released, &["status", "phase"], "Released");
        let object = Arc::new(released);
        provisioner.observe(&Change { resource: PERSISTENT_VOLUMES, object, gone: false });
        assert!(provisioner.work(store));
        assert_eq!(Api::get(store, &PERSISTENT_VOLUMES, "", "pvc-7").unwrap(), None);
    }
}
