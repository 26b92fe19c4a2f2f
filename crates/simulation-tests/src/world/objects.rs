//! Objects of the API as the engine knows them.

use kube_sim::object::{annotation, at, flag, is_deleting, list, name, namespace, text, uid};
use serde_json::Value;
use std::collections::BTreeMap;
use upgrade_core::jiff::Timestamp;
use upgrade_core::selector::LabelSelector;
use upgrade_core::snapshot::{CORDON_MARK, KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Container, Pod, PodName, Resources};

fn condition(object: &Value, kind: &str) -> bool {
    let conditions = list(object, &["status", "conditions"]).iter();
    let mut of_kind = conditions.filter(|it| text(it, &["type"]) == kind);
    of_kind.any(|it| text(it, &["status"]) == "True")
}

fn texts(object: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let fields = at(object, path).and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    fields.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// A node; `None` if its kubelet never told a version.
pub(super) fn node(object: &Value) -> Option<(NodeName, KubernetesFacts)> {
    let kubelet = text(object, &["status", "nodeInfo", "kubeletVersion"]).parse().ok()?;
    let facts = KubernetesFacts {
        kubelet,
        ready: condition(object, "Ready"),
        unschedulable: flag(object, &["spec", "unschedulable"]),
        marked: at(object, &["metadata", "annotations", CORDON_MARK]).is_some(),
        addresses: internal(object),
    };
    Some((NodeName(name(object).to_owned()), facts))
}

fn internal(object: &Value) -> Vec<String> {
    let addresses = list(object, &["status", "addresses"]).iter();
    let internal = addresses.filter(|it| text(it, &["type"]) == "InternalIP");
    internal.map(|it| text(it, &["address"]).to_owned()).collect()
}

/// What a node has for pods.
pub(super) fn capacity(object: &Value) -> (NodeName, Capacity) {
    let taints = list(object, &["spec", "taints"]).iter();
    let taints = taints.filter(|taint| text(taint, &["effect"]) != "PreferNoSchedule");
    let capacity = Capacity {
        // More than any workload of these worlds asks for.
        allocatable: Resources { cpu_millis: 64_000, memory_bytes: 1 << 38, pods: 110 },
        labels: texts(object, &["metadata", "labels"]),
        taints: taints.map(|taint| text(taint, &["key"]).to_owned()).collect(),
    };
    (NodeName(name(object).to_owned()), capacity)
}

/// A pod.
pub(super) fn pod(object: &Value) -> Pod {
    let owners = list(object, &["metadata", "ownerReferences"]).iter();
    let mut controllers = owners.filter(|owner| flag(owner, &["controller"]));
    let controller = controllers
        .next()
        .map(|owner| (text(owner, &["kind"]).to_owned(), text(owner, &["name"]).to_owned()));
    let volumes = list(object, &["spec", "volumes"]);
    let claim = |volume: &Value| {
        let claim = text(volume, &["persistentVolumeClaim", "claimName"]);
        (!claim.is_empty()).then(|| claim.to_owned())
    };
    let tolerations = list(object, &["spec", "tolerations"]).iter();
    let tolerates = tolerations.map(|toleration| match text(toleration, &["key"]) {
        "" => "*".to_owned(),
        key => key.to_owned(),
    });
    let statuses = list(object, &["status", "containerStatuses"]);
    let container = |container: &Value| {
        let own = text(container, &["name"]);
        let status = statuses.iter().find(|status| text(status, &["name"]) == own);
        let waiting = status.and_then(|status| at(status, &["state", "waiting"]));
        Container {
            name: own.to_owned(),
            image: text(container, &["image"]).to_owned(),
            ready: status.is_some_and(|status| flag(status, &["ready"])),
            waiting: waiting.map(|waiting| text(waiting, &["reason"]).to_owned()),
        }
    };
    let node = text(object, &["spec", "nodeName"]);
    let deleted = text(object, &["metadata", "deletionTimestamp"]).parse::<Timestamp>();
    Pod {
        name: PodName { namespace: namespace(object).to_owned(), name: name(object).to_owned() },
        uid: uid(object).to_owned(),
        node: (!node.is_empty()).then(|| NodeName(node.to_owned())),
        phase: text(object, &["status", "phase"]).to_owned(),
        ready: condition(object, "Ready"),
        deleting_since: is_deleting(object).then(|| deleted.unwrap_or_default()),
        controller,
        mirror: annotation(object, "kubernetes.io/config.mirror").is_some(),
        empty_dir: volumes.iter().any(|volume| at(volume, &["emptyDir"]).is_some()),
        claims: volumes.iter().filter_map(claim).collect(),
        labels: texts(object, &["metadata", "labels"]),
        node_selector: texts(object, &["spec", "nodeSelector"]),
        tolerates: tolerates.collect(),
        requests: Resources { pods: 1, ..Resources::default() },
        containers: list(object, &["spec", "containers"]).iter().map(container).collect(),
        config_hash: annotation(object, "kubernetes.io/config.hash").map(str::to_owned),
    }
}

/// A disruption budget.
pub(super) fn budget(object: &Value) -> Budget {
    let count =
        |field: &str| at(object, &["status", field]).and_then(Value::as_i64).unwrap_or_default();
    Budget {
        namespace: namespace(object).to_owned(),
        name: name(object).to_owned(),
        selector: LabelSelector(at(object, &["spec", "selector"]).cloned().unwrap_or_default()),
        disruptions_allowed: count("disruptionsAllowed"),
        desired_healthy: count("desiredHealthy"),
        current_healthy: count("currentHealthy"),
        expected_pods: count("expectedPods"),
    }
}
