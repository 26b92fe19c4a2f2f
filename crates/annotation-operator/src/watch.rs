//! Watches clusters and machines, and feeds the controller.
//!
//! Only these two kinds are watched, and of each object only what is needed is kept.
//! Everything else (Secrets, runs, Leases) is read by name.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, pin_mut};
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use tokio::sync::watch;
use upgrade_controller::connect::Connector;
use upgrade_controller::error_log::ErrorLog;
use upgrade_controller::fleet::Fleet;
use upgrade_core::product::Product;
use vitistack_api::{KubernetesCluster, Machine};

use crate::annotations::UpgradeRequest;
use crate::front_end::{Annotations, Watched, trimmed};
use crate::machines::Machines;

/// The name of Talos clusters on the platform.
const PROVIDER: &str = "talos";

/// How many objects come with one answer of the API server.
const PAGE: u32 = 100;

/// How long a watch that failed has to last before it counts as recovered: longer than the
/// longest pause before it is tried again. A quiet kind shows nothing else.
const RECOVERED: Duration = Duration::from_secs(70);

/// The watches of clusters and machines.
pub struct Watch<C: Connector> {
    fleet: Fleet<Annotations, C>,
    machines: Arc<Machines>,
    /// The keys of a list that is being read.
    listing: Option<BTreeSet<String>>,
    /// True once the first list was read.
    listed: watch::Sender<bool>,
}

impl<C: Connector> Watch<C> {
    /// Feeds this fleet; `listed` becomes true once the first list was read.
    pub fn new(fleet: Fleet<Annotations, C>, listed: watch::Sender<bool>) -> Self {
        let machines = Arc::clone(&fleet.context().front_end.machines);
        Self { fleet, machines, listing: None, listed }
    }

    /// Watches one namespace, or all, until the process ends.
    pub async fn run(mut self, client: Client, namespace: Option<&str>) {
        let mut ending = self.fleet.context().ending.clone();
        let config = watcher::Config::default().page_size(PAGE);
        let clusters = watched::<KubernetesCluster>(client.clone(), namespace);
        let clusters = watcher::watcher(clusters, config.clone()).default_backoff();
        let machines = watched::<Machine>(client, namespace);
        let machines = watcher::watcher(machines, config).default_backoff();
        pin_mut!(clusters, machines);
        let mut list = Vec::new();
        let mut no_clusters = ErrorLog::new("clusters cannot be watched", "clusters are watched");
        let mut no_machines = ErrorLog::new("machines cannot be watched", "machines are watched");
        loop {
            tokio::select! {
                event = clusters.next() => {
                    let Some(event) = event else { break };
                    if let Some(event) = noted(&mut no_clusters, event) {
                        self.cluster(event);
                    }
                },
                event = machines.next() => {
                    let Some(event) = event else { break };
                    if let Some(event) = noted(&mut no_machines, event) {
                        self.machine(event, &mut list);
                    }
                },
                () = no_clusters.quiet_for(RECOVERED) => no_clusters.recovered(),
                () = no_machines.quiet_for(RECOVERED) => no_machines.recovered(),
                () = self.fleet.supervise() => {}
                Ok(()) = ending.changed() => break,
            }
        }
        self.fleet.end().await;
    }

    fn cluster(&mut self, event: watcher::Event<KubernetesCluster>) {
        match event {
            watcher::Event::Init => self.listing = Some(BTreeSet::new()),
            watcher::Event::InitApply(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(key(&object));
                }
                self.apply(object);
            }
            watcher::Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let gone: Vec<_> =
                    self.fleet.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    self.fleet.delete(&key);
                }
                self.listed.send_replace(true);
            }
            watcher::Event::Apply(object) => self.apply(object),
            watcher::Event::Delete(object) => self.fleet.delete(&key(&object)),
        }
    }

    fn apply(&mut self, object: KubernetesCluster) {
        let key = key(&object);
        let provider = object.spec.data.provider.as_str();
        if !(provider.is_empty() || provider == PROVIDER)
            || object.metadata.deletion_timestamp.is_some()
        {
            self.fleet.delete(&key);
            return;
        }
        let cluster = trimmed(object);
        let request = UpgradeRequest::from_annotations(cluster.annotations());
        let before = self.fleet.object(&key);
        let mut removals = before.map(|watched| watched.removals).unwrap_or_default();
        for product in Product::ALL {
            // Every event is seen here, but not in the reconciler: a target that was removed
            // and set again at once was removed.
            *removals.of_mut(product) += u64::from(request.target(product).is_none());
        }
        self.fleet.apply(key, Arc::new(Watched { cluster, removals }));
    }

    fn machine(&self, event: watcher::Event<Machine>, list: &mut Vec<Machine>) {
        match event {
            watcher::Event::Init => list.clear(),
            watcher::Event::InitApply(mut machine) => {
                machine.metadata.managed_fields = None;
                list.push(machine);
            }
            watcher::Event::InitDone => {
                self.machines.replace(list);
                *list = Vec::new();
            }
            watcher::Event::Apply(machine) => self.machines.apply(&machine),
            watcher::Event::Delete(machine) => self.machines.delete(&machine),
        }
    }
}

/// Notes whether a watch works. It sends its first event before it has asked.
fn noted<K>(
    errors: &mut ErrorLog,
    event: watcher::Result<watcher::Event<K>>,
) -> Option<watcher::Event<K>> {
    match event {
        Ok(event @ watcher::Event::Init) => Some(event),
        Ok(event) => {
            errors.recovered();
            Some(event)
        }
        Err(error) => {
            errors.failed(&upgrade_controller::api_call::CallError::from(error).to_string());
            None
        }
    }
}

/// The objects of one namespace, or of all.
fn watched<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

fn key(object: &KubernetesCluster) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
