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
mod driving;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::Policy;
use vitistack_api::KubernetesCluster;
use vitistack_api::run::{Product, RunPhase, UpgradeRun};
use vitistack_api::status::Status;

use crate::connect::Connector;
use crate::decide::target::Releases;
use crate::decide::{Act, Facts, RunView, Verdict, Write, decide};
use crate::drive::Drive;
use crate::http::{Counted, Metrics};
use crate::hub::said;
use crate::lease::{Hold, LeaseError, Name, Watched};
use crate::look;
use crate::members::Members;
use crate::news::{Item, News};
use crate::run::RunStore;
use crate::seen::Seen;
use crate::wish::Wish;
use crate::{clock, names, write};

/// How soon something that failed for now is tried again.
const SOON: Duration = Duration::from_secs(5);

/// The first pause after a look that failed; it doubles up to the usual one.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// One call.
const CALL: Duration = Duration::from_secs(10);

/// The shortest time between two messages of progress.
const BREATH: Duration = Duration::from_secs(1);

/// What all tasks share.
pub struct Shared {
    /// The API server of the platform.
    pub client: kube::Client,
    /// Who we are.
    pub identity: String,
    /// Where Leases are.
    pub namespace: String,
    /// The way to clusters.
    pub connector: Connector,
    /// What a user's annotations change.
    pub policy: Policy,
    /// What Talos supports.
    pub matrix: Matrix,
    /// What was released, which may change.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// Who shares the clusters.
    pub members: watch::Receiver<Members>,
    /// True once everything is to end.
    pub ending: watch::Receiver<bool>,
    /// How many clusters without a target are looked at together.
    pub glances: Semaphore,
    /// How many with one.
    pub looks: Semaphore,
    /// How many tasks ask the hub for something large, or write, together: a
    /// thousand that wake up at once would only wait for each other.
    pub asks: Semaphore,
    /// How often a cluster is looked at that nobody wants anything of.
    pub look_every: Duration,
    /// Where Events go.
    pub news: News,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// The newest state of an object, and how often each target was seen to be gone.
#[derive(Clone, Debug)]
pub struct Latest {
    /// The object.
    pub object: Arc<KubernetesCluster>,
    /// For Talos and Kubernetes.
    pub gone: [u64; 2],
}

impl Latest {
    fn gone(&self, product: Product) -> u64 {
        self.gone[usize::from(product == Product::Kubernetes)]
    }
}

/// What is remembered of the newest run while nobody drives it.
struct Last {
    name: String,
    view: RunView,
    /// How often its target had been gone when it was read.
    gone: u64,
}

/// The task of one cluster.
pub struct Task {
    shared: Arc<Shared>,
    key: String,
    latest: watch::Receiver<Option<Latest>>,
    members: watch::Receiver<Members>,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    ending: watch::Receiver<bool>,
    /// What we wrote ourselves may be newer than what the watch has shown.
    own: Option<Arc<KubernetesCluster>>,
    seen: Option<Result<Seen, String>>,
    look_at: Instant,
    look_pause: Duration,
    /// The targets of the last round: a new one is judged on a new look.
    targets: (Option<String>, Option<String>),
    last: Option<Last>,
    /// Whether `last` was read since the cluster became ours.
    loaded: bool,
    hold: Option<Hold>,
    watched: Watched,
    drive: Option<Drive>,
    /// The run is being ended by its user.
    cancelling: bool,
    /// Since when the run cannot be driven, and why.
    stuck: Option<(Instant, String)>,
    panics: u32,
    /// When the keys of the run under way are compared again.
    keys_at: Instant,
    /// How the cluster is counted, while it is ours.
    counted: Counted,
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

impl Task {
    /// A task for one cluster.
    pub fn new(shared: Arc<Shared>, key: String, latest: watch::Receiver<Option<Latest>>) -> Self {
        let counted = Counted::new(Arc::clone(&shared.metrics));
        Self {
            look_pause: shared.look_every,
            members: shared.members.clone(),
            catalogue: shared.catalogue.clone(),
            ending: shared.ending.clone(),
            shared,
            key,
            latest,
            own: None,
            seen: None,
            look_at: Instant::now(),
            targets: (None, None),
            last: None,
            loaded: false,
            hold: None,
            watched: Watched::default(),
            drive: None,
            cancelling: false,
            stuck: None,
            panics: 0,
            keys_at: Instant::now(),
            counted,
        }
    }

    /// Works until the object is gone or everything ends.
    pub async fn run(mut self) {
        loop {
            let began = Instant::now();
            let round = self.round().await;
            self.shared.metrics.reconciled(round.is_ok(), began.elapsed().as_secs_f64());
            let next = match round {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(cluster = self.key, "{error}; tried again");
                    Next::At(Some(Instant::now() + SOON))
                }
            };
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
        tokio::select! {
            // An error is the end of the controller.
            changed = self.latest.changed() => if changed.is_err() { moment_of_rest().await },
            () = drive => progress = true,
            Ok(()) = self.members.changed() => {}
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
        if self.hold.as_ref().is_some_and(Hold::is_lost) {
            self.lost().await;
        }
        let ours = self.members.borrow_and_update().owner(&self.key) == Some(&self.shared.identity);
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
        let wish = Wish::read(object.annotations());
        let targets = (wish.talos.clone(), wish.kubernetes.clone());
        if self.targets != targets {
            if self.drive.is_none() && targets != (None, None) {
                self.seen = None;
            }
            self.targets = targets;
        }
        let verdict = self.decide(&object, &latest, &wish);
        self.act(&object, &wish, verdict).await
    }

    fn decide(&mut self, object: &KubernetesCluster, latest: &Latest, wish: &Wish) -> Verdict {
        let catalogue = Arc::clone(&self.catalogue.borrow_and_update());
        let view = self.view(latest);
        let told = |product| object.annotation(names::status(product)).and_then(Status::parse);
        for product in names::PRODUCTS {
            self.counted.set(product, told(product));
        }
        decide(&Facts {
            wish,
            talos_said: told(Product::Talos),
            kubernetes_said: told(Product::Kubernetes),
            phase: object.phase(),
            seen: self.seen.as_ref().map(|seen| seen.as_ref().map_err(String::as_str)),
            run: view.as_ref(),
            releases: Releases { matrix: &self.shared.matrix, catalogue: &catalogue },
        })
    }

    /// The newest run, as it stands now.
    fn view(&self, latest: &Latest) -> Option<RunView> {
        let last = self.last.as_ref()?;
        let mut view = last.view.clone();
        view.let_go = latest.gone(view.product) > last.gone;
        if let Some(drive) = &self.drive {
            let picture = drive.picture.borrow();
            (view.done, view.total) = (picture.done, picture.total);
            view.message.clone_from(&picture.message);
            if let Some(waits) = drive.waits.borrow().as_ref() {
                view.message.clone_from(waits);
            }
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
        wish: &Wish,
        verdict: Verdict,
    ) -> Result<Next, String> {
        let Verdict { write, act } = verdict;
        let run = self.last.as_ref().map(|last| last.view.phase);
        let idle_pause = matches!(act, Act::Pause { .. }) && run == Some(RunPhase::Paused);
        let needs_lease = match act {
            Act::Begin { .. } | Act::Drive | Act::Cancel => true,
            Act::Pause { .. } => !idle_pause,
            Act::Rest | Act::Look | Act::Close => false,
        };
        if needs_lease && self.hold.is_none() {
            return self.take_lease(object).await;
        }
        if let Some(write) = &write
            && !self.tell(object, write).await?
        {
            // Somebody else wrote meanwhile; the watch brings it.
            return Ok(Next::At(Some(Instant::now() + BREATH)));
        }
        match act {
            Act::Drive | Act::Cancel | Act::Pause { .. } if !idle_pause => {
                self.keep_driving(object, &act).await
            }
            Act::Begin { product, target } => self.begin(object, wish, product, &target).await,
            Act::Close => self.close(object).await,
            Act::Look => {
                self.look_at = Instant::now();
                self.glance(object, wish).await
            }
            _ => {
                if self.drive.is_none()
                    && let Some(hold) = self.hold.take()
                {
                    hold.release().await;
                }
                self.glance(object, wish).await
            }
        }
    }

    /// The object as it is known best.
    fn newest(&mut self, latest: &Latest) -> Arc<KubernetesCluster> {
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

    fn forget(&mut self) {
        (self.loaded, self.last, self.seen, self.stuck) = (false, None, None, None);
        self.counted.clear();
    }

    fn store(&self, object: &KubernetesCluster) -> RunStore {
        RunStore::new(self.shared.client.clone(), object)
    }

    /// Reads what is known of runs.
    async fn load(&mut self, object: &KubernetesCluster, latest: &Latest) -> Result<(), String> {
        let _ask = self.shared.asks.acquire().await.map_err(|error| error.to_string())?;
        let newest = tokio::time::timeout(CALL, self.store(object).newest()).await;
        let newest = newest.map_err(|_| "the runs cannot be read: no answer")?;
        let newest =
            newest.map_err(|error| format!("the runs cannot be read: {}", said(&error)))?;
        self.last = newest.and_then(|run| remember(&run, latest));
        self.loaded = true;
        Ok(())
    }

    async fn take_lease(&mut self, object: &KubernetesCluster) -> Result<Next, String> {
        let name = Name {
            namespace: self.shared.namespace.clone(),
            // A cluster made anew under an old name is another one.
            lease: format!("upgrade-{}", object.uid().unwrap_or_default()),
            holder: self.shared.identity.clone(),
            about: self.key.clone(),
        };
        match Hold::take(self.shared.client.clone(), name, &self.watched).await {
            Ok(hold) => {
                self.hold = Some(hold);
                // What was read before may be somebody else's past.
                self.loaded = false;
                Ok(Next::Now)
            }
            Err(LeaseError::Held(by)) => {
                tracing::debug!(cluster = self.key, by, "somebody else drives");
                self.loaded = false;
                Ok(Next::At(Some(Instant::now() + SOON)))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The lease ran out: whatever this process drove is not its any more.
    async fn lost(&mut self) {
        tracing::warn!(cluster = self.key, "the lease ran out");
        self.shared.metrics.lease_lost();
        self.stop_driving(Duration::from_secs(1)).await;
        self.hold = None;
        self.forget();
    }

    /// Writes what is to be told; false if somebody else was faster. The status
    /// goes first: whoever waits for an annotation finds the phase in place.
    async fn tell(
        &mut self,
        object: &Arc<KubernetesCluster>,
        write: &Write,
    ) -> Result<bool, String> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<KubernetesCluster> = Api::namespaced(self.shared.client.clone(), &namespace);
        let name = object.name_any();
        let params = PatchParams {
            field_manager: Some("talos-operator".to_owned()),
            ..PatchParams::default()
        };
        let mut now = Arc::clone(object);
        let shared = Arc::clone(&self.shared);
        let _ask = shared.asks.acquire().await.map_err(|error| error.to_string())?;
        if let Some(patch) = write::status(&now, write, &clock::stamp()) {
            match patched(api.patch_status(&name, &params, &Patch::Merge(&patch))).await? {
                Some(written) => now = Arc::new(trimmed(written)),
                None => return Ok(false),
            }
            self.own = Some(Arc::clone(&now));
        }
        if let Some(patch) = write::annotations(&now, write) {
            let before = Arc::clone(&now);
            match patched(api.patch(&name, &params, &Patch::Merge(&patch))).await? {
                Some(written) => now = Arc::new(trimmed(written)),
                None => return Ok(false),
            }
            self.announce(&before, write);
            self.own = Some(now);
        }
        Ok(true)
    }

    /// Tells those who listen what changed.
    fn announce(&self, before: &KubernetesCluster, write: &Write) {
        for product in names::PRODUCTS {
            let said = before.annotation(names::status(product)).and_then(Status::parse);
            let words = write.of(product);
            if said != Some(words.status) {
                self.shared.metrics.transition(product, said, words.status);
            }
            if let Some(status) = write::transition(before, write, product) {
                let item = Item::status(product, status, &words.message);
                self.shared.news.tell(before, item);
            }
        }
    }

    /// Looks at the cluster, if it is time.
    async fn glance(&mut self, object: &KubernetesCluster, wish: &Wish) -> Result<Next, String> {
        if wish.hands_off {
            return Ok(Next::At(None));
        }
        if Instant::now() < self.look_at {
            return Ok(Next::At(Some(self.look_at)));
        }
        let wanted = wish.talos.is_some() || wish.kubernetes.is_some();
        let permits = if wanted { &self.shared.looks } else { &self.shared.glances };
        let permit = permits.acquire().await.map_err(|error| error.to_string())?;
        let seen = async {
            let keys = self.shared.connector.keys(object).await?;
            let live = self.shared.connector.live(object, &keys).await?;
            Seen::of(&look::glance(&live).await?)
        };
        let seen = seen.await;
        drop(permit);
        let every = self.shared.look_every;
        self.look_pause = match &seen {
            Ok(_) => every,
            Err(_) if self.look_pause >= every => LOOK_AGAIN.min(every),
            Err(_) => (self.look_pause * 2).min(every),
        };
        self.look_at = Instant::now() + self.look_pause;
        self.seen = Some(seen);
        Ok(Next::Now)
    }
}

/// What a patch led to; `None` if somebody else was faster.
async fn patched(
    sent: impl Future<Output = Result<KubernetesCluster, kube::Error>>,
) -> Result<Option<KubernetesCluster>, String> {
    match tokio::time::timeout(CALL, sent).await {
        Ok(Ok(written)) => Ok(Some(written)),
        Ok(Err(kube::Error::Api(answer))) if matches!(answer.code, 404 | 409) => Ok(None),
        Ok(Err(error)) => Err(format!("the cluster's object cannot be written: {}", said(&error))),
        Err(_) => Err("the cluster's object cannot be written: no answer".to_owned()),
    }
}

/// An object without what nobody here reads, of which there may be much.
pub fn trimmed(mut object: KubernetesCluster) -> KubernetesCluster {
    object.metadata.managed_fields = None;
    object.metadata.labels = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.retain(|key, _| {
            key.starts_with(vitistack_api::annotation::PREFIX)
                || vitistack_api::annotation::DO_NOT_RECONCILE.contains(&key.as_str())
        });
    }
    if let Some(state) = object.status.as_mut().and_then(|status| status.state.as_mut()) {
        // Only whether it is there counts.
        *state = serde_json::Value::Bool(true);
    }
    object
}

/// What is kept of a run: not its plan, and not its journal.
fn remember(run: &UpgradeRun, latest: &Latest) -> Option<Last> {
    let to = run.spec.to.parse().ok()?;
    let status = run.status.clone().unwrap_or_default();
    let (done, total) = status.progress.split_once('/').unwrap_or(("0", "0"));
    let view = RunView {
        product: run.spec.product,
        to,
        rollback: run.spec.rollback,
        phase: status.phase,
        message: status.message,
        done: done.parse().unwrap_or(0),
        total: total.parse().unwrap_or(0),
        let_go: false,
    };
    let gone = latest.gone(view.product);
    Some(Last { name: run.name_any(), view, gone })
}

/// For a task whose controller is gone: everything is about to end.
async fn moment_of_rest() {
    tokio::time::sleep(BREATH).await;
}
