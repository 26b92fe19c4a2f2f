//! The endpoints of the Service `kubernetes`: API servers add themselves once they are ready, and
//! the others remove the ones that are gone.

use kube_sim::names::ENDPOINT_SLICES;
use kube_sim::{Store, Write, object};
use serde_json::{Value, json};

use super::running;
use crate::model::World;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// The addresses of the last update.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed(Option<Vec<String>>);

impl Listed {
    /// Lists the API servers that are ready, if that has changed.
    pub(super) fn update(&mut self, world: &World, store: &mut Store) {
        let ready = running(world).filter(|node| world.api_server_has_etcd(*node));
        let addresses: Vec<String> = ready
            .filter_map(|node| world.kubernetes(node)?.addresses.first().map(ToString::to_string))
            .collect();
        if self.0.as_ref() == Some(&addresses) {
            return;
        }
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
            .collect();
        let write = Write::by("kube-apiserver");
        let written = if store.get(&ENDPOINT_SLICES, NAMESPACE, NAME).is_some() {
            store.modify(&write, &ENDPOINT_SLICES, NAMESPACE, NAME, |slice| {
                object::set(slice, &["endpoints"], endpoints);
            })
        } else {
            store.create(&write, &ENDPOINT_SLICES, slice(&endpoints))
        };
        self.0 = written.is_ok().then_some(addresses);
    }
}

fn slice(endpoints: &[Value]) -> Value {
    json!({
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    })
}
