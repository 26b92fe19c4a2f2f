//! Begins a run: looks, plans, and makes its object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upgrade_core::plan::PlanHash;
use upgrade_core::product::{PerProduct, Product, VersionRange};
use upgrade_core::version::Version;
use upgrade_planner::Earlier;
use vitistack_api::KubernetesCluster;
use vitistack_api::run::{ProductVersions, RunPhase, RunVersions, UpgradeRun};

use super::known::{Reached, remember};
use super::{Next, SOON, Task};
use crate::advice;
use crate::hub::answer;
use crate::lease::Hold;
use crate::look::{self, Order};
use crate::news::Item;
use crate::run::{KEEP, NewRun, Unread, UpgradeRuns, cast};
use crate::seen::Seen;
use crate::wish::Wish;

/// How old a look may be that is planned on. It is the one that the target was
/// judged on, a few requests to the hub ago; whoever drives the plan looks
/// again before every act (rule 2).
const FRESH: Duration = Duration::from_secs(20);

/// A run as it was made, and what its cluster was seen through.
pub(super) struct Made {
    at: Instant,
    pub(super) run: UpgradeRun,
    pub(super) reached: Option<Reached>,
    /// Whether others were beginning then. What is told of it stays the same until it
    /// is driven: every word is two requests to a busy hub.
    pub(super) waits: bool,
}

impl Task {
    /// Looks at the cluster, plans, and makes a run; or one that failed before
    /// it began, which says why.
    pub(super) async fn begin(
        &mut self,
        object: &Arc<KubernetesCluster>,
        wish: &Wish,
        product: Product,
        target: &Version,
    ) -> Result<Next, String> {
        // Who has no lease plans nothing: somebody else may drive the cluster (rule 9), and
        // what earlier runs left armed is read under it (rule 5).
        if self.hold.as_ref().is_none_or(Hold::is_lost) {
            return Ok(Next::Now);
        }
        let shared = Arc::clone(&self.shared);
        let foreign = wish.foreign(&shared.policy);
        let store = self.store(object);
        let fresh = self.saw_just_now();
        let looked = if let Some((_, looked)) = self.looked.take().filter(|_| fresh) {
            Ok(looked)
        } else {
            // Something could not be seen: that may take long, and holds up nobody else.
            self.beginning = None;
            let permit = shared.looks.acquire().await.map_err(|error| error.to_string())?;
            let looked = async {
                let reached = self.reach(object).await?;
                look::look(&reached.live, &foreign).await
            };
            let looked = looked.await;
            drop(permit);
            looked.map_err(|why| format!("the cluster cannot be seen: {why}"))
        };
        if !self.still_wanted(wish) {
            return Ok(Next::Now);
        }
        let catalogue = Arc::clone(&shared.catalogue.borrow());
        // Refused runs have no plan, so they replace none.
        let parent = match &looked {
            Ok(_) => self.parent(&store).await?,
            Err(_) => None,
        };
        let armed = match store.inherited(parent.clone()).await {
            Ok(left) => Ok(left.armed),
            Err(Unread::Broken(why)) => Err(why),
            Err(Unread::Away(why)) => return Err(why),
        };
        let planned = match (&looked, wish.policy(&shared.policy), &armed) {
            (Err(why), ..) | (_, _, Err(why)) => Err(why.clone()),
            (_, Err(why), _) => Err(why),
            (Ok(looked), Ok(policy), Ok(armed)) => {
                let order = Order {
                    product,
                    target,
                    rollback: wish.rollback,
                    policy: &policy,
                    matrix: &shared.matrix,
                    catalogue: &catalogue,
                    earlier: Earlier { parent: parent.as_ref(), armed },
                };
                look::plan(looked, &order)
            }
        };
        let (plan, warnings) = match planned {
            Ok((plan, warnings)) => (Ok(plan), warnings),
            Err(why) => (Err(why), Vec::new()),
        };
        let nodes = looked.as_ref().map_or_else(|_| BTreeMap::new(), |it| cast(&it.snapshot));
        let seen = looked.as_ref().ok().map(|it| Seen::of(&it.snapshot, &foreign));
        let running = looked.as_ref().map(|it| it.snapshot.versions()).unwrap_or_default();
        let new = NewRun {
            versions: versions(running, product, target),
            rollback: wish.rollback,
            plan: plan.as_ref().map_err(String::as_str),
            cast: &nodes,
            runner: &shared.identity,
        };
        if self.hold.as_ref().is_none_or(Hold::is_lost) {
            return Ok(Next::Now);
        }
        let made = match answer(store.create(&new)).await {
            Ok(made) => made,
            Err(why) => {
                // It may be there all the same, without its first status: then
                // it is this one that is gone on with.
                self.loaded = false;
                return Err(format!("the run cannot be made: {why}"));
            }
        };
        for warning in warnings {
            let advice = warning.advice().map(|it| format!(" ({})", advice::brief(&it, product)));
            let text = format!("{warning}{}", advice.unwrap_or_default());
            shared.news.tell(object, Item::warning(product, &text));
        }
        if seen.is_some() {
            self.seen = seen;
            self.look_at = Instant::now() + self.shared.look_every;
        }
        let latest = self.latest.borrow().clone();
        self.last = latest.and_then(|latest| remember(&made, &latest));
        self.beginning = None;
        if plan.is_ok() {
            let waits = self.shared.rush.is_on();
            // A thousand that wait must not have everything open.
            let reached = self.reached.take().filter(|_| !waits);
            self.made = Some(Made { at: Instant::now(), run: made, reached, waits });
        }
        self.runs += 1;
        if self.runs > KEEP {
            tokio::spawn(async move { store.prune().await });
        }
        Ok(Next::Now)
    }

    /// Whether what was seen last may be planned on.
    pub(super) fn saw_just_now(&self) -> bool {
        self.looked.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH)
    }

    /// Until when the run that was just made waits for others that begin.
    pub(super) fn waits_for_others(&self) -> Option<Instant> {
        self.shared.rush.until(self.made.as_ref()?.at, Instant::now())
    }

    /// The plan that is replaced: of the newest run that had one, if it did not come
    /// to its end. Its cordons are taken over (rule 7). The newest run was read since
    /// the lease is ours, and nobody else makes runs.
    async fn parent(&self, store: &UpgradeRuns) -> Result<Option<PlanHash>, String> {
        let Some(last) = &self.last else { return Ok(None) };
        let (hash, phase) = if last.hash.is_empty() {
            // It was refused, and changed nothing: the one before it counts.
            let Some(run) = answer(store.newest_planned()).await? else { return Ok(None) };
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
    fn still_wanted(&self, wish: &Wish) -> bool {
        let latest = self.latest.borrow();
        latest.as_ref().is_some_and(|latest| Wish::read(latest.object.annotations()) == *wish)
    }

    /// A run that failed or was ended is past.
    pub(super) async fn close(&mut self, object: &KubernetesCluster) -> Result<Next, String> {
        let Some(last) = &mut self.last else {
            return Ok(Next::Now);
        };
        let store = UpgradeRuns::new(self.shared.client.clone(), object);
        let run = answer(store.get(&last.name)).await?;
        if let Some(run) = run {
            let why = "its target was taken away";
            let closed = answer(store.close(&run, &self.shared.identity, why)).await;
            closed.map_err(|error| format!("the run cannot be closed: {error}"))?;
        }
        last.view.phase = RunPhase::Cancelled;
        Ok(Next::Now)
    }
}

/// What runs, and the one product that is to change.
fn versions(
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
