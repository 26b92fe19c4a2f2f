//! Starting the tasks of a prepared cluster.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::prepare::Prepared;
use super::{Cluster, NodePlace, StartError};
use crate::address::Places;
use crate::driver::Driver;
use crate::grpc::{Directory, Endpoint};
use crate::kubernetes::{remote, server};
use crate::model::{ClusterSpec, NodeIndex, NodeRole};
use crate::server::Server;
use crate::store::Store;
use crate::{apid, control, factory};

impl Prepared {
    /// Starts everything. Must be called inside a runtime.
    pub(super) fn start(self, store: Option<Store>) -> Result<Cluster, StartError> {
        let Self {
            shape,
            places,
            sockets,
            authority,
            inside,
            talosconfig,
            kubeconfig,
            servers,
            gates,
            kubelets,
        } = self;
        let spec = inside.world.spec().clone();
        let nodes = node_places(&spec, &places);
        let mut tasks = JoinSet::new();
        let control = match &store {
            Some(store) => {
                let (control, listener) = control::open().map_err(StartError::Control)?;
                store.set_control(&control)?;
                Some((control, listener))
            }
            None => None,
        };
        let (driver, task) = Driver::start(inside, store.as_ref().map(Store::state_file));
        tasks.spawn(async move {
            let _ = task.await;
        });
        if let Some((control, listener)) = control {
            tasks.spawn(control::serve(listener, control, driver.clone()));
        }
        tasks.spawn(factory::serve(sockets.factory, driver.clone()));
        let names = |node: &NodePlace| vec![node.hostname.clone(), node.address.to_string()];
        let storage = |number| Some(spec.storage_address(number)?.to_string());
        let storage: Vec<Option<String>> = (0..nodes.len()).map(storage).collect();
        let local = |(node, storage): (&NodePlace, &Option<String>)| {
            names(node).into_iter().chain(storage.clone()).collect::<Vec<String>>()
        };
        let local: Vec<Vec<String>> = nodes.iter().zip(&storage).map(local).collect();
        let directory = Directory { names: nodes.iter().map(names).collect(), storage };
        let directory = Arc::new(directory);
        for (index, (((node, tls), listener), local)) in
            nodes.iter().zip(servers).zip(sockets.apid).zip(local).enumerate()
        {
            let server = Server {
                address: node.apid,
                tls,
                endpoint: Endpoint {
                    node: NodeIndex(index),
                    router: Arc::new(apid::Router {
                        forwards: node.role == NodeRole::ControlPlane,
                        local,
                    }),
                    directory: Arc::clone(&directory),
                    driver: driver.clone(),
                    roles: Arc::from([]),
                },
            };
            tasks.spawn(server.run(listener));
        }
        let real_api_url = kubelets.as_ref().map(|start| start.place.api().url.clone());
        let forwarder = kubelets.as_ref().map(remote::Start::forwarder);
        // The shared address first, as `gates` has it.
        let addresses = std::iter::once(places.endpoint).chain(places.kubernetes.iter().copied());
        let listeners = std::iter::once(sockets.endpoint).chain(sockets.kubernetes);
        for (index, ((address, listener), gate)) in addresses.zip(listeners).zip(gates).enumerate()
        {
            let node = index.checked_sub(1).map(NodeIndex);
            let (driver, forwarder) = (driver.clone(), forwarder.clone());
            tasks.spawn(server::Server { address, gate, node, driver, forwarder }.run(listener));
        }
        let kubelets = kubelets.map(|start| start.start(driver.clone(), &mut tasks));
        let kubelets = kubelets.transpose().map_err(StartError::Kubelets)?;
        Ok(Cluster {
            shape,
            places,
            nodes,
            authority,
            talosconfig,
            kubeconfig,
            real_api_url,
            driver,
            tasks,
            kubelets,
            store,
        })
    }
}

fn node_places(spec: &ClusterSpec, places: &Places) -> Vec<NodePlace> {
    spec.nodes
        .iter()
        .zip(places.nodes.iter().zip(&places.apid))
        .enumerate()
        .map(|(index, (node, (address, apid)))| NodePlace {
            kubernetes: places.kubernetes.get(index).copied(),
            hostname: node.hostname.clone(),
            role: node.role,
            address: *address,
            apid: *apid,
        })
        .collect()
}
