//! Defaults of built-in kinds.

use serde_json::{Map, Value, json};

use crate::names::NAMESPACES;
use crate::object;
use crate::types::ResourceType;

/// Sets the defaults of missing fields.
pub(super) fn fill(kind: &ResourceType, new: &mut Value) {
    if kind.name == NAMESPACES {
        namespace(new);
        return;
    }
    match (kind.name.group.as_ref(), kind.name.plural.as_ref()) {
        ("", "pods") => {
            let spec = part(new, &["spec"]);
            pod(spec);
            put(spec, "enableServiceLinks", json!(true));
        }
        ("apps", "deployments") => {
            let spec = part(new, &["spec"]);
            put(spec, "replicas", json!(1));
            put(spec, "revisionHistoryLimit", json!(10));
            put(spec, "progressDeadlineSeconds", json!(600));
            rolling(spec, "strategy", &json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
            template(new);
        }
        ("apps", "daemonsets") => {
            let spec = part(new, &["spec"]);
            put(spec, "revisionHistoryLimit", json!(10));
            rolling(spec, "updateStrategy", &json!({"maxUnavailable": 1, "maxSurge": 0}));
            template(new);
        }
        ("apps", "statefulsets") => {
            let spec = part(new, &["spec"]);
            put(spec, "replicas", json!(1));
            put(spec, "revisionHistoryLimit", json!(10));
            put(spec, "podManagementPolicy", json!("OrderedReady"));
            rolling(spec, "updateStrategy", &json!({"partition": 0}));
            template(new);
        }
        ("apps", "replicasets") => {
            put(part(new, &["spec"]), "replicas", json!(1));
            template(new);
        }
        ("batch", "jobs") => {
            let spec = part(new, &["spec"]);
            for (field, value) in [
                ("completions", json!(1)),
                ("parallelism", json!(1)),
                ("backoffLimit", json!(6)),
                ("completionMode", json!("NonIndexed")),
                ("suspend", json!(false)),
            ] {
                put(spec, field, value);
            }
            template(new);
            job_labels(new);
        }
        ("", "services") => service(new),
        ("", "secrets") => secret(new),
        ("", "persistentvolumes") => {
            put(part(new, &["spec"]), "persistentVolumeReclaimPolicy", json!("Retain"));
            put(part(new, &["spec"]), "volumeMode", json!("Filesystem"));
        }
        ("", "persistentvolumeclaims") => {
            put(part(new, &["spec"]), "volumeMode", json!("Filesystem"));
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition(new),
        _ => {}
    }
}

/// Fields that the server itself sets at creation; no manager owns them.
pub(super) fn born(kind: &ResourceType, new: &mut Value) {
    if kind.definition.is_some() {
        return;
    }
    match (kind.name.group.as_ref(), kind.name.plural.as_ref()) {
        ("", "namespaces") => {
            if object::at(new, &["spec", "finalizers"]).is_none() && !object::is_deleting(new) {
                object::set(new, &["spec", "finalizers"], json!(["kubernetes"]));
            }
            put(part(new, &["status"]), "phase", json!("Active"));
        }
        ("", "persistentvolumes" | "persistentvolumeclaims") => {
            put(part(new, &["status"]), "phase", json!("Pending"));
        }
        ("", "services") => put(part(new, &["status"]), "loadBalancer", json!({})),
        ("apiextensions.k8s.io", "customresourcedefinitions") => new_definition(new),
        _ => status(kind, new),
    }
}

fn part<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut here = object;
    for field in path {
        here = object::map(here).entry(*field).or_insert(Value::Null);
    }
    object::map(here)
}

fn put(map: &mut Map<String, Value>, field: &str, value: Value) {
    let here = map.entry(field).or_insert(Value::Null);
    if here.is_null() {
        *here = value;
    }
}

fn namespace(new: &mut Value) {
    let name = object::name(new).to_owned();
    object::set(new, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
}

fn rolling(spec: &mut Map<String, Value>, field: &str, rolling: &Value) {
    let strategy = object::map(spec.entry(field).or_insert(Value::Null));
    put(strategy, "type", json!("RollingUpdate"));
    if strategy["type"] == "RollingUpdate" {
        let update = object::map(strategy.entry("rollingUpdate").or_insert(Value::Null));
        for (field, value) in rolling.as_object().into_iter().flatten() {
            put(update, field, value.clone());
        }
    }
}

fn template(new: &mut Value) {
    pod(part(new, &["spec", "template", "spec"]));
}

fn pod(spec: &mut Map<String, Value>) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("securityContext", json!({})),
        ("schedulerName", json!("default-scheduler")),
    ] {
        put(spec, field, value);
    }
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        put(spec, "serviceAccount", account);
    }
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(list) {
            containers.iter_mut().filter(|item| item.is_object()).for_each(container);
        }
    }
}

fn container(container: &mut Value) {
    let image = object::text(container, &["image"]);
    let name = image.rsplit('/').next().unwrap_or_default();
    let floating = !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
    let policy = if floating { "Always" } else { "IfNotPresent" };
    let container = object::map(container);
    put(container, "imagePullPolicy", json!(policy));
    put(container, "resources", json!({}));
    put(container, "terminationMessagePath", json!("/dev/termination-log"));
    put(container, "terminationMessagePolicy", json!("File"));
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        for port in ports {
            put(object::map(port), "protocol", json!("TCP"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(probe) {
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                put(probe, field, json!(value));
            }
            if let Some(Value::Object(get)) = probe.get_mut("httpGet") {
                put(get, "scheme", json!("HTTP"));
                put(get, "path", json!("/"));
            }
        }
    }
}

/// The selector of a job: it selects pods by the job's UID.
fn job_labels(new: &mut Value) {
    let (uid, name) = (object::uid(new).to_owned(), object::name(new).to_owned());
    if uid.is_empty() || object::flag(new, &["spec", "manualSelector"]) {
        return;
    }
    let selector = part(new, &["spec", "selector", "matchLabels"]);
    put(selector, "batch.kubernetes.io/controller-uid", json!(uid));
    let labels = part(new, &["spec", "template", "metadata", "labels"]);
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        put(labels, key, json!(value));
    }
}

fn service(new: &mut Value) {
    let spec = part(new, &["spec"]);
    put(spec, "type", json!("ClusterIP"));
    put(spec, "sessionAffinity", json!("None"));
    if spec["type"] != "ExternalName" {
        put(spec, "internalTrafficPolicy", json!("Cluster"));
        put(spec, "ipFamilyPolicy", json!("SingleStack"));
        put(spec, "ipFamilies", json!(["IPv4"]));
    }
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        for port in ports {
            let port = object::map(port);
            put(port, "protocol", json!("TCP"));
            let number = port.get("port").cloned().unwrap_or(Value::Null);
            put(port, "targetPort", number);
        }
    }
}

/// `stringData` is write-only: it is merged into `data`.
fn secret(new: &mut Value) {
    use base64::Engine as _;
    if let Some(Value::Object(texts)) = object::map(new).remove("stringData") {
        let data = part(new, &["data"]);
        for (key, text) in texts {
            let text = text.as_str().unwrap_or_default();
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            data.insert(key, json!(encoded));
        }
    }
    put(object::map(new), "type", json!("Opaque"));
}

fn definition(new: &mut Value) {
    let kind = object::text(new, &["spec", "names", "kind"]).to_owned();
    let names = part(new, &["spec", "names"]);
    put(names, "singular", json!(kind.to_lowercase()));
    put(names, "listKind", json!(format!("{kind}List")));
    put(part(new, &["spec", "conversion"]), "strategy", json!("None"));
}

/// The status of a definition that no controller has handled yet.
fn new_definition(new: &mut Value) {
    let stored: Vec<Value> = object::list(new, &["spec", "versions"])
        .iter()
        .filter(|version| object::flag(version, &["storage"]))
        .map(|version| version["name"].clone())
        .collect();
    let status = part(new, &["status"]);
    put(status, "acceptedNames", json!({"kind": "", "plural": ""}));
    status.entry("conditions").or_insert(Value::Null);
    put(status, "storedVersions", json!(stored));
}

/// Counters that a status always contains.
fn status(kind: &ResourceType, new: &mut Value) {
    let numbers: &[&str] = match kind.name.plural.as_ref() {
        "daemonsets" => &[
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "numberMisscheduled",
            "numberReady",
        ],
        "poddisruptionbudgets" => {
            &["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"]
        }
        "replicasets" => &["replicas"],
        "statefulsets" => &["replicas", "availableReplicas"],
        "deployments" | "jobs" | "nodes" => &[],
        _ => return,
    };
    let status = part(new, &["status"]);
    for field in numbers {
        put(status, field, json!(0));
    }
}
