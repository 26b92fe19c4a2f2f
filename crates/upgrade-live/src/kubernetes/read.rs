//! Looking at nodes, pods and budgets. Every look is a fresh list: one that a
//! watch remembers may be older than what we did last (rule 2).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use upgrade_core::selector::LabelSelector;
use upgrade_core::snapshot::{KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Pod};
use upgrade_engine::io::Trouble;

use super::access::Access;
use super::pods;
use super::send::segment;

async fn all_nodes<T: DeserializeOwned>(access: &Access) -> Result<Vec<T>, Trouble> {
    let nodes = access.list("/api/v1/nodes", "").await;
    nodes.map_err(|refused| refused.look("the nodes could not be listed"))
}

/// What is read of a node. The rest of it is large (its images, who manages which
/// field), and skipped.
#[derive(Deserialize)]
struct Reported {
    metadata: Named,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    node_info: Option<NodeInfo>,
    conditions: Vec<Condition>,
    addresses: Vec<Address>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo {
    kubelet_version: String,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// Every node. One whose kubelet has not reported yet is left out: nothing is
/// known of it.
pub(super) async fn nodes(access: &Access) -> Result<BTreeMap<NodeName, KubernetesFacts>, Trouble> {
    Ok(all_nodes(access).await?.into_iter().filter_map(facts).collect())
}

fn facts(node: Reported) -> Option<(NodeName, KubernetesFacts)> {
    let Reported { metadata, spec, status } = node;
    let kubelet = status.node_info?.kubelet_version.parse().ok()?;
    let ready = status.conditions.iter().any(|it| it.kind == "Ready" && it.status == "True");
    let unschedulable = spec.unschedulable;
    let internal = status.addresses.into_iter().filter(|it| it.kind == "InternalIP");
    let addresses = internal.map(|it| it.address).collect();
    Some((NodeName(metadata.name), KubernetesFacts { kubelet, ready, unschedulable, addresses }))
}

/// What every node has for pods.
pub(super) async fn capacity(access: &Access) -> Result<BTreeMap<NodeName, Capacity>, Trouble> {
    Ok(all_nodes(access).await?.into_iter().filter_map(pods::capacity).collect())
}

/// The pods of a node, or all.
pub(super) async fn pods(access: &Access, on: Option<&NodeName>) -> Result<Vec<Pod>, Trouble> {
    let query = on.map(|node| format!("fieldSelector=spec.nodeName%3D{}", segment(&node.0)));
    let listed = access.list::<api::Pod>("/api/v1/pods", &query.unwrap_or_default()).await;
    let listed = listed.map_err(|refused| match on {
        Some(node) => refused.look(&format!("the pods of {node} could not be listed")),
        None => refused.look("the pods could not be listed"),
    })?;
    Ok(listed.into_iter().filter_map(pods::pod).collect())
}

/// All disruption budgets.
pub(super) async fn budgets(access: &Access) -> Result<Vec<Budget>, Trouble> {
    let listed = access.list("/apis/policy/v1/poddisruptionbudgets", "").await;
    let listed: Vec<PodDisruptionBudget> =
        listed.map_err(|refused| refused.look("the disruption budgets could not be listed"))?;
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
