//! Static pods, and the mirror pods that represent them in the API.

use serde_json::{Value, json};

use super::node::Kubelet;
use super::pod_status::{self, Progress};
use super::{Api, Kubelets, StaticPod};
use crate::names::PODS;
use crate::object;
use crate::status::Status;
use crate::time::Time;

const NAMESPACE: &str = "kube-system";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a pod is a mirror pod.
pub(super) fn is_mirror(pod: &Value) -> bool {
    object::annotation(pod, MIRROR).is_some()
}

impl Kubelets {
    /// Brings the mirror pods of a node in line with its static pods.
    pub(super) fn mirror(&mut self, now: Time, api: &mut dyn Api, name: &str) {
        let Some(kubelet) = self.nodes.get(name) else { return };
        let mut failed = false;
        for wanted in &kubelet.facts.static_pods {
            failed |= put_mirror(now, api, kubelet, wanted).is_err();
        }
        failed |= remove_others(api, kubelet).is_err();
        if failed {
            self.again(now, name);
        }
    }

    /// A deleted mirror pod is created again by the kubelet.
    pub(super) fn observe_mirror(&mut self, pod: &Value, gone: bool) {
        let node = object::text(pod, &["spec", "nodeName"]);
        let Some(kubelet) = self.nodes.get(node) else { return };
        let component = object::label(pod, "component").unwrap_or_default();
        let wanted = kubelet.facts.static_pods.iter().find(|known| known.component == component);
        let replaced =
            wanted.is_some_and(|known| object::annotation(pod, MIRROR) != Some(&known.config_hash));
        if wanted.is_some() && !replaced && (gone || object::is_deleting(pod)) {
            self.changed.insert(node.to_owned());
        }
    }
}

fn mirror_name(component: &str, node: &str) -> String {
    format!("{component}-{node}")
}

fn put_mirror(
    now: Time,
    api: &mut dyn Api,
    kubelet: &Kubelet,
    wanted: &StaticPod,
) -> Result<(), Status> {
    let name = mirror_name(&wanted.component, &kubelet.facts.name);
    let mut pod = api.get(&PODS, NAMESPACE, &name)?;
    if let Some(found) = &pod
        && (object::annotation(found, MIRROR) != Some(&wanted.config_hash)
            || object::is_deleting(found))
    {
        api.delete(&PODS, NAMESPACE, &name, object::uid(found))?;
        pod = None;
    }
    let pod = match pod {
        Some(pod) => pod,
        None => api.create(&PODS, definition(now, kubelet, wanted))?,
    };
    let progress = if wanted.ready { Progress::Ready } else { Progress::Running };
    let status = pod_status::of(&pod, &kubelet.facts, kubelet.facts.address(), now, 0, &progress);
    if object::at(&pod, &["status"]) != Some(&status) {
        let patch = json!({"status": status});
        api.patch(&PODS, NAMESPACE, &name, "status", &patch)?;
    }
    Ok(())
}

/// Removes mirror pods without a static pod.
fn remove_others(api: &mut dyn Api, kubelet: &Kubelet) -> Result<(), Status> {
    if !kubelet.facts.control_plane {
        return Ok(());
    }
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        if kubelet.facts.static_pods.iter().any(|known| known.component == component) {
            continue;
        }
        let name = mirror_name(component, &kubelet.facts.name);
        if let Some(found) = api.get(&PODS, NAMESPACE, &name)?.filter(|pod| is_mirror(pod)) {
            api.delete(&PODS, NAMESPACE, &name, object::uid(&found))?;
        }
    }
    Ok(())
}

fn definition(now: Time, kubelet: &Kubelet, wanted: &StaticPod) -> Value {
    let StaticPod { component, image, config_version, config_file_version, config_hash, .. } =
        wanted;
    let node = &kubelet.facts.name;
    let mut annotations = json!({
        "kubernetes.io/config.hash": config_hash,
        "kubernetes.io/config.mirror": config_hash,
        "kubernetes.io/config.seen": now.to_micro_text(),
        "kubernetes.io/config.source": "http",
        "talos.dev/config-version": config_version.to_string(),
        "talos.dev/secrets-version": "1",
    });
    if let Some(files) = config_file_version {
        object::set(&mut annotations, &["talos.dev/config-file-version"], files.as_str());
    }
    let tag = image.split('@').next().and_then(|name| name.rsplit_once(':'));
    let release = tag.map_or("", |(_, tag)| tag.trim_start_matches('v'));
    json!({
        "metadata": {
            "name": mirror_name(component, node),
            "namespace": NAMESPACE,
            "labels": {
                "component": component,
                "k8s-app": component,
                "tier": "control-plane",
                "app.kubernetes.io/name": component,
                "app.kubernetes.io/version": release,
                "app.kubernetes.io/component": "control-plane",
                "app.kubernetes.io/managed-by": "Talos",
            },
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": node, "uid": kubelet.uid,
                "controller": true,
            }],
        },
        "spec": {
            "containers": [{
                "name": component,
                "image": image,
                "command": [format!("/usr/local/bin/{component}")],
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
            }],
            "hostNetwork": true,
            "nodeName": node,
            "priority": 2_000_000_000,
            "priorityClassName": "system-cluster-critical",
            "restartPolicy": "Always",
            "tolerations": [{"effect": "NoExecute", "operator": "Exists"}],
        },
    })
}
