//! Objects as a hub has them, for tests.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spec_api::reference::ObjectReference;
use spec_api::{RECONCILE_MODE, TalosControlPlane, TalosMachine, TalosWorker};
use upgrade_core::product::VersionRange;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_core::version::Version;

use crate::nodes::NodeIdentity;
use crate::path::{Observed, ObservedNode};
use crate::unit::{Resolution, Unit, UnitObjects, build};

/// The objects of a hub. Each of the kinds is read by its own type, so that what a test writes
/// is what a user could write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub {
    pub(crate) control_planes: Vec<TalosControlPlane>,
    pub(crate) workers: Vec<TalosWorker>,
    pub(crate) machines: Vec<TalosMachine>,
}

/// Metadata with a name, a namespace and a UID that follows from both.
pub(crate) fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "team", "uid": format!("uid-{name}"), "generation": 1})
}

/// A control plane with these machines.
pub(crate) fn control_plane(name: &str, spec: Value) -> TalosControlPlane {
    let spec = with_mode(spec);
    serde_json::from_value(json!({"metadata": meta(name), "spec": spec})).expect("readable")
}

/// A pool of the control plane `prod`.
pub(crate) fn worker(name: &str, spec: Value) -> TalosWorker {
    let mut spec = with_mode(spec);
    spec["controlPlaneRef"] = json!({"name": "prod"});
    serde_json::from_value(json!({"metadata": meta(name), "spec": spec})).expect("readable")
}

/// A machine that a parent made.
pub(crate) fn owned(parent: &str, kind: &str, address: &str) -> TalosMachine {
    let mut meta = meta(&format!("{parent}-{address}"));
    meta["ownerReferences"] = json!([{"apiVersion": "talos.alperen.cloud/v1alpha1", "kind": kind,
        "name": parent, "uid": format!("uid-{parent}"), "controller": true}]);
    let spec = json!({"endpoint": address, "version": "v1.12.0"});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("readable")
}

/// A machine that nothing owns.
pub(crate) fn single(name: &str, spec: Value) -> TalosMachine {
    let mut object = json!({"metadata": meta(name)});
    object["spec"] = spec;
    serde_json::from_value(object).expect("readable")
}

fn with_mode(mut spec: Value) -> Value {
    if spec.get("mode").is_none() {
        spec["mode"] = json!("metal");
    }
    spec
}

/// Machines by their addresses.
pub(crate) fn machines(addresses: &[&str]) -> Value {
    let machines: Vec<Value> = addresses.iter().map(|it| json!({"address": it})).collect();
    json!({"machines": machines})
}

/// A node with these addresses.
pub(crate) fn node(role: Role, addresses: &[&str]) -> NodeIdentity {
    let addresses = addresses.iter().map(|it| it.parse().expect("an address")).collect();
    NodeIdentity { role, addresses }
}

/// The nodes of [`Hub::usual`].
pub(crate) fn nodes() -> BTreeMap<NodeName, NodeIdentity> {
    [
        ("cp-1", Role::ControlPlane, "10.0.0.1"),
        ("cp-2", Role::ControlPlane, "10.0.0.2"),
        ("cp-3", Role::ControlPlane, "10.0.0.3"),
        ("blue-1", Role::Worker, "10.0.0.11"),
        ("blue-2", Role::Worker, "10.0.0.12"),
    ]
    .map(|(name, role, address)| (name.into(), node(role, &[address])))
    .into()
}

/// The cluster of [`Hub::usual`] with one version of each product.
pub(crate) fn observed(talos: &str, kubernetes: &str) -> Observed {
    let [talos, kubernetes] =
        [talos, kubernetes].map(|text| text.parse::<Version>().expect("a version"));
    let nodes = nodes().into_iter().map(|(name, identity)| {
        (name, ObservedNode { identity, talos: talos.clone(), schematic: None })
    });
    let kubernetes = VersionRange { lowest: kubernetes.clone(), newest: kubernetes };
    Observed { nodes: nodes.collect(), kubernetes }
}

impl Hub {
    /// Three control planes and two workers, all of them to run Talos 1.13.9, on Kubernetes
    /// 1.35.0.
    pub(crate) fn usual() -> Self {
        let control_plane = control_plane(
            "prod",
            json!({"version": "v1.13.9", "kubeVersion": "v1.35.0",
                "metalSpec": machines(&["10.0.0.1", "10.0.0.2", "10.0.0.3"])}),
        );
        let worker = worker(
            "blue",
            json!({"version": "v1.13.9", "metalSpec": machines(&["10.0.0.11", "10.0.0.12"])}),
        );
        Self { control_planes: vec![control_plane], workers: vec![worker], machines: Vec::new() }
    }

    /// The objects of the first control plane.
    pub(crate) fn objects(&self) -> UnitObjects<'_> {
        self.objects_of(0)
    }

    pub(crate) fn objects_of(&self, index: usize) -> UnitObjects<'_> {
        UnitObjects::of(&self.control_planes[index], &self.workers, &self.machines)
    }

    /// The user holds a pool.
    pub(crate) fn hold_worker(&mut self, index: usize) {
        let annotations = self.workers[index].metadata.annotations.get_or_insert_default();
        annotations.insert(RECONCILE_MODE.to_owned(), "disable".to_owned());
    }

    /// The unit of the first control plane. References lead nowhere.
    pub(crate) fn unit(&self) -> Unit {
        let resolve = |_: &ObjectReference| Resolution::Missing("it does not exist".to_owned());
        build(&self.objects(), &resolve)
    }
}
