//! Begins a run: looks, plans, and makes its object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upgrade_api::run::{ProductVersions, RunPhase, RunVersions, UpgradeRun};
use upgrade_core::plan::PlanHash;
use upgrade_core::product::{PerProduct, Product, VersionRange};
use upgrade_core::version::Version;
use upgrade_planner::Earlier;
use vitistack_api::KubernetesCluster;

use super::state::{Connection, remember};
use super::{Next, Reconciler, SOON};
use crate::annotations::UpgradeRequest;
use crate::api_call::with_timeout;
use crate::events::ClusterEvent;
use crate::lease::HeldLease;
use crate::observe;
use crate::plan::{self, PlanRequest};
use crate::run::{InheritError, KEEP, NewRun, UpgradeRuns, roles};
use crate::versions_observed::ObservedVersions;

/// How old a look may be that is planned on. It is the one that the target was
/// judged on, a few requests to the hub ago; whoever drives the plan looks
/// again before every act (rule 2).
const FRESH: Duration = Duration::from_secs(20);

/// A run as it was made, and what its cluster was seen through.
pub(super) struct NewlyMade {
    at: Instant,
    pub(super) run: UpgradeRun,
    pub(super) connection: Option<Connection>,
    /// Whether others were beginning then. What is told of it stays the same until it
    /// is driven: every word is two requests to a busy hub.
    pub(super) waits: bool,
}

impl Reconciler {
    /// Looks at the cluster, plans, and makes a run; or one that failed before
    /// it began, which says why.
    pub(super) async fn begin(
        &mut self,
        object: &Arc<KubernetesCluster>,
        request: &UpgradeRequest,
        product: Product,
        target: &Version,
    ) -> Result<Next, String> {
        // Who has no lease plans nothing: somebody else may drive the cluster (rule 9), and
        // what earlier runs left armed is read under it (rule 5).
        if self.hold.as_ref().is_none_or(HeldLease::is_lost) {
            return Ok(Next::Now);
        }
        let shared = Arc::clone(&self.shared);
        let foreign = request.foreign(&shared.policy);
        let store = self.store(object);
        let fresh = self.has_fresh_observation();
        let observation = if let Some((_, observation)) = self.observation.take().filter(|_| fresh)
        {
            Ok(observation)
        } else {
            // Something could not be seen: that may take long, and holds up nobody else.
            self.beginning = None;
            let permit = shared.looks.acquire().await.map_err(|error| error.to_string())?;
            let observation = async {
                let connection = self.connect(object).await?;
                observe::observe(&connection.live, &foreign).await
            };
            let observation = observation.await;
            drop(permit);
            observation.map_err(|why| format!("the cluster cannot be versions: {why}"))
        };
        if !self.still_wanted(request) {
            return Ok(Next::Now);
        }
        let catalogue = Arc::clone(&shared.catalogue.borrow());
        // Refused runs have no plan, so they replace none.
        let parent = match &observation {
            Ok(_) => self.parent(&store).await?,
            Err(_) => None,
        };
        let armed = match store.inherited(parent.clone()).await {
            Ok(left) => Ok(left.armed),
            Err(InheritError::Broken(why)) => Err(why),
            Err(InheritError::Away(why)) => return Err(why),
        };
        let planned = match (&observation, request.policy(&shared.policy), &armed) {
            (Err(why), ..) | (_, _, Err(why)) => Err(why.clone()),
            (_, Err(why), _) => Err(why),
            (Ok(observation), Ok(policy), Ok(armed)) => {
                let request = PlanRequest {
                    product,
                    target,
                    rollback: request.rollback,
                    policy: &policy,
                    matrix: &shared.matrix,
                    catalogue: &catalogue,
                    earlier: Earlier { parent: parent.as_ref(), armed },
                };
                plan::plan(observation, &request)
            }
        };
        let (plan, warnings) = match planned {
            Ok((plan, warnings)) => (Ok(plan), warnings),
            Err(why) => (Err(why), Vec::new()),
        };
        let nodes = observation.as_ref().map_or_else(|_| BTreeMap::new(), |it| roles(&it.snapshot));
        let versions =
            observation.as_ref().ok().map(|it| ObservedVersions::of(&it.snapshot, &foreign));
        let running = observation.as_ref().map(|it| it.snapshot.versions()).unwrap_or_default();
        let new = NewRun {
            versions: run_versions(running, product, target),
            rollback: request.rollback,
            plan: plan.as_ref().map_err(String::as_str),
            roles: &nodes,
            runner: &shared.identity,
        };
        if self.hold.as_ref().is_none_or(HeldLease::is_lost) {
            return Ok(Next::Now);
        }
        let made = match with_timeout(store.create(&new)).await {
            Ok(made) => made,
            Err(why) => {
                // It may be there all the same, without its first status: then
                // it is this one that is gone on with.
                self.loaded = false;
                return Err(format!("the run cannot be made: {why}"));
            }
        };
        for warning in warnings {
            shared.events.publish(object, ClusterEvent::warning(product, &warning.to_string()));
        }
        if versions.is_some() {
            self.versions = versions;
            self.probe_at = Instant::now() + self.shared.probe_interval;
        }
        let latest = self.latest.borrow().clone();
        self.last = latest.and_then(|latest| remember(&made, &latest));
        self.beginning = None;
        if plan.is_ok() {
            let waits = self.shared.start_gate.is_on();
            // A thousand that wait must not have everything open.
            let connection = self.connection.take().filter(|_| !waits);
            self.made = Some(NewlyMade { at: Instant::now(), run: made, connection, waits });
        }
        self.runs += 1;
        if self.runs > KEEP {
            tokio::spawn(async move { store.prune().await });
        }
        Ok(Next::Now)
    }

    /// Whether what was seen last may be planned on.
    pub(super) fn has_fresh_observation(&self) -> bool {
        self.observation.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH)
    }

    /// Until when the run that was just made waits for others that begin.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.shared.start_gate.until(self.made.as_ref()?.at, Instant::now())
    }

    /// The plan that is replaced: of the newest run that had one, if it did not come
    /// to its end. Its cordons are taken over (rule 7). The newest run was read since
    /// the lease is ours, and nobody else makes runs.
    async fn parent(&self, store: &UpgradeRuns) -> Result<Option<PlanHash>, String> {
        let Some(last) = &self.last else { return Ok(None) };
        let (hash, phase) = if last.hash.is_empty() {
            // It was refused, and changed nothing: the one before it counts.
            let Some(run) = with_timeout(store.newest_planned()).await? else { return Ok(None) };
            (run.spec.hash, run.status.map(|status| status.phase))
        } else {
            (last.hash.clone(), Some(last.view.phase))
        };
        if phase == Some(RunPhase::Completed) {
            return Ok(None);
        }
        Ok(serde_json::from_value(serde_json::Value::String(hash)).ok())
    }

    /// Whether the user still wants what was planned for.
    fn still_wanted(&self, request: &UpgradeRequest) -> bool {
        let latest = self.latest.borrow();
        latest.as_ref().is_some_and(|latest| {
            UpgradeRequest::from_annotations(latest.object.annotations()) == *request
        })
    }

    /// A run that failed or was ended is past.
    pub(super) async fn close(&mut self, object: &KubernetesCluster) -> Result<Next, String> {
        let Some(last) = &mut self.last else {
            return Ok(Next::Now);
        };
        let store = UpgradeRuns::new(self.shared.client.clone(), object);
        let run = with_timeout(store.get(&last.name)).await?;
        if let Some(run) = run {
            let why = "its target was taken away";
            let closed = with_timeout(store.close(&run, &self.shared.identity, why)).await;
            closed.map_err(|error| format!("the run cannot be closed: {error}"))?;
        }
        last.view.phase = RunPhase::Cancelled;
        Ok(Next::Now)
    }
}

/// What runs, and the one product that is to change.
fn run_versions(
    running: PerProduct<Option<VersionRange>>,
    product: Product,
    target: &Version,
) -> RunVersions {
    let lowest = |range: Option<VersionRange>| range.map(|range| range.lowest.to_string());
    let PerProduct { talos, kubernetes } = running;
    let from = ProductVersions { talos: lowest(talos), kubernetes: lowest(kubernetes) };
    let mut to = ProductVersions::default();
    match product {
        Product::Talos => to.talos = Some(target.to_string()),
        Product::Kubernetes => to.kubernetes = Some(target.to_string()),
    }
    RunVersions { from, to }
}

/// When something that failed for now is tried again.
pub(super) fn soon() -> Next {
    Next::At(Some(Instant::now() + SOON))
}
