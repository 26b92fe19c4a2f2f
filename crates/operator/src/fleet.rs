//! Watches clusters and machines, and keeps a task for each cluster.
//!
//! Only these two kinds are watched, and of each object only what is needed is
//! kept. Everything else (Secrets, runs, Leases) is read by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, pin_mut};
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use upgrade_core::product::Product;
use vitistack_api::{KubernetesCluster, Machine};

use crate::annotations::UpgradeRequest;
use crate::api_call::describe_watch;
use crate::error_log::ErrorLog;
use crate::reconciler::{Context, Latest, Reconciler, trimmed};

/// What the platform calls the clusters that are ours.
const PROVIDER: &str = "talos";

/// How long a task that broke off is left alone: whatever it met is still there.
const BROKEN: Duration = Duration::from_secs(10);

/// How many objects come with one answer of the API server.
const PAGE: u32 = 100;

/// How long a watch that failed has to go on before it counts as well: longer than the
/// longest pause before it is tried again. A quiet kind gives no sign of life.
const WELL: Duration = Duration::from_secs(70);

/// The tasks of all clusters.
pub struct Fleet {
    shared: Arc<Context>,
    /// The one namespace that is watched; all of them if there is none.
    namespace: Option<String>,
    clusters: BTreeMap<String, watch::Sender<Option<Latest>>>,
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
    /// ClusterCredentials met while a list is read anew.
    listing: Option<BTreeSet<String>>,
    /// True once the first list was read.
    listed: watch::Sender<bool>,
}

impl Fleet {
    /// Without any cluster yet. The receiver says when the first list was read.
    pub fn new(shared: Arc<Context>, namespace: Option<String>) -> (Self, watch::Receiver<bool>) {
        let (listed, told) = watch::channel(false);
        let controller = Self {
            shared,
            namespace,
            clusters: BTreeMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            listing: None,
            listed,
        };
        (controller, told)
    }

    /// Works until everything is to end, then lets go of all clusters.
    pub async fn run(mut self, client: Client) {
        let mut ending = self.shared.ending.clone();
        let config = watcher::Config::default().page_size(PAGE);
        let namespace = self.namespace.as_deref();
        let clusters = watched::<KubernetesCluster>(client.clone(), namespace);
        let clusters = watcher::watcher(clusters, config.clone()).default_backoff();
        let machines = watched::<Machine>(client, namespace);
        let machines = watcher::watcher(machines, config).default_backoff();
        pin_mut!(clusters, machines);
        let mut machine_list = Vec::new();
        let mut no_clusters = ErrorLog::new("clusters cannot be watched", "clusters are watched");
        let mut no_machines = ErrorLog::new("machines cannot be watched", "machines are watched");
        loop {
            tokio::select! {
                event = clusters.next() => {
                    let Some(event) = event else { break };
                    note(&mut no_clusters, &event);
                    if let Ok(event) = event {
                        self.cluster(event);
                    }
                },
                event = machines.next() => {
                    let Some(event) = event else { break };
                    note(&mut no_machines, &event);
                    if let Ok(event) = event {
                        self.machine(event, &mut machine_list);
                    }
                },
                () = no_clusters.quiet_for(WELL) => no_clusters.recovered(),
                () = no_machines.quiet_for(WELL) => no_machines.recovered(),
                Some(ended) = self.tasks.join_next_with_id() => self.task_ended(&ended),
                Ok(()) = ending.changed() => break,
            }
        }
        self.end().await;
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
                let there = self.listing.take().unwrap_or_default();
                let gone: Vec<_> =
                    self.clusters.keys().filter(|key| !there.contains(*key)).cloned().collect();
                for key in gone {
                    self.delete(&key);
                }
                self.listed.send_replace(true);
            }
            watcher::Event::Apply(object) => self.apply(object),
            watcher::Event::Delete(object) => self.delete(&key(&object)),
        }
    }

    fn apply(&mut self, object: KubernetesCluster) {
        let key = key(&object);
        let provider = object.spec.data.provider.as_str();
        if !(provider.is_empty() || provider == PROVIDER)
            || object.metadata.deletion_timestamp.is_some()
        {
            self.delete(&key);
            return;
        }
        let object = Arc::new(trimmed(object));
        let request = UpgradeRequest::from_annotations(object.annotations());
        let mut removals = self
            .clusters
            .get(&key)
            .and_then(|sender| Some(sender.borrow().as_ref()?.removals))
            .unwrap_or_default();
        for product in Product::ALL {
            // Every event is seen here, if not in the task: a target that was
            // taken away and set again at once was taken away.
            *removals.of_mut(product) += u64::from(request.target(product).is_none());
        }
        let latest = Some(Latest { object, removals });
        if let Some(sender) = self.clusters.get(&key) {
            sender.send_replace(latest);
            return;
        }
        let (sender, receiver) = watch::channel(latest);
        self.clusters.insert(key.clone(), sender);
        self.spawn(key, receiver, Duration::ZERO);
    }

    fn spawn(&mut self, key: String, latest: watch::Receiver<Option<Latest>>, after: Duration) {
        let task = Reconciler::new(Arc::clone(&self.shared), key.clone(), latest);
        let handle = self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            // Boxed: tasks are many, and most of them wait.
            Box::pin(task.run()).await;
        });
        self.names.insert(handle.id(), key);
    }

    fn delete(&mut self, key: &str) {
        if let Some(sender) = self.clusters.remove(key) {
            sender.send_replace(None);
        }
    }

    fn machine(&self, event: watcher::Event<Machine>, list: &mut Vec<Machine>) {
        let machines = &self.shared.connector.machines;
        match event {
            watcher::Event::Init => list.clear(),
            watcher::Event::InitApply(mut machine) => {
                machine.metadata.managed_fields = None;
                list.push(machine);
            }
            watcher::Event::InitDone => {
                machines.replace(list);
                *list = Vec::new();
            }
            watcher::Event::Apply(machine) => machines.apply(&machine),
            watcher::Event::Delete(machine) => machines.delete(&machine),
        }
    }

    /// A task that broke off is begun anew; nobody else notices.
    fn task_ended(&mut self, ended: &Result<(Id, ()), tokio::task::JoinError>) {
        let (id, broke) = match ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(key) = self.names.remove(&id) else { return };
        if !broke {
            return;
        }
        tracing::error!(cluster = key, "its task broke off by a mistake of this program");
        if let Some(sender) = self.clusters.get(&key) {
            let receiver = sender.subscribe();
            self.spawn(key, receiver, BROKEN);
        }
    }

    /// Every task lets go by itself; nobody waits for one that does not.
    async fn end(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(4), all).await.is_err() {
            tracing::warn!("some clusters were not handed over; their leases run out");
        }
    }
}

/// Takes down whether a watch works. It says that it begins before it has asked.
fn note<K>(trouble: &mut ErrorLog, event: &watcher::Result<watcher::Event<K>>) {
    match event {
        Ok(watcher::Event::Init) => {}
        Ok(_) => trouble.recovered(),
        Err(error) => trouble.failed(&describe_watch(error)),
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
