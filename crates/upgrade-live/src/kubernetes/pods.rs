//! A pod and a node, as far as moving pods away needs to know.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use upgrade_core::jiff;
use upgrade_core::snapshot::NodeName;
use upgrade_core::workload::{Capacity, Container, Pod, PodName, Resources};

use super::quantity;

/// The annotation that the kubelet puts on the mirror of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Its hash of the static pod's configuration.
const HASH: &str = "kubernetes.io/config.hash";

type Quantities = BTreeMap<String, Quantity>;

/// What we need of a pod; `None` if it has no name, which no pod lacks.
pub(super) fn pod(pod: api::Pod) -> Option<Pod> {
    let api::Pod { metadata, spec, status } = pod;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let annotations = metadata.annotations.unwrap_or_default();
    let controller = metadata.owner_references.unwrap_or_default().into_iter();
    let controller = controller
        .filter(|owner| owner.controller == Some(true))
        .map(|owner| (owner.kind, owner.name))
        .next();
    let ready = status.conditions.unwrap_or_default().into_iter();
    let ready = ready.filter(|it| it.type_ == "Ready").any(|it| it.status == "True");
    let requests = requests(&spec);
    let volumes = spec.volumes.unwrap_or_default();
    let statuses = status.container_statuses.unwrap_or_default();
    let containers = spec.containers.into_iter().map(|container| {
        let status = statuses.iter().find(|status| status.name == container.name);
        let state = status.and_then(|status| status.state.as_ref());
        Container {
            ready: status.is_some_and(|status| status.ready),
            waiting: state
                .and_then(|state| state.waiting.as_ref())
                .map(|waiting| waiting.reason.clone().unwrap_or_default()),
            image: container.image.unwrap_or_default(),
            name: container.name,
        }
    });
    Some(Pod {
        name: PodName { namespace: metadata.namespace?, name: metadata.name?.clone() },
        uid: metadata.uid.unwrap_or_default(),
        node: spec.node_name.filter(|name| !name.is_empty()).map(NodeName),
        phase: status.phase.unwrap_or_default(),
        ready,
        deleting_since: metadata.deletion_timestamp.map(|time| timestamp(&time.0)),
        controller,
        mirror: annotations.contains_key(MIRROR),
        empty_dir: volumes.iter().any(|volume| volume.empty_dir.is_some()),
        claims: volumes
            .iter()
            .filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()))
            .collect(),
        labels: metadata.labels.unwrap_or_default(),
        node_selector: spec.node_selector.unwrap_or_default(),
        tolerates: tolerates(spec.tolerations.unwrap_or_default()),
        requests,
        containers: containers.collect(),
        config_hash: annotations.get(HASH).cloned(),
    })
}

/// The same moment; the two libraries agree on the type, not on its path.
fn timestamp(time: &k8s_openapi::jiff::Timestamp) -> Timestamp {
    Timestamp::from_nanosecond(time.as_nanosecond()).unwrap_or_default()
}

/// The keys of tolerated taints. The value and the effect of a toleration are
/// ignored: this is for warnings, and a missing warning is better than a wrong one.
fn tolerates(tolerations: Vec<api::Toleration>) -> Vec<String> {
    let keys = tolerations.into_iter().map(|toleration| {
        toleration.key.filter(|key| !key.is_empty()).unwrap_or_else(|| "*".to_owned())
    });
    keys.collect()
}

/// What the scheduler reserves for it: all containers, or the largest of those
/// that run before them, and what running it costs.
fn requests(spec: &api::PodSpec) -> Resources {
    let of = |container: &api::Container| {
        let resources = container.resources.as_ref();
        resources.and_then(|it| it.requests.as_ref()).map(amounts).unwrap_or_default()
    };
    let mut running = spec.containers.iter().map(of).fold((0, 0), add);
    let mut largest = (0, 0);
    for container in spec.init_containers.iter().flatten() {
        // One that restarts keeps running beside the others.
        if container.restart_policy.as_deref() == Some("Always") {
            running = add(running, of(container));
        } else {
            let (cpu, memory) = of(container);
            largest = (cpu.max(largest.0), memory.max(largest.1));
        }
    }
    let overhead = spec.overhead.as_ref().map(amounts).unwrap_or_default();
    let most = (running.0.max(largest.0), running.1.max(largest.1));
    let (cpu_millis, memory_bytes) = add(most, overhead);
    Resources { cpu_millis, memory_bytes, pods: 1 }
}

fn add(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

fn amounts(quantities: &Quantities) -> (u64, u64) {
    let of = |name: &str, read: fn(&str) -> Option<u64>| {
        quantities.get(name).and_then(|quantity| read(&quantity.0)).unwrap_or_default()
    };
    (of("cpu", quantity::millis), of("memory", quantity::units))
}

/// What a node has for pods.
pub(super) fn capacity(node: api::Node) -> Option<(NodeName, Capacity)> {
    let api::Node { metadata, spec, status } = node;
    let allocatable = status.and_then(|status| status.allocatable).unwrap_or_default();
    let (cpu_millis, memory_bytes) = amounts(&allocatable);
    let pods = allocatable.get("pods").and_then(|pods| quantity::units(&pods.0));
    let taints = spec.unwrap_or_default().taints.unwrap_or_default().into_iter();
    let taints = taints.filter(|taint| taint.effect != "PreferNoSchedule");
    let capacity = Capacity {
        allocatable: Resources { cpu_millis, memory_bytes, pods: pods.unwrap_or_default() },
        labels: metadata.labels.unwrap_or_default(),
        taints: taints.map(|taint| taint.key).collect(),
    };
    Some((NodeName(metadata.name?), capacity))
}
