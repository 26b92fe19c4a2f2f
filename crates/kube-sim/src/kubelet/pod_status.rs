//! The status that a kubelet reports for a pod.

use serde_json::{Map, Value, json};

use super::NodeFacts;
use crate::controllers::conditions;
use crate::object;
use crate::time::Time;

/// The progress of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its containers wait, with the reason.
    Waiting { reason: &'static str, message: String },
    /// Its containers run but are not ready.
    Running,
    /// It is ready.
    Ready,
    /// It has completed.
    Succeeded,
}

/// The status of a pod.
pub(super) fn of(
    pod: &Value,
    facts: &NodeFacts,
    address: &str,
    now: Time,
    restarts: u32,
    progress: &Progress,
) -> Value {
    let phase = match progress {
        Progress::Waiting { .. } => "Pending",
        Progress::Running | Progress::Ready => "Running",
        Progress::Succeeded => "Succeeded",
    };
    let started = match object::text(pod, &["status", "startTime"]) {
        "" => now.to_text(),
        known => known.to_owned(),
    };
    let mut status = json!({
        "phase": phase,
        "conditions": pod_conditions(pod, now, progress),
        "hostIP": facts.address(),
        "hostIPs": [{"ip": facts.address()}],
        "startTime": started,
        "qosClass": qos(pod),
        "containerStatuses": containers(pod, now, restarts, progress),
    });
    if !address.is_empty() && !matches!(progress, Progress::Waiting { .. }) {
        object::set(&mut status, &["podIP"], address);
        object::set(&mut status, &["podIPs"], json!([{"ip": address}]));
    }
    status
}

fn pod_conditions(pod: &Value, now: Time, progress: &Progress) -> Vec<Value> {
    let mut list = object::list(pod, &["status", "conditions"]).to_vec();
    let ready = *progress == Progress::Ready;
    let (answer, reason) = match progress {
        Progress::Ready => ("True", ""),
        Progress::Succeeded => ("False", "PodCompleted"),
        _ => ("False", "ContainersNotReady"),
    };
    let names: Vec<&str> =
        list_of(pod).iter().map(|container| object::text(container, &["name"])).collect();
    let message = if ready || *progress == Progress::Succeeded {
        String::new()
    } else {
        format!("containers with unready status: [{}]", names.join(" "))
    };
    let sandbox =
        if matches!(progress, Progress::Running | Progress::Ready) { "True" } else { "False" };
    let done = if *progress == Progress::Succeeded { "PodCompleted" } else { "" };
    conditions::put(&mut list, "PodReadyToStartContainers", sandbox, "", "", now);
    conditions::put(&mut list, "Initialized", "True", done, "", now);
    conditions::put(&mut list, "Ready", answer, reason, &message, now);
    conditions::put(&mut list, "ContainersReady", answer, reason, &message, now);
    conditions::put(&mut list, "PodScheduled", "True", "", "", now);
    list
}

fn list_of(pod: &Value) -> &[Value] {
    object::list(pod, &["spec", "containers"])
}

fn containers(pod: &Value, now: Time, restarts: u32, progress: &Progress) -> Vec<Value> {
    list_of(pod)
        .iter()
        .map(|container| {
            let name = object::text(container, &["name"]);
            let image = object::text(container, &["image"]);
            let known = object::list(pod, &["status", "containerStatuses"])
                .iter()
                .find(|known| object::text(known, &["name"]) == name);
            // A container that keeps running keeps its start time.
            let since = known
                .filter(|known| object::number(known, &["restartCount"]) == Some(restarts.into()))
                .map(|known| object::text(known, &["state", "running", "startedAt"]))
                .filter(|since| !since.is_empty())
                .map_or_else(|| now.to_text(), str::to_owned);
            let runs = matches!(progress, Progress::Running | Progress::Ready);
            let state = match progress {
                Progress::Waiting { reason, message } => {
                    let mut waiting = Map::new();
                    waiting.insert("reason".to_owned(), json!(reason));
                    if !message.is_empty() {
                        waiting.insert("message".to_owned(), json!(message));
                    }
                    json!({"waiting": waiting})
                }
                Progress::Running | Progress::Ready => json!({"running": {"startedAt": since}}),
                Progress::Succeeded => json!({"terminated": {
                    "exitCode": 0, "reason": "Completed",
                    "startedAt": since, "finishedAt": now.to_text(),
                }}),
            };
            let mut status = json!({
                "name": name,
                "image": image,
                "imageID": if matches!(progress, Progress::Waiting { .. }) { "" } else { image },
                "lastState": {},
                "ready": *progress == Progress::Ready,
                "restartCount": restarts,
                "started": runs,
                "state": state,
            });
            if !matches!(progress, Progress::Waiting { .. }) {
                let id = format!("containerd://{}-{name}-{restarts}", object::uid(pod));
                object::set(&mut status, &["containerID"], id);
            }
            status
        })
        .collect()
}

fn qos(pod: &Value) -> &'static str {
    let mut guaranteed = true;
    let mut any = false;
    for container in list_of(pod) {
        let requests = object::at(container, &["resources", "requests"]);
        let limits = object::at(container, &["resources", "limits"]);
        any |= !object::is_blank(requests) || !object::is_blank(limits);
        guaranteed &= !object::is_blank(limits)
            && ["cpu", "memory"].iter().all(|resource| {
                let limit = limits.and_then(|limits| limits.get(resource));
                let request = requests.and_then(|requests| requests.get(resource));
                limit.is_some() && (request.is_none() || request == limit)
            });
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
