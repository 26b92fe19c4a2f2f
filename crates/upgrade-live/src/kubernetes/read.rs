//! Looking at nodes, pods and budgets. Every look is a fresh list: one that a
//! watch remembers may be older than what we did last (rule 2).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ApiResource, ListParams};
use kube::core::Object;
use serde::Deserialize;
use upgrade_core::selector::LabelSelector;
use upgrade_core::snapshot::{CORDON_MARK, KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Pod};
use upgrade_engine::io::IoError;
use upgrade_engine::io::kubernetes_error::RequestError;

use super::access::Access;
use super::pods;

/// What is read of a node. The rest of it is large (its images, for one), and skipped.
type Reported = Object<Option<Spec>, Status>;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Spec {
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    node_info: Option<NodeInfo>,
    conditions: Vec<Condition>,
    addresses: Vec<Address>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo {
    kubelet_version: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

impl Status {
    /// Where the kubelet says that the node is.
    fn internal_ips(self) -> impl Iterator<Item = String> {
        self.addresses.into_iter().filter(|it| it.kind == "InternalIP").map(|it| it.address)
    }
}

fn reported(client: kube::Client) -> Api<Reported> {
    Api::all_with(client, &ApiResource::erase::<api::Node>(&()))
}

fn not_listed(refused: &RequestError) -> IoError {
    refused.on_read("the nodes could not be listed")
}

/// Every node. One whose kubelet has not reported yet is left out: nothing is
/// known of it.
pub(super) async fn nodes(access: &Access) -> Result<BTreeMap<NodeName, KubernetesFacts>, IoError> {
    let listed = access.list(reported, ListParams::default()).await;
    Ok(listed.map_err(|refused| not_listed(&refused))?.into_iter().filter_map(facts).collect())
}

fn facts(node: Reported) -> Option<(NodeName, KubernetesFacts)> {
    let Reported { types: _, metadata, spec, status } = node;
    let status = status?;
    let kubelet = status.node_info.as_ref()?.kubelet_version.parse().ok()?;
    let ready = status.conditions.iter().any(|it| it.kind == "Ready" && it.status == "True");
    let unschedulable = spec.is_some_and(|spec| spec.unschedulable);
    let annotations = metadata.annotations.unwrap_or_default();
    let marked = annotations.contains_key(CORDON_MARK);
    let addresses = status.internal_ips().collect();
    let facts = KubernetesFacts { kubelet, ready, unschedulable, marked, addresses };
    Some((NodeName(metadata.name?), facts))
}

/// Where the kubelet of one node says that it is.
pub(super) async fn internal_ips(
    access: &Access,
    of: &NodeName,
) -> Result<impl Iterator<Item = String>, IoError> {
    let get = |client| async move { reported(client).get(&of.0).await };
    let node = access.call(get).await;
    let node =
        node.map_err(|refused| refused.on_read(&format!("the node {of} could not be read")))?;
    Ok(node.status.unwrap_or_default().internal_ips())
}

/// What every node has for pods.
pub(super) async fn capacity(access: &Access) -> Result<BTreeMap<NodeName, Capacity>, IoError> {
    let listed = access.list(Api::<api::Node>::all, ListParams::default()).await;
    let listed = listed.map_err(|refused| not_listed(&refused))?;
    Ok(listed.into_iter().filter_map(pods::capacity).collect())
}

/// The pods of a node, or all.
pub(super) async fn pods(access: &Access, on: Option<&NodeName>) -> Result<Vec<Pod>, IoError> {
    let which = match on {
        Some(node) => ListParams::default().fields(&format!("spec.nodeName={node}")),
        None => ListParams::default(),
    };
    let listed = access.list(Api::<api::Pod>::all, which).await;
    let listed = listed.map_err(|refused| match on {
        Some(node) => refused.on_read(&format!("the pods of {node} could not be listed")),
        None => refused.on_read("the pods could not be listed"),
    })?;
    Ok(listed.into_iter().filter_map(pods::pod).collect())
}

/// All disruption budgets.
pub(super) async fn budgets(access: &Access) -> Result<Vec<Budget>, IoError> {
    let listed = access.list(Api::<PodDisruptionBudget>::all, ListParams::default()).await;
    let listed =
        listed.map_err(|refused| refused.on_read("the disruption budgets could not be listed"))?;
    Ok(listed.into_iter().filter_map(budget).collect())
}

fn budget(budget: PodDisruptionBudget) -> Option<Budget> {
    let PodDisruptionBudget { metadata, spec, status } = budget;
    let status = status.unwrap_or_default();
    Some(Budget {
        namespace: metadata.namespace?,
        name: metadata.name?,
        selector: LabelSelector(serde_json::to_value(spec?.selector).expect("a selector is JSON")),
        disruptions_allowed: status.disruptions_allowed.unwrap_or_default().into(),
        desired_healthy: status.desired_healthy.unwrap_or_default().into(),
        current_healthy: status.current_healthy.unwrap_or_default().into(),
        expected_pods: status.expected_pods.unwrap_or_default().into(),
    })
}
