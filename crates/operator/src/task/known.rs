//! What is known of the cluster: its object, its newest run, what runs on it.

use std::sync::Arc;

use kube::ResourceExt as _;
use tokio::time::Instant;
use upgrade_engine::io::Io as _;
use vitistack_api::KubernetesCluster;
use vitistack_api::run::{RunPhase, UpgradeRun};

use super::{LOOK_AGAIN, Latest, Next, Task};
use crate::decide::RunView;
use crate::glance::glance;
use crate::hub::answer;
use crate::lease::Hold;
use crate::look;
use crate::pace::{self, Paced};
use crate::run::{HeldRuns, UpgradeRuns, target};
use crate::seen::Seen;
use crate::wish::Wish;
use crate::{clock, past};

/// What is remembered of the newest run while nobody drives it.
pub(super) struct Last {
    pub(super) name: String,
    pub(super) view: RunView,
    /// Of its plan; empty if it has none.
    pub(super) hash: String,
    /// How often its target had been gone when it was read.
    pub(super) gone: u64,
}

/// A cluster's live side, and the digest of the keys that opened it.
pub(super) struct Reached {
    pub(super) keys: [u8; 32],
    pub(super) live: Paced,
}

impl Task {
    /// Reads the keys of the cluster and makes its live side.
    pub(super) async fn reach(&self, object: &KubernetesCluster) -> Result<Reached, String> {
        let keys = self.shared.connector.keys(object).await?;
        let live = self.shared.connector.live(object, &keys).await?;
        Ok(Reached { keys: keys.digest(), live })
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
        (self.seen, self.stuck) = (None, None);
        self.counted.clear();
    }

    pub(super) fn store(&self, object: &KubernetesCluster) -> UpgradeRuns {
        UpgradeRuns::new(self.shared.client.clone(), object)
    }

    /// The same, for driving: only with the lease.
    pub(super) fn held(&self, object: &KubernetesCluster, hold: &Hold) -> HeldRuns {
        HeldRuns {
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
        let newest = answer(self.store(object).newest()).await;
        let (newest, count) = newest.map_err(|why| format!("the runs cannot be read: {why}"))?;
        let mut last = newest.as_ref().and_then(|run| remember(run, latest));
        if let (Some(run), Some(last)) = (&newest, &mut last)
            && last.view.phase == RunPhase::Halted
        {
            let client = self.shared.client.clone();
            last.view.let_go = past::was_let_go(client, object, run).await?;
        }
        (self.last, self.runs, self.loaded) = (last, count, true);
        Ok(())
    }

    /// Looks at the cluster, if it is time.
    pub(super) async fn glance(
        &mut self,
        object: &KubernetesCluster,
        wish: &Wish,
    ) -> Result<Next, String> {
        if wish.hands_off {
            return Ok(Next::At(None));
        }
        if Instant::now() < self.look_at {
            return Ok(Next::At(Some(self.look_at)));
        }
        let wanted = wish.wants();
        let shared = Arc::clone(&self.shared);
        let permits = if wanted { &shared.looks } else { &shared.glances };
        let permit = permits.acquire().await.map_err(|error| error.to_string())?;
        let seen = self.ask(object, wish).await;
        drop(permit);
        let every = self.shared.look_every;
        self.look_pause = match &seen {
            Ok(_) => every,
            Err(_) if self.look_pause >= every => LOOK_AGAIN.min(every),
            Err(_) => (self.look_pause * 2).min(every),
        };
        let pause = match &seen {
            Ok(_) => look::pause(&self.key, every, clock::since_boot()),
            Err(_) => self.look_pause,
        };
        self.look_at = Instant::now() + pause;
        self.seen = Some(seen);
        Ok(Next::Now)
    }

    /// Asks the cluster what runs: all that a plan needs, if something is wanted.
    async fn ask(&mut self, object: &KubernetesCluster, wish: &Wish) -> Result<Seen, String> {
        (self.looked, self.reached) = (None, None);
        let reached = self.reach(object).await?;
        let foreign = wish.foreign(&self.shared.policy);
        if !wish.wants() {
            return glance(&reached.live, &foreign).await;
        }
        let turn = reached.live.turn().await;
        let looked = {
            let mut look = Box::pin(look::look_now(&reached.live));
            if let Ok(looked) = tokio::time::timeout(pace::COUNTS, &mut look).await {
                looked
            } else {
                // A cluster that hangs holds up nobody who has begun.
                let began = self.beginning.take().is_some();
                let looked = look.await;
                self.beginning = began.then(|| self.shared.rush.enter());
                looked
            }
        };
        drop(turn);
        let looked = looked?;
        let seen = Seen::of(&looked.snapshot, &foreign);
        let gaps = looked.has_gaps(&foreign);
        self.looked = (!gaps).then(|| (Instant::now(), looked));
        self.reached = Some(reached);
        seen
    }
}

/// What is kept of a run: not its plan, and not its journal.
pub(super) fn remember(run: &UpgradeRun, latest: &Latest) -> Option<Last> {
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
        let_go: false,
    };
    let gone = latest.gone(view.product);
    Some(Last { name: run.name_any(), view, hash: run.spec.hash.clone(), gone })
}
