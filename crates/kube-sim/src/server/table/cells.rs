//! The cells of tables.

use serde_json::{Value, json};

use super::{age, custom, path, short};
use crate::object::{self, at, list, number, text};
use crate::time::Time;
use crate::types::ResourceType;

const NONE: &str = "<none>";

/// The cells of an object's row.
pub(in crate::server) fn cells(
    kind: &ResourceType,
    version: &str,
    object: &Value,
    now: Time,
) -> Vec<Value> {
    let name = json!(object::name(object));
    if let Some(columns) = custom(kind, version) {
        let own = columns.iter().map(|column| printer_cell(object, column, now));
        return std::iter::once(name).chain(own).collect();
    }
    let born = json!(age(now, text(object, &["metadata", "creationTimestamp"])));
    let count = |path: &[&str]| json!(number(object, path).unwrap_or(0));
    match (kind.name.group.as_ref(), kind.name.plural.as_ref()) {
        ("", "nodes") => node(object, name, born),
        ("", "pods") => pod(object, name, born, now),
        ("", "namespaces") => vec![name, json!(text(object, &["status", "phase"])), born],
        ("", "configmaps") => vec![name, json!(size(object)), born],
        ("", "secrets") => vec![name, json!(text(object, &["type"])), json!(size(object)), born],
        ("", "services") => service(object, name, born),
        ("" | "events.k8s.io", "events") => event(object, name, now),
        ("apps", "deployments") => {
            let ready =
                format!("{}/{}", count(&["status", "readyReplicas"]), count(&["spec", "replicas"]));
            let mut row = vec![
                name,
                json!(ready),
                count(&["status", "updatedReplicas"]),
                count(&["status", "availableReplicas"]),
                born,
            ];
            row.extend(containers(object, true));
            row
        }
        ("apps", "daemonsets") => {
            let mut row = vec![
                name,
                count(&["status", "desiredNumberScheduled"]),
                count(&["status", "currentNumberScheduled"]),
                count(&["status", "numberReady"]),
                count(&["status", "updatedNumberScheduled"]),
                count(&["status", "numberAvailable"]),
                json!(pairs(at(object, &["spec", "template", "spec", "nodeSelector"]))),
                born,
            ];
            row.extend(containers(object, true));
            row
        }
        ("apps", "replicasets") => {
            let mut row = vec![
                name,
                count(&["spec", "replicas"]),
                count(&["status", "replicas"]),
                count(&["status", "readyReplicas"]),
                born,
            ];
            row.extend(containers(object, true));
            row
        }
        ("apps", "statefulsets") => {
            let ready =
                format!("{}/{}", count(&["status", "readyReplicas"]), count(&["spec", "replicas"]));
            let mut row = vec![name, json!(ready), born];
            row.extend(containers(object, false));
            row
        }
        ("batch", "jobs") => job(object, name, born, now),
        ("policy", "poddisruptionbudgets") => {
            let limit = |field: &str| match at(object, &["spec", field]) {
                None | Some(Value::Null) => json!("N/A"),
                Some(Value::String(text)) => json!(text),
                Some(other) => json!(other.to_string()),
            };
            let allowed = count(&["status", "disruptionsAllowed"]);
            vec![name, limit("minAvailable"), limit("maxUnavailable"), allowed, born]
        }
        ("coordination.k8s.io", "leases") => {
            vec![name, json!(text(object, &["spec", "holderIdentity"])), born]
        }
        ("", "persistentvolumeclaims" | "persistentvolumes") => volume(kind, object, name, born),
        ("storage.k8s.io", "volumeattachments") => vec![
            name,
            json!(text(object, &["spec", "attacher"])),
            json!(text(object, &["spec", "source", "persistentVolumeName"])),
            json!(text(object, &["spec", "nodeName"])),
            json!(object::flag(object, &["status", "attached"]).to_string()),
            born,
        ],
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            vec![name, json!(text(object, &["metadata", "creationTimestamp"]))]
        }
        _ => vec![name, born],
    }
}

fn printer_cell(object: &Value, column: &Value, now: Time) -> Value {
    let found = path::find(object, text(column, &["jsonPath"]));
    let Some(first) = found.first().filter(|value| !value.is_null()) else { return Value::Null };
    match text(column, &["type"]) {
        "date" => first.as_str().map_or(json!("<invalid>"), |since| json!(age(now, since))),
        "string" => {
            let words: Vec<String> = found
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            json!(words.join(","))
        }
        _ => (*first).clone(),
    }
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { NONE } else { text })
}

fn size(object: &Value) -> usize {
    let count = |field: &str| {
        at(object, &[field]).and_then(Value::as_object).map_or(0, serde_json::Map::len)
    };
    count("data") + count("binaryData")
}

/// `a=b,c=d`
fn pairs(map: Option<&Value>) -> String {
    let Some(Value::Object(map)) = map else { return NONE.to_owned() };
    if map.is_empty() {
        return NONE.to_owned();
    }
    let pair =
        |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    map.iter().map(pair).collect::<Vec<_>>().join(",")
}

/// The containers, images and selector of a workload.
fn containers(object: &Value, selector: bool) -> Vec<Value> {
    let all = list(object, &["spec", "template", "spec", "containers"]);
    let joined = |field: &str| {
        all.iter().map(|container| text(container, &[field])).collect::<Vec<_>>().join(",")
    };
    let mut cells = vec![json!(joined("name")), json!(joined("image"))];
    if selector {
        cells.push(json!(pairs(at(object, &["spec", "selector", "matchLabels"]))));
    }
    cells
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|found| text(found, &["type"]) == kind)
}

fn node(object: &Value, name: Value, born: Value) -> Vec<Value> {
    let mut status = match condition(object, "Ready").map(|ready| text(ready, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object::flag(object, &["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = at(object, &["metadata", "labels"]).and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            _ if key == "kubernetes.io/role" => value.as_str(),
            _ => None,
        })
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let addresses = list(object, &["status", "addresses"]);
        let found = addresses.iter().find(|address| text(address, &["type"]) == kind);
        or_none(found.map_or("", |address| text(address, &["address"])))
    };
    let info = |field: &str| {
        let found = text(object, &["status", "nodeInfo", field]);
        json!(if found.is_empty() { "<unknown>" } else { found })
    };
    vec![
        name,
        json!(status),
        or_none(&roles.join(",")),
        born,
        json!(text(object, &["status", "nodeInfo", "kubeletVersion"])),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn pod(object: &Value, name: Value, born: Value, now: Time) -> Vec<Value> {
    let statuses = list(object, &["status", "containerStatuses"]);
    let total = list(object, &["spec", "containers"]).len();
    let ready = statuses.iter().filter(|status| object::flag(status, &["ready"])).count();
    let restarts: i64 =
        statuses.iter().filter_map(|status| number(status, &["restartCount"])).sum();
    let last = statuses
        .iter()
        .map(|status| text(status, &["lastState", "terminated", "finishedAt"]))
        .filter(|time| !time.is_empty())
        .max();
    let restarts = match last {
        Some(last) if restarts > 0 => format!("{restarts} ({} ago)", age(now, last)),
        _ => restarts.to_string(),
    };
    vec![
        name,
        json!(format!("{ready}/{total}")),
        json!(pod_status(object, statuses)),
        json!(restarts),
        born,
        or_none(text(object, &["status", "podIP"])),
        or_none(text(object, &["spec", "nodeName"])),
        or_none(text(object, &["status", "nominatedNodeName"])),
        json!(NONE),
    ]
}

fn pod_status(object: &Value, statuses: &[Value]) -> String {
    let reason = text(object, &["status", "reason"]);
    let mut words =
        if reason.is_empty() { text(object, &["status", "phase"]) } else { reason }.to_owned();
    for status in statuses.iter().rev() {
        let waiting = text(status, &["state", "waiting", "reason"]);
        let ended = text(status, &["state", "terminated", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut words);
        } else if !ended.is_empty() {
            ended.clone_into(&mut words);
        } else if at(status, &["state", "terminated"]).is_some() {
            let code = number(status, &["state", "terminated", "exitCode"]).unwrap_or(0);
            words = format!("ExitCode:{code}");
        }
    }
    if object::is_deleting(object) {
        let lost = reason == "NodeLost";
        if lost {
            "Unknown".clone_into(&mut words);
        } else if !["Succeeded", "Failed"].contains(&text(object, &["status", "phase"])) {
            "Terminating".clone_into(&mut words);
        }
    }
    words
}

fn service(object: &Value, name: Value, born: Value) -> Vec<Value> {
    let ports: Vec<String> = list(object, &["spec", "ports"])
        .iter()
        .map(|port| {
            let outer =
                number(port, &["nodePort"]).map_or(String::new(), |port| format!(":{port}"));
            let number = number(port, &["port"]).unwrap_or(0);
            format!("{number}{outer}/{}", text(port, &["protocol"]))
        })
        .collect();
    vec![
        name,
        json!(text(object, &["spec", "type"])),
        or_none(text(object, &["spec", "clusterIP"])),
        json!(NONE),
        or_none(&ports.join(",")),
        born,
        json!(pairs(at(object, &["spec", "selector"]))),
    ]
}

fn event(object: &Value, name: Value, now: Time) -> Vec<Value> {
    let first_of = |fields: &[&[&str]]| {
        let found = fields.iter().map(|path| text(object, path)).find(|text| !text.is_empty());
        found.unwrap_or_default().to_owned()
    };
    let last = first_of(&[
        &["series", "lastObservedTime"],
        &["lastTimestamp"],
        &["firstTimestamp"],
        &["eventTime"],
    ]);
    let first = first_of(&[&["firstTimestamp"], &["eventTime"]]);
    let about = ["involvedObject"];
    let part = |field: &str| text(object, &[about[0], field]);
    let count = number(object, &["series", "count"]).or(number(object, &["count"])).unwrap_or(1);
    let source = [text(object, &["source", "component"]), text(object, &["reportingComponent"])];
    let source = source.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    vec![
        json!(age(now, &last)),
        json!(text(object, &["type"])),
        json!(text(object, &["reason"])),
        json!(format!("{}/{}", part("kind").to_lowercase(), part("name"))),
        json!(part("fieldPath")),
        json!(source),
        json!(text(object, &["message"]).trim()),
        json!(age(now, &first)),
        json!(count),
        name,
    ]
}

fn job(object: &Value, name: Value, born: Value, now: Time) -> Vec<Value> {
    let is = |kind: &str| {
        condition(object, kind).is_some_and(|found| text(found, &["status"]) == "True")
    };
    let status = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"]
        .into_iter()
        .find(|kind| is(kind))
        .unwrap_or(if object::is_deleting(object) { "Terminating" } else { "Running" });
    let done = number(object, &["status", "succeeded"]).unwrap_or(0);
    let wanted = number(object, &["spec", "completions"]).unwrap_or(1);
    let start = Time::from_text(text(object, &["status", "startTime"]));
    let end = Time::from_text(text(object, &["status", "completionTime"]));
    let duration =
        start.map_or(String::new(), |start| short(end.unwrap_or(now).since(start).as_secs()));
    let mut row =
        vec![name, json!(status), json!(format!("{done}/{wanted}")), json!(duration), born];
    row.extend(containers(object, true));
    row
}

fn volume(kind: &ResourceType, object: &Value, name: Value, born: Value) -> Vec<Value> {
    let modes: Vec<&str> = list(object, &["spec", "accessModes"])
        .iter()
        .filter_map(Value::as_str)
        .map(|mode| match mode {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    let modes = json!(modes.join(","));
    let phase = json!(text(object, &["status", "phase"]));
    let class = json!(text(object, &["spec", "storageClassName"]));
    if kind.name.plural == "persistentvolumeclaims" {
        let volume = json!(text(object, &["spec", "volumeName"]));
        let capacity = json!(text(object, &["status", "capacity", "storage"]));
        vec![name, phase, volume, capacity, modes, class, born]
    } else {
        let claim = match at(object, &["spec", "claimRef"]) {
            Some(claim) => format!("{}/{}", text(claim, &["namespace"]), text(claim, &["name"])),
            None => String::new(),
        };
        let capacity = json!(text(object, &["spec", "capacity", "storage"]));
        let policy = json!(text(object, &["spec", "persistentVolumeReclaimPolicy"]));
        vec![name, capacity, modes, policy, phase, json!(claim), class, born]
    }
}
