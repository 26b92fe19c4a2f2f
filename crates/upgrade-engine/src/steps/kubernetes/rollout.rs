//! Whether a `DaemonSet` or a `Deployment` has rolled out, and why not.

use serde_json::Value;
use upgrade_core::selector::LabelSelector;
use upgrade_core::workload::Pod;

use super::static_pod::is_about_the_image;

/// Why a workload has not rolled out yet; `None` if it has, or if its owner rolls it out by hand.
pub(super) fn missing(object: &Value) -> Option<String> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    if object.pointer("/spec/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete") {
        return None;
    }
    let (wanted, updated, available) = match object["kind"].as_str() {
        Some("DaemonSet") => (
            number("/status/desiredNumberScheduled"),
            number("/status/updatedNumberScheduled"),
            number("/status/numberAvailable"),
        ),
        Some("Deployment") => {
            let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
            // Pods of the old version count until they are gone.
            let old = number("/status/replicas") - number("/status/updatedReplicas");
            let available = number("/status/availableReplicas") - old.max(0);
            (wanted, number("/status/updatedReplicas"), available)
        }
        _ => return None,
    };
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Some("its controller has not observed it yet".to_owned());
    }
    if updated < wanted {
        return Some(format!("{updated} of {wanted} updated"));
    }
    if available < wanted {
        return Some(format!("{} of {wanted} available", available.max(0)));
    }
    None
}

/// A pod of the workload that waits, and why: the first reason that a person can act on.
pub(super) fn stuck(object: &Value, pods: &[Pod]) -> Option<(String, bool)> {
    let namespace = object.pointer("/metadata/namespace")?.as_str()?;
    let selector = LabelSelector(object.pointer("/spec/selector")?.clone());
    let of = |pod: &&Pod| pod.name.namespace == namespace && selector.matches(&pod.labels);
    pods.iter().filter(of).find_map(|pod| {
        let (container, why) = pod
            .containers
            .iter()
            .filter_map(|container| Some((container, container.waiting.as_deref()?)))
            .find(|(_, why)| *why != "ContainerCreating" && *why != "PodInitializing")?;
        let node = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let text = format!("pod {}{node} waits: {why} ({})", pod.name.name, container.image);
        Some((text, is_about_the_image(why)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn daemon_set(observed: i64, updated: i64, available: i64) -> Value {
        json!({"kind": "DaemonSet", "metadata": {"generation": 3},
            "status": {"observedGeneration": observed, "desiredNumberScheduled": 2,
                "updatedNumberScheduled": updated, "numberAvailable": available}})
    }

    fn deployment(replicas: i64, updated: i64, available: i64) -> Value {
        json!({"kind": "Deployment", "metadata": {"generation": 1}, "spec": {"replicas": 2},
            "status": {"observedGeneration": 1, "replicas": replicas,
                "updatedReplicas": updated, "availableReplicas": available}})
    }

    #[test]
    fn every_stage_of_a_rollout_is_reported() {
        let said = |object: &Value| missing(object).unwrap_or_default();
        assert_eq!(said(&daemon_set(2, 2, 2)), "its controller has not observed it yet");
        assert_eq!(said(&daemon_set(3, 1, 2)), "1 of 2 updated");
        assert_eq!(said(&daemon_set(3, 2, 1)), "1 of 2 available");
        assert_eq!(missing(&daemon_set(3, 2, 2)), None);
        assert_eq!(said(&deployment(3, 1, 3)), "1 of 2 updated");
        assert_eq!(said(&deployment(3, 2, 2)), "1 of 2 available");
        assert_eq!(missing(&deployment(2, 2, 2)), None);
        let mut by_hand = daemon_set(3, 0, 2);
        by_hand["spec"] = json!({"updateStrategy": {"type": "OnDelete"}});
        assert_eq!(missing(&by_hand), None);
        assert_eq!(missing(&json!({"kind": "ConfigMap"})), None);
    }

    /// A pod of `kube-system` whose image cannot be pulled.
    fn pulling(labels: &[(&str, &str)]) -> Pod {
        let waiting = json!({"name": "a", "image": "registry/a:1", "ready": false,
            "waiting": "ImagePullBackOff"});
        serde_json::from_value(json!({
            "name": {"namespace": "kube-system", "name": "dns-1"}, "uid": "1", "node": "worker-1",
            "phase": "Pending", "ready": false, "deleting_since": null, "controller": null,
            "mirror": false, "empty_dir": false, "claims": [],
            "labels": labels.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
            "node_selector": {}, "tolerates": [],
            "requests": {"cpu_millis": 0, "memory_bytes": 0, "pods": 1},
            "containers": [waiting], "config_hash": null,
        }))
        .expect("a pod")
    }

    #[test]
    fn a_workload_with_expressions_shows_its_stuck_pod() {
        let object = json!({"kind": "Deployment", "metadata": {"namespace": "kube-system"},
            "spec": {"selector": {"matchExpressions": [
                {"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]}}});
        let (text, image) = stuck(&object, &[pulling(&[("k8s-app", "kube-dns")])]).expect("stuck");
        assert!(text.starts_with("pod dns-1 on worker-1 waits: ImagePullBackOff"), "{text}");
        assert!(image);
        assert_eq!(stuck(&object, &[pulling(&[("k8s-app", "other")])]), None);
    }
}
