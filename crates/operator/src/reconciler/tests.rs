//! What a task does not do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::observation::Observation;
use upgrade_core::policy::Policy;
use upgrade_core::product::{PerProduct, Product};
use upgrade_core::snapshot::Fact;
use upgrade_core::version::Version;
use vitistack_api::KubernetesCluster;

use super::{Context, Latest, Next, Reconciler};
use crate::annotations::UpgradeRequest;
use crate::connect::{Connector, Machines};
use crate::events::EventPublisher;
use crate::heartbeat::Heartbeat;
use crate::keys;
use crate::run::{InheritError, UpgradeRuns};
use crate::shard::Replicas;
use crate::versions_observed::tests::cluster;

/// A hub that nobody answers for.
fn nobody() -> Client {
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    Client::try_from(config).expect("a client")
}

fn shared(client: &Client) -> Context {
    let identity = "a".to_owned();
    Context {
        client: client.clone(),
        events: EventPublisher::new(client.clone(), &identity),
        identity,
        namespace: "hub".to_owned(),
        heartbeat: Arc::new(Heartbeat::new("p".to_owned(), Duration::from_secs(20))),
        connector: Connector {
            client: client.clone(),
            secret_prefix: String::new(),
            snapshots: PathBuf::new(),
            machines: Machines::default(),
            limiter: Arc::default(),
        },
        policy: Policy::default(),
        matrix: Matrix::builtin(),
        catalogue: watch::channel(Arc::new(Catalogue::builtin())).1,
        metrics: Arc::default(),
        replicas: watch::channel(Replicas::default()).1,
        ending: watch::channel(false).1,
        glances: Semaphore::new(1),
        looks: Semaphore::new(1),
        writes: Arc::default(),
        start_gate: Arc::default(),
        lists: Semaphore::new(1),
        probe_interval: Duration::from_mins(5),
    }
}

fn object() -> Arc<KubernetesCluster> {
    let target = json!({keys::target(Product::Talos): "1.14.1"});
    let metadata = json!({"name": "prod", "namespace": "hub", "annotations": target});
    Arc::new(serde_json::from_value(json!({"metadata": metadata})).expect("a cluster"))
}

#[tokio::test]
async fn nothing_is_planned_without_the_lease() {
    // Rules 5 and 9: what is armed is not known, and somebody else may drive.
    let object = object();
    let latest = Latest { object: Arc::clone(&object), removals: PerProduct::default() };
    let (_send, latest) = watch::channel(Some(latest));
    let mut task = Reconciler::new(Arc::new(shared(&nobody())), "hub/prod".to_owned(), latest);
    let observation =
        Observation { snapshot: cluster(), workloads: Fact::Unasked, manifests: Fact::Unasked };
    task.observation = Some((Instant::now(), observation));
    let request = UpgradeRequest::from_annotations(object.annotations());
    let target = Version::new(1, 14, 1);
    let next = task.begin(&object, &request, Product::Talos, &target).await;
    assert!(matches!(next, Ok(Next::Now)));
    assert!(task.observation.is_some(), "what was versions is left for who has the lease");
    assert!(task.made.is_none() && task.last.is_none());
}

#[tokio::test]
async fn what_an_earlier_run_left_armed_is_not_guessed() {
    // Rules 5 and 10: a hub that is away is not a run that left nothing.
    let store = UpgradeRuns::new(nobody(), object().as_ref());
    let hash = serde_json::from_value(json!("abc")).expect("a hash");
    let left = store.inherited(Some(hash)).await;
    let Err(InheritError::Away(why)) = left else { panic!("{left:?}") };
    assert!(why.starts_with("the run before cannot be read: "), "{why}");
    let left = store.inherited(None).await.expect("nothing to read");
    assert!(left.armed.is_empty() && left.cordons.is_empty());
}
