//! The endpoints of services.

use serde_json::{Value, json};

use super::{Controllers, manager, pods, select};
use crate::names::{ENDPOINT_SLICES, ENDPOINTS, PODS, ResourceName, SERVICES};
use crate::object;
use crate::store::Store;

impl Controllers {
    #[expect(clippy::unused_self, reason = "as all controllers are called")]
    pub(super) fn service(&mut self, store: &mut Store, namespace: &str, name: &str) {
        // Nothing uses the services of a brief store.
        if store.is_lazy() {
            return;
        }
        let Some(service) = store.get(&SERVICES, namespace, name).cloned() else { return };
        let selector = object::at(&service, &["spec", "selector"]).and_then(Value::as_object);
        let Some(selector) = selector.filter(|selector| !selector.is_empty()) else { return };
        if object::is_deleting(&service) {
            return;
        }
        let (mut slice, mut ready, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for pod in store.list(&PODS, Some(namespace)) {
            let address = object::text(pod, &["status", "podIP"]);
            if address.is_empty() || select::is_over(pod) || !select::simple(selector, pod) {
                continue;
            }
            let target = json!({
                "kind": "Pod", "namespace": namespace,
                "name": object::name(pod), "uid": object::uid(pod),
            });
            let node = object::text(pod, &["spec", "nodeName"]);
            let (serving, ends) = (pods::is_ready(pod), object::is_deleting(pod));
            slice.push(json!({
                "addresses": [address],
                "conditions": {"ready": serving && !ends, "serving": serving, "terminating": ends},
                "nodeName": node,
                "targetRef": target,
            }));
            if !ends {
                let list = if serving { &mut ready } else { &mut waiting };
                list.push(json!({"ip": address, "nodeName": node, "targetRef": target}));
            }
        }
        let ports: Vec<Value> = object::list(&service, &["spec", "ports"])
            .iter()
            .map(|port| {
                let number = object::number(port, &["targetPort"])
                    .or_else(|| object::number(port, &["port"]));
                json!({
                    "name": object::text(port, &["name"]),
                    "port": number,
                    "protocol": port.get("protocol").cloned().unwrap_or(json!("TCP")),
                })
            })
            .collect();
        let owner = json!([pods::controlled_by(&service)]);
        let mut subset = json!({"ports": ports});
        for (field, list) in [("addresses", &ready), ("notReadyAddresses", &waiting)] {
            if !list.is_empty() {
                object::set(&mut subset, &[field], list.clone());
            }
        }
        let subsets =
            if ready.is_empty() && waiting.is_empty() { json!([]) } else { json!([subset]) };
        put(
            store,
            &ENDPOINTS,
            json!({"metadata": {"name": name, "namespace": namespace}, "subsets": subsets}),
            &["subsets"],
        );
        let suffix: String = object::uid(&service).chars().take(5).collect();
        put(
            store,
            &ENDPOINT_SLICES,
            json!({
                "metadata": {
                    "name": format!("{name}-{suffix}"),
                    "namespace": namespace,
                    "labels": {
                        "kubernetes.io/service-name": name,
                        "endpointslice.kubernetes.io/managed-by":
                            "endpointslice-controller.k8s.io",
                    },
                    "ownerReferences": owner,
                },
                "addressType": "IPv4",
                "endpoints": slice,
                "ports": ports,
            }),
            &["endpoints", "ports"],
        );
    }
}

/// Creates an object, or updates these fields of it.
fn put(store: &mut Store, resource: &ResourceName, object: Value, fields: &[&str]) {
    let (namespace, name) =
        (object::namespace(&object).to_owned(), object::name(&object).to_owned());
    if store.get(resource, &namespace, &name).is_none() {
        let _ = store.create(&manager(), resource, object);
        return;
    }
    let _ = store.modify(&manager(), resource, &namespace, &name, |known| {
        for field in fields {
            object::set(known, &[field], object[*field].clone());
        }
    });
}
