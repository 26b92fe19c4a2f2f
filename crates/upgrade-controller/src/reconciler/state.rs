//! What is known of the cluster: its object, its newest run, the versions that run on it.

use std::sync::Arc;

use tokio::time::Instant;
use upgrade_api::run::{RunPhase, UpgradeRun};
use upgrade_engine::io::Io as _;

use super::{Next, ReconcileError, Reconciler, rules};
use crate::api_call::with_timeout;
use crate::connect::{ConnectError, Connection, Connector, connect};
use crate::front_end::{Desired, FrontEnd, RunView};
use crate::lease::HeldLease;
use crate::limits::COUNTS;
use crate::observe::{self, ObserveError};
use crate::run::{LeasedRuns, UpgradeRuns};
use crate::version_probe::probe;
use crate::versions_observed::ObservedVersions;

/// What is remembered of the newest run while no process drives it.
pub(super) struct LastRun {
    pub(super) view: RunView,
    /// How often its target had not been wanted when the run was read.
    pub(super) withdrawals: u64,
}

impl<F: FrontEnd, C: Connector> Reconciler<F, C> {
    /// Opens the live side of the cluster.
    pub(super) async fn connect(
        &self,
        object: &F::Object,
    ) -> Result<Connection<C::Io>, ConnectError> {
        let context = &self.context;
        let access = context.front_end.access(object).await?;
        connect(&context.connector, access, &context.limits.observations).await
    }

    /// The newer of what the watch brought and what we wrote.
    pub(super) fn newest(&mut self, latest: &Arc<F::Object>) -> Arc<F::Object> {
        if let Some(own) = &self.own
            && self.context.front_end.is_newer(own, latest)
        {
            return Arc::clone(own);
        }
        self.own = None;
        Arc::clone(latest)
    }

    pub(super) fn forget(&mut self) {
        (self.loaded, self.last, self.created) = (false, None, None);
        (self.versions, self.stuck) = (None, None);
        self.gauge.clear();
    }

    pub(super) fn store(&self, desired: &Desired) -> UpgradeRuns {
        UpgradeRuns::new(self.context.client.clone(), desired.cluster.clone(), self.context.clock)
    }

    /// The same, for driving: only with the lease (rule 9).
    pub(super) fn leased(&self, desired: &Desired, lease: &HeldLease) -> LeasedRuns {
        LeasedRuns {
            runs: self.store(desired),
            fence: lease.fence(),
            runner: self.context.identity.clone(),
            writes: Arc::clone(&self.context.limits.writes),
        }
    }

    /// What is kept of a run: not its plan, and not its journal.
    pub(super) fn remember(&self, run: &UpgradeRun, latest: &F::Object) -> LastRun {
        let view = RunView::of(run);
        LastRun { withdrawals: self.context.front_end.withdrawals(latest, &view), view }
    }

    /// Reads the newest run.
    pub(super) async fn load(
        &mut self,
        object: &F::Object,
        latest: &F::Object,
        desired: &Desired,
    ) -> Result<(), ReconcileError> {
        let context = Arc::clone(&self.context);
        let _permit = context.limits.list().await;
        let newest = with_timeout(self.store(desired).newest()).await;
        let (newest, count) = newest.map_err(ReconcileError::Read)?;
        let mut last = newest.as_ref().map(|run| self.remember(run, latest));
        if let (Some(run), Some(last)) = (&newest, &mut last)
            && last.view.phase == RunPhase::Halted
        {
            let withdrawn = context.front_end.was_withdrawn(object, run).await;
            last.view.withdrawn = withdrawn.map_err(ReconcileError::Missed)?;
        }
        (self.last, self.runs, self.loaded) = (last, count, true);
        Ok(())
    }

    /// Whether the last observation may be planned on.
    pub(super) fn has_fresh_observation(&self) -> bool {
        let now = Instant::now();
        self.observation.as_ref().is_some_and(|(at, _)| rules::is_fresh(*at, now))
    }

    /// Observes the cluster.
    pub(super) async fn observe(
        &mut self,
        object: &F::Object,
        desired: &Desired,
    ) -> Result<Next, ReconcileError> {
        let context = Arc::clone(&self.context);
        let permit = context.limits.observe(desired.has_target()).await;
        let versions = self.observe_versions(object, desired).await;
        drop(permit);
        let interval = context.probe_interval;
        let pause = if versions.is_ok() {
            self.observe_pause = interval;
            observe::until_next_probe(&self.key, interval, context.clock.since_boot())
        } else {
            self.observe_pause = rules::observe_again(self.observe_pause, interval);
            self.observe_pause
        };
        self.observe_at = Instant::now() + pause;
        self.versions = Some(versions);
        Ok(Next::Now)
    }

    /// Asks the cluster for its versions: for all that a plan needs, if there is a target.
    async fn observe_versions(
        &mut self,
        object: &F::Object,
        desired: &Desired,
    ) -> Result<ObservedVersions, ObserveError> {
        (self.observation, self.connection) = (None, None);
        let connection = self.connect(object).await?;
        let foreign = &desired.foreign_nodes;
        if !desired.has_target() {
            return probe(&connection.live, foreign).await;
        }
        let permit = connection.live.observe_permit().await;
        let observed = {
            let mut observing = Box::pin(observe::observe_once(&connection.live, F::POOL_LABEL));
            if let Ok(observed) = tokio::time::timeout(COUNTS, &mut observing).await {
                observed
            } else {
                // A cluster that hangs delays no run that was created.
                let starting = self.starting.take().is_some();
                let observed = observing.await;
                self.starting = starting.then(|| self.context.limits.starts.enter());
                observed
            }
        };
        drop(permit);
        let observation = observed?;
        let versions = ObservedVersions::of(&observation.snapshot, foreign);
        let gaps = observation.has_gaps(foreign);
        self.observation = (!gaps).then(|| (Instant::now(), observation));
        self.connection = Some(connection);
        Ok(versions?)
    }
}
