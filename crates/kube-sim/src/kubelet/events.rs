//! The events of kubelets about their nodes and pods.

use serde_json::Value;

use super::Api;
use super::node::Kubelet;
use super::pod_status::Progress;
use crate::events::{Source, about_container, about_node, tell};
use crate::object;
use crate::time::Time;

fn source(host: &str) -> Source<'_> {
    Source { component: "kubelet", host }
}

/// A kubelet has started, perhaps with its machine.
pub(super) fn started(now: Time, api: &mut dyn Api, kubelet: &Kubelet, rebooted: bool) {
    let name = &kubelet.facts.name;
    let (source, about) = (source(name), about_node(name));
    tell(api, now, source, &about, false, "Starting", "Starting kubelet.");
    if rebooted {
        let message = format!("Node {name} has been rebooted, boot id: {}", kubelet.facts.boot_id);
        tell(api, now, source, &about, true, "Rebooted", &message);
    }
}

/// A node has become ready or not ready.
pub(super) fn readiness_changed(now: Time, api: &mut dyn Api, name: &str, ready: bool) {
    let reason = if ready { "NodeReady" } else { "NodeNotReady" };
    let message = format!("Node {name} status is now: {reason}");
    tell(api, now, source(name), &about_node(name), false, reason, &message);
}

/// A pod has progressed or failed to.
pub(super) fn progressed(now: Time, api: &mut dyn Api, pod: &Value, progress: &Progress) {
    let source = source(object::text(pod, &["spec", "nodeName"]));
    for container in object::list(pod, &["spec", "containers"]) {
        let (name, image) =
            (object::text(container, &["name"]), object::text(container, &["image"]));
        let about = about_container(pod, name);
        match progress {
            Progress::Waiting { reason: "ErrImagePull", message } => {
                let failed = format!("Failed to pull image {image:?}: {message}");
                tell(api, now, source, &about, true, "Failed", &failed);
                tell(api, now, source, &about, true, "Failed", "Error: ErrImagePull");
            }
            Progress::Waiting { reason: "ImagePullBackOff", message } => {
                tell(api, now, source, &about, false, "BackOff", message);
            }
            Progress::Running => {
                let message = format!("Started container {name}");
                tell(api, now, source, &about, false, "Started", &message);
            }
            _ => {}
        }
    }
}

/// A pod is being stopped.
pub(super) fn stopping(now: Time, api: &mut dyn Api, pod: &Value) {
    let source = source(object::text(pod, &["spec", "nodeName"]));
    for container in object::list(pod, &["spec", "containers"]) {
        let name = object::text(container, &["name"]);
        let message = format!("Stopping container {name}");
        tell(api, now, source, &about_container(pod, name), false, "Killing", &message);
    }
}
