//! A cluster as a front end names it, and how it is reached.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use sha2::{Digest as _, Sha256};
use upgrade_api::run::Owner;
use upgrade_engine::io::Machine;
pub use upgrade_live::LiveSnapshots;

/// The object that stands for a cluster on the hub. Its UID is its identity: an object that
/// was created again under an old name is another cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRef {
    /// The group of its kind.
    pub group: String,
    /// The version of its kind.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl ClusterRef {
    /// The reference to an object.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// Namespace and name, as logs show it.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The name of the lease that the driver of the cluster holds (rule 9).
    pub fn lease(&self) -> String {
        format!("upgrade-{}", self.uid)
    }

    /// The owner of the cluster's runs.
    pub fn owner(&self) -> Owner {
        let Self { group, version: _, kind, namespace, name, uid } = self.clone();
        Owner { group, kind, namespace, name, uid }
    }

    /// The same, as the garbage collector reads it.
    pub fn owner_reference(&self) -> OwnerReference {
        let Self { kind, name, uid, .. } = self.clone();
        OwnerReference {
            api_version: self.api_version(),
            kind,
            name,
            uid,
            ..OwnerReference::default()
        }
    }

    /// What Events are about.
    pub fn object_reference(&self) -> ObjectReference {
        let Self { kind, namespace, name, uid, .. } = self.clone();
        ObjectReference {
            api_version: Some(self.api_version()),
            kind: Some(kind),
            namespace: Some(namespace),
            name: Some(name),
            uid: Some(uid),
            ..ObjectReference::default()
        }
    }

    fn api_version(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }
}

/// How a cluster is reached, resolved by its front end for one connection and not kept.
pub struct ClusterAccess {
    /// The talosconfig.
    pub talosconfig: Vec<u8>,
    /// The kubeconfig; without one it is fetched through Talos.
    pub kubeconfig: Option<Vec<u8>>,
    /// The machines that the hub knows of.
    pub inventory: Vec<Machine>,
    /// Where etcd snapshots go.
    pub snapshots: LiveSnapshots,
}

impl ClusterAccess {
    /// Shows whether the credentials changed, and nothing else of them (rule 14).
    pub fn digest(&self) -> [u8; 32] {
        let Self { talosconfig, kubeconfig, inventory: _, snapshots: _ } = self;
        let mut hasher = Sha256::new();
        hasher.update(talosconfig.len().to_be_bytes());
        hasher.update(talosconfig);
        hasher.update(kubeconfig.as_deref().unwrap_or_default());
        hasher.finalize().into()
    }
}
