//! Validation and admission of individual kinds.

use serde_json::{Value, json};

use crate::names::{
    CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, JOBS, NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    SECRETS, STATEFUL_SETS,
};
use crate::object;
use crate::selector::LabelSelector;
use crate::status::Cause;
use crate::types::ResourceType;

/// The changes of admission to new objects; no manager owns them.
pub(super) fn admit(kind: &ResourceType, new: &mut Value) {
    if kind.name == PODS {
        admit_pod(new);
    } else if kind.name == NODES {
        admit_node(new);
    }
}

/// The changes of admission to updated objects.
pub(super) fn admit_update(kind: &ResourceType, new: &mut Value) {
    if kind.name == PODS {
        admit_tolerations(new);
    }
}

/// What every pod has.
fn admit_pod(new: &mut Value) {
    object::set(new, &["status", "phase"], "Pending");
    object::set(new, &["status", "qosClass"], quality(new));
    let spec = object::map(object::map(new).entry("spec").or_insert(Value::Null));
    spec.entry("priority").or_insert(json!(0));
    spec.entry("preemptionPolicy").or_insert(json!("PreemptLowerPriority"));
    let account = spec.get("serviceAccountName").cloned().unwrap_or(json!("default"));
    spec.entry("serviceAccountName").or_insert(account.clone());
    spec.entry("serviceAccount").or_insert(account);
    admit_tolerations(new);
}

/// The default tolerations: a pod stays five minutes on an unreachable node.
fn admit_tolerations(new: &mut Value) {
    let is_daemon = object::list(new, &["metadata", "ownerReferences"])
        .iter()
        .any(|owner| object::text(owner, &["kind"]) == "DaemonSet");
    let spec = object::map(object::map(new).entry("spec").or_insert(Value::Null));
    if !is_daemon && let Value::Array(tolerations) = spec.entry("tolerations").or_insert(json!([]))
    {
        for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
            let known = |toleration: &Value| {
                let found = object::text(toleration, &["key"]);
                let effect = object::text(toleration, &["effect"]);
                (found == key || found.is_empty()) && ["", "NoExecute"].contains(&effect)
            };
            if !tolerations.iter().any(known) {
                tolerations.push(json!({
                    "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
                }));
            }
        }
    }
}

/// A new node is not ready until its kubelet reports.
fn admit_node(new: &mut Value) {
    let ready = object::list(new, &["status", "conditions"]).iter().any(|condition| {
        object::text(condition, &["type"]) == "Ready"
            && object::text(condition, &["status"]) == "True"
    });
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let mut taints = object::list(new, &["spec", "taints"]).to_vec();
    if !ready && !taints.contains(&taint) {
        taints.push(taint);
        object::set(new, &["spec", "taints"], taints);
    }
}

/// The quality of service class of a pod.
fn quality(pod: &Value) -> &'static str {
    let containers = object::list(pod, &["spec", "containers"]);
    let part = |container: &Value, what: &str| {
        object::at(container, &["resources", what]).cloned().unwrap_or(json!({}))
    };
    let blank = |container: &Value| {
        object::is_blank(Some(&part(container, "requests")))
            && object::is_blank(Some(&part(container, "limits")))
    };
    let full = |container: &Value| {
        let (requests, limits) = (part(container, "requests"), part(container, "limits"));
        ["cpu", "memory"].iter().all(|what| {
            limits.get(what).is_some()
                && requests.get(what).is_none_or(|request| Some(request) == limits.get(what))
        })
    };
    if containers.iter().all(blank) {
        "BestEffort"
    } else if containers.iter().all(full) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Validates an object.
pub(super) fn check(kind: &ResourceType, new: &Value, causes: &mut Vec<Cause>) {
    let workload = [&DEPLOYMENTS, &DAEMON_SETS, &REPLICA_SETS, &STATEFUL_SETS];
    if kind.name == PODS {
        check_containers(new, &["spec"], causes);
    } else if workload.contains(&&kind.name) {
        check_replicas(new, causes);
        check_selector(new, causes);
        check_containers(new, &["spec", "template", "spec"], causes);
    } else if [&CONFIG_MAPS, &SECRETS].contains(&&kind.name) {
        check_keys(new, causes);
    } else if kind.name == JOBS {
        check_containers(new, &["spec", "template", "spec"], causes);
    } else if kind.name == POD_DISRUPTION_BUDGETS
        && object::at(new, &["spec", "minAvailable"]).is_some()
        && object::at(new, &["spec", "maxUnavailable"]).is_some()
    {
        let both = json!("minAvailable and maxUnavailable");
        let why = "minAvailable and maxUnavailable cannot be both set";
        causes.push(Cause::invalid("spec", &both, why));
    }
}

fn check_containers(new: &Value, path: &[&str], causes: &mut Vec<Cause>) {
    let mut way = path.to_vec();
    way.push("containers");
    let containers = object::list(new, &way);
    let field = way.join(".");
    if containers.is_empty() {
        causes.push(Cause::required(&field, ""));
    }
    for (index, container) in containers.iter().enumerate() {
        let name = object::text(container, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(&format!("{field}[{index}].name"), ""));
        } else if containers[..index].iter().any(|other| object::text(other, &["name"]) == name) {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                message: format!("Duplicate value: {name:?}"),
                field: format!("{field}[{index}].name"),
            });
        }
        if path.len() == 1 && object::text(container, &["image"]).is_empty() {
            causes.push(Cause::required(&format!("{field}[{index}].image"), ""));
        }
    }
}

fn check_replicas(new: &Value, causes: &mut Vec<Cause>) {
    if let Some(replicas) = object::number(new, &["spec", "replicas"]).filter(|count| *count < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.replicas", &json!(replicas), why));
    }
}

fn check_selector(new: &Value, causes: &mut Vec<Cause>) {
    let selector = object::at(new, &["spec", "selector"]);
    if selector.is_none() {
        causes.push(Cause::required("spec.selector", ""));
    }
    let labels = object::at(new, &["spec", "template", "metadata", "labels"]);
    let selected = LabelSelector::of(selector).is_some_and(|known| known.matches_labels(labels));
    if !selected {
        let shown = labels.cloned().unwrap_or(Value::Null);
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", &shown, why));
    }
}

/// Validates an update: immutable fields.
pub(super) fn check_update(kind: &ResourceType, old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let differs = |path: &[&str]| object::at(old, path) != object::at(new, path);
    let workload = [&DEPLOYMENTS, &DAEMON_SETS, &REPLICA_SETS, &STATEFUL_SETS];
    if workload.contains(&&kind.name) && differs(&["spec", "selector"]) {
        let shown = object::at(new, &["spec", "selector"]).cloned().unwrap_or(Value::Null);
        causes.push(Cause::invalid("spec.selector", &shown, "field is immutable"));
    }
    if kind.name == PODS && differs(&["spec"]) {
        check_pod_update(old, new, causes);
    }
    let held = ["configmaps", "secrets"].contains(&kind.name.plural.as_ref())
        && object::flag(old, &["immutable"]);
    if held {
        let why = "field is immutable when `immutable` is set";
        for field in ["immutable", "data", "binaryData"].into_iter().filter(|one| differs(&[one])) {
            causes.push(Cause::forbidden(field, why));
        }
    }
}

/// Pods are immutable except for images and a few other fields.
fn check_pod_update(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let containers = |pod| object::list(pod, &["spec", "containers"]).len();
    if containers(old) != containers(new) {
        let why = "pod updates may not add or remove containers";
        causes.push(Cause::forbidden("spec.containers", why));
        return;
    }
    let rest = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or(Value::Null);
        for list in ["containers", "initContainers"] {
            if let Some(Value::Array(containers)) = spec.get_mut(list) {
                for container in containers {
                    object::remove(container, &["image"]);
                }
            }
        }
        for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
            object::remove(&mut spec, &[field]);
        }
        spec
    };
    if rest(old) != rest(new) {
        let why = "pod updates may not change fields other than \
                   `spec.containers[*].image`,`spec.initContainers[*].image`,\
                   `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
                   tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
                   was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
}

/// The keys of a ConfigMap or a Secret have to be valid file names.
fn check_keys(new: &Value, causes: &mut Vec<Cause>) {
    for field in ["data", "binaryData"] {
        let map = new.get(field).and_then(Value::as_object);
        for key in map.into_iter().flat_map(|map| map.keys()) {
            let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if key.is_empty() || !key.bytes().all(fine) {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or \
                           '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                           validation is '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(&format!("{field}[{key}]"), &json!(key), why));
            }
        }
    }
}
