//! What is known of the cluster: its object, its newest run, what runs on it.

use std::sync::Arc;

use kube::ResourceExt as _;
use tokio::time::Instant;
use upgrade_api::run::{RunPhase, UpgradeRun};
use upgrade_engine::io::Io as _;
use vitistack_api::KubernetesCluster;

use super::{LOOK_AGAIN, Latest, Next, Reconciler};
use crate::annotations::UpgradeRequest;
use crate::api_call::with_timeout;
use crate::decide::RunView;
use crate::lease::HeldLease;
use crate::limiter::{self, Throttled};
use crate::observe;
use crate::run::{LeasedRuns, UpgradeRuns, target};
use crate::version_probe::probe;
use crate::versions_observed::ObservedVersions;
use crate::{clock, missed_changes};

/// What is remembered of the newest run while nobody drives it.
pub(super) struct LastRun {
    pub(super) name: String,
    pub(super) view: RunView,
    /// Of its plan; empty if it has none.
    pub(super) hash: String,
    /// How often its target had been gone when it was read.
    pub(super) removals: u64,
}

/// A cluster's live side, and the digest of the keys that opened it.
pub(super) struct Connection {
    pub(super) keys: [u8; 32],
    pub(super) live: Throttled,
}

impl Reconciler {
    /// Reads the keys of the cluster and makes its live side.
    pub(super) async fn connect(&self, object: &KubernetesCluster) -> Result<Connection, String> {
        let keys = self.shared.connector.keys(object).await?;
        let live = self.shared.connector.live(object, &keys).await?;
        Ok(Connection { keys: keys.digest(), live })
    }

    /// The object as it is known best.
    pub(super) fn newest(&mut self, latest: &Latest) -> Arc<KubernetesCluster> {
        let version = |object: &KubernetesCluster| {
            object.resource_version().and_then(|version| version.parse::<u64>().ok()).unwrap_or(0)
        };
        if let Some(own) = &self.own
            && version(own) > version(&latest.object)
            && own.uid() == latest.object.uid()
        {
            return Arc::clone(own);
        }
        self.own = None;
        Arc::clone(&latest.object)
    }

    pub(super) fn forget(&mut self) {
        (self.loaded, self.last, self.made) = (false, None, None);
        (self.versions, self.stuck) = (None, None);
        self.counted.clear();
    }

    pub(super) fn store(&self, object: &KubernetesCluster) -> UpgradeRuns {
        UpgradeRuns::new(self.shared.client.clone(), object)
    }

    /// The same, for driving: only with the lease.
    pub(super) fn held(&self, object: &KubernetesCluster, hold: &HeldLease) -> LeasedRuns {
        LeasedRuns {
            runs: self.store(object),
            fence: hold.fence(),
            runner: self.shared.identity.clone(),
            writes: Arc::clone(&self.shared.writes),
        }
    }

    /// Reads what is known of runs.
    pub(super) async fn load(
        &mut self,
        object: &KubernetesCluster,
        latest: &Latest,
    ) -> Result<(), String> {
        let _list = self.shared.lists.acquire().await.map_err(|error| error.to_string())?;
        let newest = with_timeout(self.store(object).newest()).await;
        let (newest, count) = newest.map_err(|why| format!("the runs cannot be read: {why}"))?;
        let mut last = newest.as_ref().and_then(|run| remember(run, latest));
        if let (Some(run), Some(last)) = (&newest, &mut last)
            && last.view.phase == RunPhase::Halted
        {
            let client = self.shared.client.clone();
            last.view.target_removed =
                missed_changes::target_was_removed(client, object, run).await?;
        }
        (self.last, self.runs, self.loaded) = (last, count, true);
        Ok(())
    }

    /// Looks at the cluster, if it is time.
    pub(super) async fn probe_if_due(
        &mut self,
        object: &KubernetesCluster,
        request: &UpgradeRequest,
    ) -> Result<Next, String> {
        if request.do_not_reconcile {
            return Ok(Next::At(None));
        }
        if Instant::now() < self.probe_at {
            return Ok(Next::At(Some(self.probe_at)));
        }
        let wanted = request.has_target();
        let shared = Arc::clone(&self.shared);
        let permits = if wanted { &shared.looks } else { &shared.glances };
        let permit = permits.acquire().await.map_err(|error| error.to_string())?;
        let versions = self.ask(object, request).await;
        drop(permit);
        let every = self.shared.probe_interval;
        self.probe_pause = match &versions {
            Ok(_) => every,
            Err(_) if self.probe_pause >= every => LOOK_AGAIN.min(every),
            Err(_) => (self.probe_pause * 2).min(every),
        };
        let pause = match &versions {
            Ok(_) => observe::until_next_probe(&self.key, every, clock::since_boot()),
            Err(_) => self.probe_pause,
        };
        self.probe_at = Instant::now() + pause;
        self.versions = Some(versions);
        Ok(Next::Now)
    }

    /// Asks the cluster what runs: all that a plan needs, if something is wanted.
    async fn ask(
        &mut self,
        object: &KubernetesCluster,
        request: &UpgradeRequest,
    ) -> Result<ObservedVersions, String> {
        (self.observation, self.connection) = (None, None);
        let connection = self.connect(object).await?;
        let foreign = request.foreign(&self.shared.policy);
        if !request.has_target() {
            return probe(&connection.live, &foreign).await;
        }
        let turn = connection.live.turn().await;
        let observation = {
            let mut look = Box::pin(observe::observe_once(&connection.live));
            if let Ok(observation) = tokio::time::timeout(limiter::COUNTS, &mut look).await {
                observation
            } else {
                // A cluster that hangs holds up nobody who has begun.
                let began = self.beginning.take().is_some();
                let observation = look.await;
                self.beginning = began.then(|| self.shared.start_gate.enter());
                observation
            }
        };
        drop(turn);
        let observation = observation?;
        let versions = ObservedVersions::of(&observation.snapshot, &foreign);
        let gaps = observation.has_gaps(&foreign);
        self.observation = (!gaps).then(|| (Instant::now(), observation));
        self.connection = Some(connection);
        versions
    }
}

/// What is kept of a run: not its plan, and not its journal.
pub(super) fn remember(run: &UpgradeRun, latest: &Latest) -> Option<LastRun> {
    let (product, to) = target(run)?;
    let status = run.status.clone().unwrap_or_default();
    let (done, total) = status.progress.split_once('/').unwrap_or(("0", "0"));
    let view = RunView {
        product,
        to,
        rollback: run.spec.rollback,
        phase: status.phase,
        message: status.message,
        done: done.parse().unwrap_or(0),
        total: total.parse().unwrap_or(0),
        target_removed: false,
    };
    let removals = latest.removals(view.product);
    Some(LastRun { name: run.name_any(), view, hash: run.spec.hash.clone(), removals })
}
