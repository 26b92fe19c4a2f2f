//! One cluster: a task of its own that reads, decides, writes and drives.
//!
//! Whatever happens to one cluster stays in its task: a panic ends it and it is
//! begun anew, a cluster that hangs holds up nobody else, and how many are
//! looked at together is bounded.
//!
//! A cluster is worked on by the replica that it belongs to ([`crate::members`]),
//! and by one that drives it already. Whoever begins or drives a run holds the
//! cluster's [`Lease`](crate::lease); what is known of runs is read anew then.

mod begin;
mod context;
mod drive;
mod report;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use upgrade_api::run::RunPhase;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::observation::Observation;
use upgrade_core::product::Product;
use vitistack_api::KubernetesCluster;
use vitistack_api::status::Status;

use crate::annotations::UpgradeRequest;
use crate::decide::target::Releases;
use crate::decide::{Decision, Facts, NextAction, RunView, decide};
use crate::drive::Drive;
use crate::error_log::ErrorLog;
use crate::http::StatusGauge;
use crate::keys;
use crate::lease::{HeldLease, ObservedLease};
use crate::shard::Replicas;
use crate::start_gate::StartTicket;
use crate::versions_observed::ObservedVersions;

pub use context::{Context, Latest, trimmed};

use begin::NewlyMade;
use state::{Connection, LastRun};

/// How soon something that failed for now is tried again.
const SOON: Duration = Duration::from_secs(5);

/// The first pause after a look that failed; it doubles up to the usual one.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// The shortest time between two messages of progress.
const BREATH: Duration = Duration::from_secs(1);

/// The task of one cluster.
pub struct Reconciler {
    shared: Arc<Context>,
    key: String,
    latest: watch::Receiver<Option<Latest>>,
    replicas: watch::Receiver<Replicas>,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    ending: watch::Receiver<bool>,
    /// What we wrote ourselves may be newer than what the watch has shown.
    own: Option<Arc<KubernetesCluster>>,
    versions: Option<Result<ObservedVersions, String>>,
    /// The last look at a cluster with a target, and when it was: a run that
    /// begins right after it needs no other.
    observation: Option<(Instant, Observation)>,
    probe_at: Instant,
    probe_pause: Duration,
    /// The targets of the last round: a new one is judged on a new look.
    targets: (Option<String>, Option<String>),
    last: Option<LastRun>,
    /// How many runs of the cluster there are, `last` included.
    runs: usize,
    /// Whether `last` was read since the cluster became ours.
    loaded: bool,
    /// StatusGauge, while a target is there that no run was made for yet.
    beginning: Option<StartTicket>,
    /// What the last look went through: a drive that follows needs no other.
    connection: Option<Connection>,
    /// The run that was just made: nobody drives it yet.
    made: Option<NewlyMade>,
    /// The next round begins when nobody else is beginning.
    waits_for_gate: bool,
    hold: Option<HeldLease>,
    watched: ObservedLease,
    drive: Option<Drive>,
    /// The run is being ended by its user.
    cancelling: bool,
    /// Since when the run cannot be driven, and why.
    stuck: Option<(Instant, String)>,
    panics: u32,
    /// When the keys of the run under way are compared again.
    keys_at: Instant,
    /// How the cluster is counted, while it is ours.
    counted: StatusGauge,
    /// A round that fails again and again.
    trouble: ErrorLog,
}

/// What to wait for before the next round.
enum Next {
    /// Nothing: there is more to do.
    Now,
    /// Something changes, or this moment.
    At(Option<Instant>),
    /// The object is gone, or everything ends.
    Over,
}

impl Reconciler {
    /// A task for one cluster.
    pub fn new(shared: Arc<Context>, key: String, latest: watch::Receiver<Option<Latest>>) -> Self {
        let counted = StatusGauge::new(Arc::clone(&shared.metrics));
        let trouble = ErrorLog::new("the reconcile failed", "reconciled again").of(&key);
        Self {
            probe_pause: shared.probe_interval,
            replicas: shared.replicas.clone(),
            catalogue: shared.catalogue.clone(),
            ending: shared.ending.clone(),
            shared,
            key,
            latest,
            own: None,
            versions: None,
            observation: None,
            probe_at: Instant::now(),
            targets: (None, None),
            last: None,
            runs: 0,
            loaded: false,
            beginning: None,
            connection: None,
            made: None,
            waits_for_gate: false,
            hold: None,
            watched: ObservedLease::default(),
            drive: None,
            cancelling: false,
            stuck: None,
            panics: 0,
            keys_at: Instant::now(),
            counted,
            trouble,
        }
    }

    /// Works until the object is gone or everything ends.
    pub async fn run(mut self) {
        loop {
            let began = Instant::now();
            let round = self.round().await;
            self.shared.metrics.reconciled(round.is_ok(), began.elapsed().as_secs_f64());
            let next = match round {
                Ok(next) => {
                    self.trouble.recovered();
                    next
                }
                Err(error) => {
                    self.trouble.failed(&error);
                    Next::At(Some(Instant::now() + SOON))
                }
            };
            if !matches!(next, Next::Now) {
                self.beginning = None;
            }
            match next {
                Next::Now => tokio::task::yield_now().await,
                Next::Over => break,
                Next::At(at) => self.wait(at).await,
            }
        }
        self.hand_over().await;
    }

    /// Lets go of everything at once: whoever comes next resumes.
    async fn hand_over(&mut self) {
        self.stop_driving(Duration::from_secs(2)).await;
        if let Some(hold) = self.hold.take() {
            hold.release().await;
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
        let start_gate = async {
            if waits_for_gate {
                self.shared.start_gate.over().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = start_gate => {}
            // An error is the end of the controller.
            changed = self.latest.changed() => if changed.is_err() { end_of_controller().await },
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

    /// One round: read, decide, write, do.
    async fn round(&mut self) -> Result<Next, String> {
        if *self.ending.borrow_and_update() {
            return Ok(Next::Over);
        }
        let Some(latest) = self.latest.borrow_and_update().clone() else {
            return Ok(Next::Over);
        };
        let object = self.newest(&latest);
        if self.drive.as_ref().is_some_and(Drive::is_over) {
            self.ended().await?;
        }
        if self.hold.as_ref().is_some_and(HeldLease::is_lost) {
            self.lost().await;
        }
        let ours =
            self.replicas.borrow_and_update().owner(&self.key) == Some(&self.shared.identity);
        if !ours && self.drive.is_none() {
            if let Some(hold) = self.hold.take() {
                hold.release().await;
            }
            self.forget();
            return Ok(Next::At(None));
        }
        if !self.loaded {
            self.load(&object, &latest).await?;
        }
        let request = UpgradeRequest::from_annotations(object.annotations());
        let targets = (request.talos.clone(), request.kubernetes.clone());
        if self.targets != targets {
            if self.drive.is_none() && targets != (None, None) {
                self.versions = None;
                self.beginning = Some(self.shared.start_gate.enter());
            }
            self.targets = targets;
        }
        let decision = self.decide(&object, &latest, &request);
        self.act(&object, &request, decision).await
    }

    fn decide(
        &mut self,
        object: &KubernetesCluster,
        latest: &Latest,
        request: &UpgradeRequest,
    ) -> Decision {
        let catalogue = Arc::clone(&self.catalogue.borrow_and_update());
        let view = self.view(latest);
        let reported = |product| object.annotation(keys::status(product)).and_then(Status::parse);
        for product in keys::PRODUCTS {
            self.counted.set(product, reported(product));
        }
        decide(&Facts {
            request,
            talos_reported: reported(Product::Talos),
            kubernetes_reported: reported(Product::Kubernetes),
            phase: object.phase(),
            observed: self
                .versions
                .as_ref()
                .map(|versions| versions.as_ref().map_err(String::as_str)),
            run: view.as_ref(),
            releases: Releases { matrix: &self.shared.matrix, catalogue: &catalogue },
        })
    }

    /// The newest run, as it stands now.
    fn view(&self, latest: &Latest) -> Option<RunView> {
        let last = self.last.as_ref()?;
        let mut view = last.view.clone();
        view.target_removed |= latest.removals(view.product) > last.removals;
        if let Some(drive) = &self.drive {
            let progress = drive.progress.borrow();
            (view.done, view.total) = (progress.done, progress.total);
            view.message.clone_from(&progress.message);
            if let Some(waits) = drive.waits.borrow().as_ref() {
                view.message.clone_from(waits);
            }
        }
        if self.made.as_ref().is_some_and(|made| made.waits) {
            "Waiting: other clusters begin first".clone_into(&mut view.message);
        }
        if let Some((_, why)) = &self.stuck {
            view.message = format!("Waiting: {why}");
        }
        Some(view)
    }

    /// Does what was decided; writes first what is to be seen meanwhile.
    async fn act(
        &mut self,
        object: &Arc<KubernetesCluster>,
        request: &UpgradeRequest,
        decision: Decision,
    ) -> Result<Next, String> {
        let Decision { update, next: act } = decision;
        let run = self.last.as_ref().map(|last| last.view.phase);
        let idle_pause = matches!(act, NextAction::Pause { .. }) && run == Some(RunPhase::Paused);
        let needs_lease = match act {
            NextAction::Begin { .. } | NextAction::Drive | NextAction::Cancel => true,
            NextAction::Pause { .. } => !idle_pause,
            NextAction::Idle | NextAction::Observe | NextAction::Close => false,
        };
        if needs_lease && self.hold.is_none() {
            return self.take_lease(object).await;
        }
        // Planned at once on what was just seen: nobody would read that it is planned.
        // Unless it is the first that the object says.
        let reported = !object.phase().is_empty();
        let at_once =
            reported && matches!(act, NextAction::Begin { .. }) && self.has_fresh_observation();
        if let Some(update) = update.filter(|_| !at_once)
            && !self.write_status(object, &update).await?
        {
            // Somebody else wrote meanwhile; the watch brings it.
            return Ok(Next::At(Some(Instant::now() + BREATH)));
        }
        match act {
            NextAction::Drive | NextAction::Cancel | NextAction::Pause { .. } if !idle_pause => {
                Box::pin(self.keep_driving(object, &act)).await
            }
            // Boxed, as all that is large: most tasks of a fleet only wait.
            NextAction::Begin { product, target } => {
                Box::pin(self.begin(object, request, product, &target)).await
            }
            NextAction::Close => self.close(object).await,
            NextAction::Observe => {
                self.probe_at = Instant::now();
                Box::pin(self.probe_if_due(object, request)).await
            }
            _ => {
                if self.drive.is_none()
                    && let Some(hold) = self.hold.take()
                {
                    hold.release().await;
                }
                Box::pin(self.probe_if_due(object, request)).await
            }
        }
    }
}

/// For a task whose controller is gone: everything is about to end.
async fn end_of_controller() {
    tokio::time::sleep(BREATH).await;
}
