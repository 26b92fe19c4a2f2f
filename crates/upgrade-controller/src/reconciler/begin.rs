//! Starts a run: observes, plans, and creates its object.

use std::sync::Arc;

use tokio::time::Instant;
use upgrade_api::run::{ProductVersions, RunPhase, RunVersions, UpgradeRun};
use upgrade_core::guard;
use upgrade_core::intent::Intent;
use upgrade_core::mutant::Mutant;
use upgrade_core::observation::Observation;
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::product::{PerProduct, VersionRange};
use upgrade_core::snapshot::Snapshot;
use upgrade_engine::store::Inherited;
use upgrade_planner::Earlier;
use upgrade_planner::report::Warning;

use super::rules::SOON;
use super::{Next, ReconcileError, Reconciler};
use crate::api_call::with_timeout;
use crate::connect::{Connection, Connector};
use crate::front_end::{Desired, FrontEnd, Start, StartError};
use crate::lease::HeldLease;
use crate::observe::{self, ObserveError};
use crate::plan::{self, PlanRequest};
use crate::run::{InheritError, KEEP, NewRun, UpgradeRuns, roles};
use crate::versions_observed::ObservedVersions;

/// A run that was just created, and the connection that its cluster was observed over.
pub(super) struct Created<I> {
    at: Instant,
    pub(super) run: UpgradeRun,
    pub(super) connection: Option<Connection<I>>,
    /// Whether others were starting then. The message stays the same until the run is
    /// driven: each one is two requests to a busy hub.
    pub(super) waits: bool,
}

impl<F: FrontEnd, C: Connector> Reconciler<F, C> {
    /// Observes the cluster, plans, and creates a run; or a refused one, which says why.
    pub(super) async fn begin(
        &mut self,
        object: &Arc<F::Object>,
        desired: &Desired,
        start: &Start,
    ) -> Result<Next, ReconcileError> {
        // Without the lease nothing is planned: another process may drive the cluster
        // (rule 9), and what earlier runs left armed is read under it (rule 5).
        if !self.holds_lease() {
            return Ok(Next::Now);
        }
        let store = self.store(desired);
        let observed = self.observation_for_plan(object, desired).await;
        if !self.is_still_wanted(object) {
            return Ok(Next::Now);
        }
        // Refused runs have no plan, so they replace none.
        let parent = match &observed {
            Ok(_) => self.parent(&store).await?,
            Err(_) => None,
        };
        let inherited = match store.inherited(parent.clone()).await {
            Err(error @ InheritError::Unavailable(_)) => return Err(error.into()),
            inherited => inherited,
        };
        let snapshot = observed.as_ref().ok().map(|it| &it.snapshot);
        let nodes = snapshot.map(roles).unwrap_or_default();
        let versions = snapshot.map(|it| ObservedVersions::of(it, &desired.foreign_nodes));
        let running = snapshot.map(Snapshot::versions).unwrap_or_default();
        let planned = self.plan(observed, start, parent.as_ref(), inherited);
        let refusal = planned.as_ref().err();
        let refusal = refusal.map(|error| self.context.front_end.refusal(start, error));
        if guard!(Mutant::WatchBelieved) && !self.is_wanted_on_the_hub(object).await? {
            return Ok(soon());
        }
        let new = NewRun {
            versions: run_versions(running, &start.intent),
            rollback: start.intent.rollback,
            plan: match (&planned, &refusal) {
                (Ok((plan, _)), _) => Ok(plan),
                (Err(_), why) => Err(why.as_deref().unwrap_or_default()),
            },
            roles: &nodes,
            runner: &self.context.identity,
        };
        if !self.holds_lease() {
            return Ok(Next::Now);
        }
        let created = match with_timeout(store.create(&new)).await {
            Ok(created) => created,
            Err(error) => {
                // It may exist all the same, without its first status: then this one is
                // resumed.
                self.loaded = false;
                return Err(ReconcileError::Create(error));
            }
        };
        if let Ok((_, warnings)) = &planned {
            self.context.front_end.warn(&desired.cluster, start, warnings);
        }
        if let Some(versions) = versions {
            self.versions = Some(versions.map_err(ObserveError::from));
            self.observe_at = Instant::now() + self.context.probe_interval;
        }
        self.created(created, planned.is_ok(), store);
        Ok(Next::Now)
    }

    /// Remembers a run that was created.
    fn created(&mut self, run: UpgradeRun, planned: bool, store: UpgradeRuns) {
        let latest = self.latest.borrow().clone();
        self.last = latest.map(|latest| self.remember(&run, &latest));
        self.starting = None;
        if planned {
            let waits = self.context.limits.starts.is_busy();
            // A thousand that wait must not have everything open.
            let connection = self.connection.take().filter(|_| !waits);
            self.created = Some(Created { at: Instant::now(), run, connection, waits });
        }
        self.runs += 1;
        if self.runs > KEEP {
            tokio::spawn(async move { store.prune().await });
        }
    }

    /// The last observation if it is fresh, else a new one.
    async fn observation_for_plan(
        &mut self,
        object: &F::Object,
        desired: &Desired,
    ) -> Result<Observation, ObserveError> {
        let fresh = self.has_fresh_observation();
        if let Some((_, observation)) = self.observation.take().filter(|_| fresh) {
            return Ok(observation);
        }
        // Something is unknown: that may take long, and delays no other run.
        self.starting = None;
        let context = Arc::clone(&self.context);
        let _permit = context.limits.observe(true).await;
        let connection = self.connect(object).await?;
        observe::observe(&connection.live, &desired.foreign_nodes, F::POOL_LABEL).await
    }

    /// Plans on an observation, or says why there is no plan.
    fn plan(
        &self,
        observed: Result<Observation, ObserveError>,
        start: &Start,
        parent: Option<&PlanHash>,
        inherited: Result<Inherited, InheritError>,
    ) -> Result<(Plan, Vec<Warning>), StartError> {
        let observation = observed?;
        let armed = inherited?.armed;
        let policy = start.policy.as_ref();
        let policy = policy.map_err(|why| StartError::Policy(why.clone()))?;
        let catalogue = Arc::clone(&self.context.catalogue.borrow());
        let request = PlanRequest {
            intent: &start.intent,
            policy,
            matrix: &self.context.matrix,
            catalogue: &catalogue,
            earlier: Earlier { parent, armed: &armed },
        };
        Ok(plan::plan(&observation, &request)?)
    }

    /// Whether this process may start or drive a run of the cluster (rule 9).
    fn holds_lease(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| !HeldLease::is_lost(lease))
    }

    /// Until when the run that was just created waits for others that start.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.context.limits.starts.until(self.created.as_ref()?.at, Instant::now())
    }

    /// The plan that is replaced: of the newest run that had one, if it did not complete.
    /// Its cordons are taken over (rule 7). The newest run was read under the lease, and no
    /// other process creates runs.
    async fn parent(&self, store: &UpgradeRuns) -> Result<Option<PlanHash>, ReconcileError> {
        let last = self.last.as_ref().filter(|_| guard!(Mutant::ParentForgotten));
        let Some(last) = last else { return Ok(None) };
        let (hash, phase) = if last.view.hash.is_empty() {
            // It was refused, and changed nothing: the one before it counts.
            let planned = with_timeout(store.newest_planned()).await;
            let Some(run) = planned.map_err(ReconcileError::Read)? else { return Ok(None) };
            (run.spec.hash, run.status.map(|status| status.phase))
        } else {
            (last.view.hash.clone(), Some(last.view.phase))
        };
        if phase == Some(RunPhase::Completed) {
            return Ok(None);
        }
        Ok(serde_json::from_value(serde_json::Value::String(hash)).ok())
    }

    /// Whether the user still wants what was observed for.
    fn is_still_wanted(&mut self, object: &F::Object) -> bool {
        let latest = self.latest.borrow().clone();
        let newest = latest.map(|latest| self.newest(&latest));
        let front_end = &self.context.front_end;
        newest.is_some_and(|newest| front_end.asks_the_same(&newest, object))
    }

    /// Whether the hub's object still asks for the same. The watch of this process may be behind,
    /// and another replica may have ended a run whose target was removed (rules 8 and 12).
    async fn is_wanted_on_the_hub(
        &mut self,
        object: &Arc<F::Object>,
    ) -> Result<bool, ReconcileError> {
        let front_end = &self.context.front_end;
        let read = front_end.read(object).await.map_err(ReconcileError::Object)?;
        let Some(read) = read else { return Ok(false) };
        let same = front_end.asks_the_same(&read, object);
        self.own = Some(Arc::new(read));
        Ok(same)
    }

    /// Closes a run that failed or was ended.
    pub(super) async fn close(&mut self, desired: &Desired) -> Result<Next, ReconcileError> {
        let store = self.store(desired);
        let Some(last) = &mut self.last else {
            return Ok(Next::Now);
        };
        let run = with_timeout(store.get(&last.view.name)).await.map_err(ReconcileError::Read)?;
        if let Some(run) = run {
            let why = "its target was removed";
            let closed = with_timeout(store.close(&run, &self.context.identity, why)).await;
            closed.map_err(ReconcileError::Close)?;
        }
        last.view.phase = RunPhase::Cancelled;
        Ok(Next::Now)
    }
}

/// The versions that run, and those that are to run.
fn run_versions(running: PerProduct<Option<VersionRange>>, intent: &Intent) -> RunVersions {
    let lowest = |range: Option<VersionRange>| range.map(|range| range.lowest.to_string());
    let PerProduct { talos, kubernetes } = running;
    let from = ProductVersions { talos: lowest(talos), kubernetes: lowest(kubernetes) };
    let to = ProductVersions {
        talos: intent.talos.as_ref().map(ToString::to_string),
        kubernetes: intent.kubernetes.as_ref().map(ToString::to_string),
    };
    RunVersions { from, to }
}

/// When an action that failed for now is tried again.
pub(super) fn soon() -> Next {
    Next::At(Some(Instant::now() + SOON))
}
