//! The Kubernetes components of a node.

use prost_types::{Struct, Value, value};
use talos_proto::resource::k8s;

use super::view;
use crate::Hidden;

/// The node's name in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodename {
    /// The name.
    pub name: String,
    /// Whether the kubelet registers a Node.
    pub registered: bool,
}

view!(Nodename of k8s::NodenameSpec as NODENAME at "nodename", |spec| {
    Ok(Nodename {
        name: spec.nodename,
        registered: !spec.skip_node_registration,
    })
});

/// The Node object of this machine. The ID is its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// The Ready condition.
    pub ready: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
}

view!(NodeStatus of k8s::NodeStatusSpec as NODE_STATUS, |spec| {
    Ok(NodeStatus {
        name: spec.nodename,
        ready: spec.node_ready,
        unschedulable: spec.unschedulable,
    })
});

/// The kubelet's specification. Needs `os:admin` on the newest versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletSpec {
    /// Its image.
    pub image: String,
}

view!(KubeletSpec of k8s::KubeletSpecSpec as KUBELET_SPEC at "kubelet", |spec| {
    Ok(KubeletSpec { image: spec.image })
});

/// The configuration of kube-apiserver. Needs `os:admin` on the newest versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServerConfig {
    /// Its image.
    pub image: String,
    /// The port that it listens on, if it is set.
    pub local_port: Option<u16>,
}

view!(ApiServerConfig of k8s::ApiServerConfigSpec as API_SERVER_CONFIG at "kube-apiserver",
    |spec| {
    let local_port = u16::try_from(spec.local_port).ok().filter(|port| *port > 0);
    Ok(ApiServerConfig { image: spec.image, local_port })
});

/// The configuration of kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerManagerConfig {
    /// Whether it runs here.
    pub enabled: bool,
    /// Its image.
    pub image: String,
}

view!(ControllerManagerConfig of k8s::ControllerManagerConfigSpec as CONTROLLER_MANAGER_CONFIG
    at "kube-controller-manager", |spec| {
    Ok(ControllerManagerConfig {
        enabled: spec.enabled,
        image: spec.image,
    })
});

/// The configuration of kube-scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Whether it runs here.
    pub enabled: bool,
    /// Its image.
    pub image: String,
}

view!(SchedulerConfig of k8s::SchedulerConfigSpec as SCHEDULER_CONFIG at "kube-scheduler", |spec| {
    Ok(SchedulerConfig {
        enabled: spec.enabled,
        image: spec.image,
    })
});

/// A static pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPod {
    /// Its namespace and name, without the node's name.
    pub name: String,
}

view!(StaticPod of k8s::StaticPodSpec as STATIC_POD, |spec| {
    let pod = spec.pod.ok_or("it has no pod")?;
    let metadata = pod.fields.get("metadata").and_then(fields);
    let named = |field| metadata.map(|it| text(it, field)).filter(|it| !it.is_empty());
    let namespace = named("namespace").unwrap_or_else(|| "default".to_owned());
    Ok(StaticPod { name: format!("{namespace}/{}", named("name").unwrap_or_default()) })
});

impl StaticPod {
    /// The ID of its status: the kubelet appends the node's name.
    pub fn status_id(&self, node: &str) -> String {
        format!("{}-{}", self.name, node.to_lowercase())
    }
}

/// The status of a static pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPodStatus {
    /// `Running`, `Pending`, ...
    pub phase: String,
    /// The Ready condition; `None` if it is missing.
    pub ready: Option<bool>,
}

impl StaticPodStatus {
    /// Whether it is ready or has completed, like Talos's own check.
    pub fn is_well(&self) -> bool {
        self.phase == "Succeeded" || self.phase == "Running" && self.ready == Some(true)
    }
}

view!(StaticPodStatus of k8s::StaticPodStatusSpec as STATIC_POD_STATUS, |spec| {
    let status = spec.pod_status.ok_or("it has no status")?;
    let conditions = status.fields.get("conditions").map_or(&[][..], items);
    Ok(StaticPodStatus {
        phase: text(&status, "phase"),
        ready: conditions
            .iter()
            .filter_map(fields)
            .find(|condition| text(condition, "type") == "Ready")
            .map(|condition| text(condition, "status") == "True"),
    })
});

/// A bootstrap manifest: objects for the Kubernetes API. Some are Secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The objects, in order.
    pub objects: Hidden<Vec<Struct>>,
}

view!(Manifest of k8s::ManifestSpec as MANIFEST, |spec| {
    let objects: Option<_> = spec.items.into_iter().map(|item| item.object).collect();
    Ok(Manifest {
        objects: Hidden::new(objects.ok_or("an item has no object")?),
    })
});

/// Which of its own manifests a control plane renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is switched on or off by itself")]
pub struct BootstrapManifests {
    /// kube-proxy.
    pub proxy: bool,
    /// CoreDNS.
    pub core_dns: bool,
    /// flannel.
    pub flannel: bool,
    /// Access to the Talos API from pods.
    pub talos_api: bool,
}

view!(BootstrapManifests of k8s::BootstrapManifestsConfigSpec as BOOTSTRAP_MANIFESTS_CONFIG
    at "manifests", |spec| {
    Ok(BootstrapManifests {
        proxy: spec.proxy_enabled,
        core_dns: spec.core_dns_enabled,
        flannel: spec.flannel_enabled,
        talos_api: spec.talos_api_service_enabled,
    })
});

/// The names of the manifests that a control plane's configuration adds to Talos's own. URLs in it
/// may contain credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraManifests {
    /// `{priority}-{name}`, as the manifests are called.
    pub names: Hidden<Vec<String>>,
}

view!(ExtraManifests of k8s::ExtraManifestsConfigSpec as EXTRA_MANIFESTS_CONFIG
    at "extra-manifests", |spec| {
    let name = |it: k8s::ExtraManifest| format!("{}-{}", it.priority, it.name);
    Ok(ExtraManifests {
        names: Hidden::new(spec.extra_manifests.into_iter().map(name).collect()),
    })
});

fn fields(value: &Value) -> Option<&Struct> {
    match value.kind.as_ref()? {
        value::Kind::StructValue(fields) => Some(fields),
        _ => None,
    }
}

fn items(value: &Value) -> &[Value] {
    match value.kind.as_ref() {
        Some(value::Kind::ListValue(list)) => &list.values,
        _ => &[],
    }
}

fn string(value: &Value) -> Option<&str> {
    match value.kind.as_ref()? {
        value::Kind::StringValue(text) => Some(text),
        _ => None,
    }
}

fn text(fields: &Struct, name: &str) -> String {
    let value = fields.fields.get(name).and_then(string);
    value.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosi::Spec as _;

    fn structure<const N: usize>(fields: [(&str, Value); N]) -> Struct {
        Struct {
            fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    fn list<const N: usize>(values: [Value; N]) -> Value {
        value::Kind::ListValue(prost_types::ListValue { values: values.into() }).into()
    }

    fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
        value::Kind::StructValue(structure(fields)).into()
    }

    #[test]
    fn static_pods() {
        let of = |metadata: Value| {
            let pod = Some(structure([("metadata", metadata)]));
            StaticPod::view(k8s::StaticPodSpec { pod }).unwrap()
        };
        let own = of(object([("namespace", "kube-system".into()), ("name", "etcd".into())]));
        assert_eq!(own.name, "kube-system/etcd");
        assert_eq!(own.status_id("CP-1"), "kube-system/etcd-cp-1");
        assert_eq!(of(object([("name", "mine".into())])).name, "default/mine");
        assert!(StaticPod::view(k8s::StaticPodSpec { pod: None }).is_err());
    }

    #[test]
    fn static_pod_statuses() {
        let status = |status: &str| {
            let ready = object([("type", "Ready".into()), ("status", status.into())]);
            let other = object([("type", "Initialized".into()), ("status", "True".into())]);
            let pod_status =
                structure([("phase", "Running".into()), ("conditions", list([other, ready]))]);
            StaticPodStatus::view(k8s::StaticPodStatusSpec { pod_status: Some(pod_status) })
                .unwrap()
        };
        assert_eq!(status("True").ready, Some(true));
        assert_eq!(status("False").ready, Some(false));
        assert_eq!(status("Unknown").ready, Some(false));
        let none =
            StaticPodStatus::view(k8s::StaticPodStatusSpec { pod_status: Some(Struct::default()) });
        assert_eq!(none.unwrap().ready, None);
    }

    #[test]
    fn possible_secrets_are_never_shown() {
        // Rule 14.
        let manifest = Manifest::view(k8s::ManifestSpec {
            items: vec![k8s::SingleManifest {
                object: Some(structure([("token", "hunter2".into())])),
            }],
        });
        assert!(!format!("{manifest:?}").contains("hunter2"));
    }
}
