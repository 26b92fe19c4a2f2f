//! One cluster: a task of its own that reads, decides, writes and drives.
//!
//! Failures of one cluster stay in its task: a panic ends it and it is started again, a
//! cluster that hangs delays no other one, and the number of observations at once is
//! bounded.
//!
//! Each round asks `step` what comes next, a pure function, and carries it out.
//!
//! A cluster is served by the replica that owns its shard ([`crate::shard`]), and by the one
//! that drives it already. A replica that starts or drives a run holds the cluster's
//! [lease](crate::lease); its runs are read again once the lease is held.

mod begin;
mod context;
mod drive;
mod error;
mod rules;
mod state;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::observation::Observation;
use upgrade_core::product::{PerProduct, Product};

use crate::connect::{ConnectError, Connection, Connector, LiveConnector};
use crate::drive::Drive;
use crate::error_log::ErrorLog;
use crate::front_end::{Decision, Desired, Facts, FrontEnd, NextAction, Releases, RunView};
use crate::http::StatusGauge;
use crate::lease::{HeldLease, ObservedLease};
use crate::limits::StartTicket;
use crate::observe::ObserveError;
use crate::shard::Replicas;
use crate::versions_observed::ObservedVersions;

pub use context::Context;
pub use error::ReconcileError;

use begin::Created;
use rules::SOON;
use state::LastRun;
use step::{Act, DriverState, Known, LeaseState, Step};

/// The shortest time between two messages of progress.
const BREATH: Duration = Duration::from_secs(1);

/// The newest object of a cluster; `None` once it is gone.
pub type Latest<F> = Option<Arc<<F as FrontEnd>::Object>>;

/// The reconciler of one cluster.
pub struct Reconciler<F: FrontEnd, C: Connector = LiveConnector> {
    context: Arc<Context<F, C>>,
    key: String,
    latest: watch::Receiver<Latest<F>>,
    replicas: watch::Receiver<Replicas>,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    ending: watch::Receiver<bool>,
    /// What we wrote ourselves may be newer than what the watch has brought.
    own: Option<Arc<F::Object>>,
    versions: Option<Result<ObservedVersions, ObserveError>>,
    /// The last observation of a cluster with a target, and when it was taken: a run that
    /// starts right after it needs no other.
    observation: Option<(Instant, Observation)>,
    observe_at: Instant,
    observe_pause: Duration,
    /// The targets of the last round: a new one is judged on a new observation.
    targets: PerProduct<Option<String>>,
    last: Option<LastRun>,
    /// How many runs of the cluster there are, `last` included.
    runs: usize,
    /// Whether `last` was read since the cluster became ours.
    loaded: bool,
    /// Counted, while there is a target without a run.
    starting: Option<StartTicket>,
    /// The connection of the last observation: a drive that follows needs no other.
    connection: Option<Connection<C::Io>>,
    /// The run that was just created: no process drives it yet.
    created: Option<Created<C::Io>>,
    /// The next round begins when no other run is starting.
    waits_for_gate: bool,
    lease: Option<HeldLease>,
    observed_lease: ObservedLease,
    drive: Option<Drive>,
    /// The run is being ended by its user.
    cancelling: bool,
    /// Since when the run cannot be driven, and why.
    stuck: Option<(Instant, ConnectError)>,
    panics: u32,
    /// When the credentials of the driven run are compared again.
    credentials_at: Instant,
    /// How the cluster is counted, while it is ours.
    gauge: StatusGauge,
    /// A round that fails repeatedly.
    errors: ErrorLog,
}

/// What to wait for before the next round.
#[derive(Debug)]
enum Next {
    /// Nothing: there is more to do.
    Now,
    /// A change, or this moment.
    At(Option<Instant>),
    /// Nothing: the object is gone, or the process ends.
    Over,
}

impl<F: FrontEnd, C: Connector> Reconciler<F, C> {
    /// A reconciler for one cluster.
    pub fn new(
        context: Arc<Context<F, C>>,
        key: String,
        latest: watch::Receiver<Latest<F>>,
    ) -> Self {
        let gauge = StatusGauge::new(Arc::clone(&context.metrics));
        let errors = ErrorLog::new("the reconcile failed", "reconciled again").of(&key);
        Self {
            observe_pause: context.probe_interval,
            replicas: context.replicas.clone(),
            catalogue: context.catalogue.clone(),
            ending: context.ending.clone(),
            context,
            key,
            latest,
            own: None,
            versions: None,
            observation: None,
            observe_at: Instant::now(),
            targets: PerProduct::default(),
            last: None,
            runs: 0,
            loaded: false,
            starting: None,
            connection: None,
            created: None,
            waits_for_gate: false,
            lease: None,
            observed_lease: ObservedLease::default(),
            drive: None,
            cancelling: false,
            stuck: None,
            panics: 0,
            credentials_at: Instant::now(),
            gauge,
            errors,
        }
    }

    /// Works until the object is gone or the process ends.
    pub async fn run(mut self) {
        loop {
            let began = Instant::now();
            let round = self.round().await;
            self.context.metrics.reconciled(round.is_ok(), began.elapsed().as_secs_f64());
            let next = match round {
                Ok(next) => {
                    self.errors.recovered();
                    next
                }
                Err(error) => {
                    self.errors.failed(&error.to_string());
                    Next::At(Some(Instant::now() + SOON))
                }
            };
            if !matches!(next, Next::Now) {
                self.starting = None;
            }
            match next {
                Next::Now => tokio::task::yield_now().await,
                Next::Over => break,
                Next::At(at) => self.wait(at).await,
            }
        }
        self.hand_over().await;
    }

    /// Gives everything back at once: another replica resumes.
    async fn hand_over(&mut self) {
        self.stop_driving(Duration::from_secs(2)).await;
        self.release().await;
    }

    async fn release(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.release().await;
        }
    }

    async fn wait(&mut self, at: Option<Instant>) {
        // They are large, and grow old.
        (self.observation, self.connection) = (None, None);
        let mut progress = false;
        let drive = async {
            match &mut self.drive {
                Some(drive) => drive.changed().await,
                None => std::future::pending().await,
            }
        };
        let moment = async {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let waits_for_gate = std::mem::take(&mut self.waits_for_gate);
        let gate = async {
            if waits_for_gate {
                self.context.limits.starts.open().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = gate => {}
            // Without a controller everything is about to end.
            changed = self.latest.changed() => if changed.is_err() {
                tokio::time::sleep(BREATH).await;
            },
            () = drive => progress = true,
            Ok(()) = self.replicas.changed() => {}
            Ok(()) = self.catalogue.changed() => {}
            Ok(()) = self.ending.changed() => {}
            () = moment => {}
        }
        if progress && self.drive.as_ref().is_some_and(|drive| !drive.is_over()) {
            tokio::time::sleep(BREATH).await;
        }
    }

    /// One round: prepares, lets the front end decide, and acts.
    async fn round(&mut self) -> Result<Next, ReconcileError> {
        loop {
            let ending = *self.ending.borrow_and_update();
            let latest = self.latest.borrow_and_update().clone().filter(|_| !ending);
            let Some(latest) = latest else { return Ok(Next::Over) };
            let object = self.newest(&latest);
            let desired = self.context.front_end.desired(&object);
            let known = self.known(&desired);
            match step::step(&known, None, Instant::now()) {
                Step::RecordEnd => self.ended().await?,
                Step::Abandon => self.lost().await,
                Step::Leave => {
                    self.release().await;
                    self.forget();
                    return Ok(Next::At(None));
                }
                Step::Load => self.load(&object, &latest, &desired).await?,
                Step::NoteTargets => self.note_targets(&desired),
                _ => {
                    let decision = self.decide(&object, &latest, &desired);
                    let step = step::step(&known, Some(&decision.next), Instant::now());
                    return self.act(&object, &desired, step, decision).await;
                }
            }
        }
    }

    /// All that the next step is decided on.
    fn known(&mut self, desired: &Desired) -> Known {
        let ours = {
            let replicas = self.replicas.borrow_and_update();
            replicas.owner(&self.key) == Some(self.context.identity.as_str())
        };
        Known {
            driver: match &self.drive {
                None => DriverState::None,
                Some(drive) if drive.is_over() => DriverState::Ended,
                Some(_) => DriverState::Drives,
            },
            lease: match &self.lease {
                None => LeaseState::None,
                Some(lease) if lease.is_lost() => LeaseState::Lost,
                Some(_) => LeaseState::Held,
            },
            ours,
            loaded: self.loaded,
            new_targets: self.targets != desired.targets,
            run: self.last.as_ref().map(|last| last.view.phase),
            has_status: desired.has_status,
            hands_off: desired.hands_off,
            observed_at: self.observation.as_ref().map(|(at, _)| *at),
            observe_at: self.observe_at,
            credentials_at: self.credentials_at,
            starts_at: self.waits_until(),
        }
    }

    /// Other versions are wanted than before.
    fn note_targets(&mut self, desired: &Desired) {
        if self.drive.is_none() && desired.has_target() {
            self.versions = None;
            self.starting = Some(self.context.limits.starts.enter());
        }
        self.targets.clone_from(&desired.targets);
    }

    fn decide(
        &mut self,
        object: &F::Object,
        latest: &F::Object,
        desired: &Desired,
    ) -> Decision<F::Update> {
        let catalogue = Arc::clone(&self.catalogue.borrow_and_update());
        let view = self.view(latest);
        for product in Product::ALL {
            self.gauge.set(product, *desired.shown.of(product));
        }
        let facts = Facts {
            versions: self.versions.as_ref().map(Result::as_ref),
            run: view.as_ref(),
            releases: Releases { matrix: &self.context.matrix, catalogue: &catalogue },
        };
        self.context.front_end.decide(object, &facts)
    }

    /// The newest run, as it stands now.
    fn view(&self, latest: &F::Object) -> Option<RunView> {
        let last = self.last.as_ref()?;
        let mut view = last.view.clone();
        let withdrawals = self.context.front_end.withdrawals(latest, &view);
        view.withdrawn |= withdrawals > last.withdrawals;
        if let Some(drive) = &self.drive {
            let progress = drive.progress.borrow();
            (view.done, view.total) = (progress.done, progress.total);
            view.message.clone_from(&progress.message);
            if let Some(waits) = drive.waits.borrow().as_ref() {
                view.message.clone_from(waits);
            }
        }
        if self.created.as_ref().is_some_and(|created| created.waits) {
            "Waiting: other clusters begin first".clone_into(&mut view.message);
        }
        if let Some((_, why)) = &self.stuck {
            view.message = format!("Waiting: {why}");
        }
        Some(view)
    }

    /// Carries out what was decided, and shows first what users should see meanwhile.
    async fn act(
        &mut self,
        object: &Arc<F::Object>,
        desired: &Desired,
        step: Step,
        decision: Decision<F::Update>,
    ) -> Result<Next, ReconcileError> {
        let Decision { update, next } = decision;
        let Step::Act { show, release, act } = step else {
            return self.take_lease(desired).await;
        };
        if let Some(update) = update.filter(|_| show)
            && !self.show(object, &update).await?
        {
            // Another process wrote meanwhile; the watch brings it.
            return Ok(Next::At(Some(Instant::now() + BREATH)));
        }
        if release {
            self.release().await;
        }
        // Boxed, as all that is large: most tasks of a fleet only wait.
        match (act, next) {
            (Act::Begin, NextAction::Begin(start)) => {
                Box::pin(self.begin(object, desired, &start)).await
            }
            (Act::Resume, next) => Box::pin(self.resume(object, desired, &next)).await,
            (Act::Command { compare_credentials }, next) => {
                self.command(object, &next, compare_credentials).await
            }
            (Act::WaitToStart(until), _) => {
                self.waits_for_gate = true;
                Ok(Next::At(Some(until)))
            }
            (Act::Close, _) => self.close(desired).await,
            (Act::Observe, _) => Box::pin(self.observe(object, desired)).await,
            (Act::Wait(at), _) => Ok(Next::At(at)),
            (Act::Begin, _) => Ok(Next::Now),
        }
    }

    /// Shows an update; false if another process wrote in between.
    async fn show(
        &mut self,
        object: &Arc<F::Object>,
        update: &F::Update,
    ) -> Result<bool, ReconcileError> {
        let context = Arc::clone(&self.context);
        let _permit = context.limits.writes.acquire().await;
        let mut written = Arc::clone(object);
        let shown = context.front_end.show(&mut written, update).await;
        // Also if only the first of two writes succeeded.
        if !Arc::ptr_eq(&written, object) {
            self.own = Some(written);
        }
        shown.map_err(ReconcileError::Show)
    }
}
