//! The Kubernetes of a live cluster.

mod access;
mod attachments;
mod call;
mod changes;
mod deprecated;
mod evict;
mod objects;
mod own;
mod pods;
mod quantity;
mod read;

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use talos_client::Client;
use upgrade_core::snapshot::{CORDON_MARK, KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Pod, PodName};
use upgrade_engine::io::kubernetes::{Apply, Evicted, Kubernetes, ObjectName};
use upgrade_engine::io::{Changes, IoError, Machine};

use access::Access;
pub use access::KubeconfigError;
use changes::Watches;
use objects::Kinds;

/// The Kubernetes API, as the engine sees it.
pub struct LiveKubernetes {
    access: Access,
    /// Who knows where each API server listens.
    talos: Option<Client>,
    kinds: Kinds,
    watches: Watches,
}

impl LiveKubernetes {
    /// As a kubeconfig says.
    pub async fn from_file(path: &Path) -> Result<Self, KubeconfigError> {
        Ok(Self::new(Access::from_file(path).await?))
    }

    /// As the text of a kubeconfig says, which comes from elsewhere and may
    /// neither name a file nor run a program.
    pub async fn from_text(text: &[u8], whose: &str) -> Result<Self, KubeconfigError> {
        Ok(Self::new(Access::from_text(text, whose).await?))
    }

    /// As the machines say when they are first asked.
    pub fn through(talos: Client) -> Self {
        Self::new(Access::through(talos.clone())).beside(talos)
    }

    /// Lets the machines tell where their API servers listen.
    #[must_use]
    pub fn beside(self, talos: Client) -> Self {
        Self { talos: Some(talos), ..self }
    }

    fn new(access: Access) -> Self {
        Self { access, talos: None, kinds: Kinds::default(), watches: Watches::default() }
    }
}

impl Kubernetes for LiveKubernetes {
    async fn nodes(&self) -> Result<BTreeMap<NodeName, KubernetesFacts>, IoError> {
        read::nodes(&self.access).await
    }

    async fn api_server(&self, of: &Machine) -> Result<(), IoError> {
        own::api_server(&self.access, self.talos.as_ref(), of).await
    }

    async fn capacity(&self) -> Result<BTreeMap<NodeName, Capacity>, IoError> {
        read::capacity(&self.access).await
    }

    async fn set_unschedulable(&self, node: &NodeName, unschedulable: bool) -> Result<(), IoError> {
        let what = if unschedulable { "cordoning" } else { "uncordoning" };
        // As kubectl: the field goes when the cordon is lifted. The mark goes with it (rule 7).
        let (value, mark) =
            if unschedulable { (json!(true), json!("talos-operator")) } else { Default::default() };
        let patch = &Patch::Merge(json!({
            "metadata": {"annotations": {CORDON_MARK: mark}},
            "spec": {"unschedulable": value},
        }));
        let how = &PatchParams::default();
        let set = |client| async move {
            Api::<Node>::all(client).patch_metadata(&node.0, how, patch).await
        };
        let done = self.access.call(set).await;
        done.map(|_| ()).map_err(|refused| refused.on_change(&format!("{what} {node}")))
    }

    async fn pods(&self, on: Option<&NodeName>) -> Result<Vec<Pod>, IoError> {
        read::pods(&self.access, on).await
    }

    async fn budgets(&self) -> Result<Vec<Budget>, IoError> {
        read::budgets(&self.access).await
    }

    async fn evict(&self, pod: &PodName, uid: &str) -> Result<Evicted, IoError> {
        evict::evict(&self.access, pod, uid).await
    }

    async fn attachments(&self, node: &NodeName) -> Result<Vec<String>, IoError> {
        attachments::attachments(&self.access, node).await
    }

    fn changes(&self) -> Changes {
        self.watches.begin(&self.access)
    }

    async fn deprecated(&self) -> Result<Vec<(String, String)>, IoError> {
        deprecated::deprecated(&self.access).await
    }

    async fn count(&self, api_version: &str, resource: &str) -> Result<usize, IoError> {
        objects::count(&self.access, api_version, resource).await
    }

    async fn preferred(&self, group: &str) -> Result<Option<String>, IoError> {
        objects::preferred(&self.access, group).await
    }

    async fn object(&self, name: &ObjectName) -> Result<Option<Value>, IoError> {
        self.kinds.get(&self.access, name).await
    }

    async fn apply(&self, object: &Value, manager: &str, how: Apply) -> Result<Value, IoError> {
        self.kinds.apply(&self.access, object, manager, how).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), IoError> {
        self.kinds.delete(&self.access, name).await
    }
}
