//! What a reconciler does not do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use upgrade_api::UpgradeRun;
use upgrade_core::advice::Advice;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::matrix::Matrix;
use upgrade_core::observation::Observation;
use upgrade_core::policy::Policy;
use upgrade_core::product::PerProduct;
use upgrade_core::snapshot::Fact;
use upgrade_core::version::Version;
use upgrade_planner::report::Warning;

use super::{Context, Next, Reconciler};
use crate::api_call::CallError;
use crate::clock::Clock;
use crate::cluster::{ClusterAccess, ClusterRef};
use crate::connect::{AccessError, LiveConnector};
use crate::front_end::{
    Decision, Desired, Facts, FrontEnd, NextAction, RunView, Start, StartError,
};
use crate::heartbeat::Heartbeat;
use crate::limits::Limits;
use crate::run::{InheritError, UpgradeRuns};
use crate::shard::Replicas;
use crate::versions_observed::tests::cluster;

/// A front end whose objects are cluster references.
struct Plain;

impl FrontEnd for Plain {
    type Object = ClusterRef;
    type Update = ();

    const POOL_LABEL: &'static str = "pool";
    const RESUMED_BY: &'static str = "a test";

    fn desired(&self, object: &ClusterRef) -> Desired {
        Desired {
            cluster: object.clone(),
            targets: PerProduct { talos: Some("1.14.1".to_owned()), kubernetes: None },
            foreign_nodes: BTreeSet::new(),
            hands_off: false,
            shown: PerProduct::default(),
            has_status: true,
        }
    }

    fn is_newer(&self, _: &ClusterRef, _: &ClusterRef) -> bool {
        false
    }

    fn asks_the_same(&self, _: &ClusterRef, _: &ClusterRef) -> bool {
        true
    }

    fn withdrawals(&self, _: &ClusterRef, _: &RunView) -> u64 {
        0
    }

    fn decide(&self, _: &ClusterRef, _: &Facts<'_>) -> Decision<()> {
        Decision { update: None, next: NextAction::Idle }
    }

    fn refusal(&self, _: &Start, error: &StartError) -> String {
        error.to_string()
    }

    fn advice(&self, _: &Advice, _: &RunView) -> String {
        String::new()
    }

    async fn access(&self, _: &ClusterRef) -> Result<ClusterAccess, AccessError> {
        Err(AccessError::NoSecret("none".to_owned()))
    }

    async fn read(&self, object: &ClusterRef) -> Result<Option<ClusterRef>, CallError> {
        Ok(Some(object.clone()))
    }

    async fn show(&self, _: &mut Arc<ClusterRef>, (): &()) -> Result<bool, CallError> {
        Ok(true)
    }

    async fn was_withdrawn(&self, _: &ClusterRef, _: &UpgradeRun) -> Result<bool, CallError> {
        Ok(false)
    }

    fn warn(&self, _: &ClusterRef, _: &Start, _: &[Warning]) {}
}

/// A hub that does not answer.
fn no_hub() -> Client {
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    Client::try_from(config).expect("a client")
}

fn context() -> Context<Plain> {
    Context {
        front_end: Plain,
        connector: LiveConnector,
        client: no_hub(),
        identity: "a".to_owned(),
        namespace: "hub".to_owned(),
        heartbeat: Arc::new(Heartbeat::new("p".to_owned(), Duration::from_secs(20), Clock::SYSTEM)),
        matrix: Matrix::builtin(),
        clock: Clock::SYSTEM,
        catalogue: watch::channel(Arc::new(Catalogue::builtin())).1,
        replicas: watch::channel(Replicas::default()).1,
        ending: watch::channel(false).1,
        limits: Arc::new(Limits::default()),
        probe_interval: Duration::from_mins(5),
        metrics: Arc::default(),
    }
}

fn prod() -> ClusterRef {
    let (namespace, name) = ("hub".to_owned(), "prod".to_owned());
    ClusterRef { namespace, name, ..ClusterRef::default() }
}

#[tokio::test]
async fn nothing_is_planned_without_the_lease() {
    // Rules 5 and 9: what is armed is unknown, and another process may drive.
    let object = Arc::new(prod());
    let (_send, latest) = watch::channel(Some(Arc::clone(&object)));
    let mut reconciler = Reconciler::new(Arc::new(context()), object.key(), latest);
    let observation =
        Observation { snapshot: cluster(), workloads: Fact::Unasked, manifests: Fact::Unasked };
    reconciler.observation = Some((Instant::now(), observation));
    let intent = Intent { talos: Some(Version::new(1, 14, 1)), ..Intent::default() };
    let start = Start { intent, policy: Ok(Policy::default()) };
    let desired = Plain.desired(&object);
    let next = reconciler.begin(&object, &desired, &start).await;
    assert!(matches!(next, Ok(Next::Now)));
    assert!(reconciler.observation.is_some(), "it is kept until the lease is held");
    assert!(reconciler.created.is_none() && reconciler.last.is_none());
}

#[tokio::test]
async fn what_an_earlier_run_left_armed_is_not_guessed() {
    // Rules 5 and 10: a hub that does not answer is not a run that left nothing.
    let store = UpgradeRuns::new(no_hub(), prod(), Clock::SYSTEM);
    let hash = serde_json::from_value(json!("abc")).expect("a hash");
    let left = store.inherited(Some(hash)).await;
    assert!(matches!(left, Err(InheritError::Unavailable(_))), "{left:?}");
    let left = store.inherited(None).await.expect("nothing to read");
    assert!(left.armed.is_empty() && left.cordons.is_empty());
}
