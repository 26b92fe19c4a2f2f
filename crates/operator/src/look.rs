//! Looks at a cluster, and plans on what was seen.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::matrix::Matrix;
use upgrade_core::observation::Observation;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::product::Product;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;
use upgrade_engine::io::Trouble;
use upgrade_planner::report::{Report, Warning};
use upgrade_planner::{Earlier, Request};
use vitistack_api::label;

use crate::advice;
use crate::pace::Paced;

/// A look as a whole. Each question has its own, shorter limit.
const LIMIT: Duration = Duration::from_mins(1);

/// All looks of one plan.
const ALL_LOOKS: Duration = Duration::from_mins(5);

/// How many reasons a refusal names.
const REASONS: usize = 3;

/// How long after now a cluster that rests is looked at again: at moments of
/// its own, so that a fleet is looked at evenly and not all at once.
pub fn pause(cluster: &str, every: Duration, now: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    cluster.hash(&mut hasher);
    let every = every.as_millis().max(1);
    let own = u128::from(hasher.finish()) % every;
    let left = (own + every - now.as_millis() % every) % every;
    // One that was looked at early, for other reasons, gets a whole pause.
    let left = if left < every / 2 { left + every } else { left };
    Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX))
}

/// Looks at everything that a plan needs, again if something could not be seen.
pub async fn look(live: &Paced, foreign: &BTreeSet<NodeName>) -> Result<Observation, String> {
    within(ALL_LOOKS, upgrade_engine::observe_whole(live, foreign, label::NODE_POOL)).await
}

/// Looks once at everything that a plan needs. Take a turn before.
pub async fn look_now(live: &Paced) -> Result<Observation, String> {
    within(LIMIT, upgrade_engine::observe_all(live.at_once(), label::NODE_POOL)).await
}

async fn within(
    limit: Duration,
    look: impl Future<Output = Result<Observation, Trouble>>,
) -> Result<Observation, String> {
    match tokio::time::timeout(limit, look).await {
        Ok(seen) => seen.map_err(|trouble| trouble.to_string()),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

/// What is wanted, and under which rules.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// What is upgraded.
    pub product: Product,
    /// To what.
    pub target: &'a Version,
    /// Whether it is a way back.
    pub rollback: bool,
    /// How.
    pub policy: &'a Policy,
    /// What Talos supports.
    pub matrix: &'a Matrix,
    /// What was released.
    pub catalogue: &'a Catalogue,
    /// What the runs before mean for it.
    pub earlier: Earlier<'a>,
}

/// Plans, or says why not, and what to do about it.
pub fn plan(seen: &Observation, order: &Order<'_>) -> Result<(Plan, Vec<Warning>), String> {
    let Order { product, target, rollback, policy, matrix, catalogue, earlier } = *order;
    let mut intent = Intent { rollback, prefer: Preference::TalosFirst, ..Intent::default() };
    match product {
        Product::Talos => intent.talos = Some(target.clone()),
        Product::Kubernetes => intent.kubernetes = Some(target.clone()),
    }
    let Observation { snapshot, workloads, manifests } = seen;
    let request =
        Request { snapshot, intent: &intent, policy, matrix, catalogue, workloads, manifests };
    let prepared = upgrade_planner::prepare(&request, earlier);
    if let Some(fatal) = prepared.fatal().filter(|_| prepared.report.refusals.is_empty()) {
        return Err(format!("the plan did not pass its check: {}", fatal.text));
    }
    match prepared.plan {
        None => Err(refused(&prepared.report, product)),
        Some(plan) if plan.is_empty() => {
            Err(format!("{product} {target} runs on every node already; there is nothing to do"))
        }
        Some(plan) => Ok((plan, prepared.report.warnings)),
    }
}

/// A refused run has failed: once the reasons are gone, the target has to be set again.
fn refused(report: &Report, product: Product) -> String {
    let mut text: Vec<String> = report
        .refusals
        .iter()
        .take(REASONS)
        .map(|refusal| format!("{refusal} ({})", advice::brief(&refusal.advice(), product)))
        .collect();
    if let more @ 1.. = report.refusals.len().saturating_sub(REASONS) {
        text.push(format!("and {more} more reasons"));
    }
    let again = advice::again(product);
    format!("{}; afterwards {again}, or change it", text.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_spread_and_keep_their_pace() {
        let every = Duration::from_mins(5);
        let started = Duration::from_secs(1_000);
        let mut tenths = [0; 10];
        for number in 0..1_000 {
            let name = format!("ns/cluster-{number}");
            let first = pause(&name, every, started);
            assert!(first >= every / 2 && first < every * 3 / 2, "{first:?}");
            // A look takes a moment; the next is a pause later, not more.
            let second = pause(&name, every, started + first + Duration::from_millis(300));
            assert_eq!(second, every.saturating_sub(Duration::from_millis(300)));
            tenths[usize::try_from((started + first).as_secs() % 300 / 30).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
        assert!(pause("ns/a", Duration::ZERO, started) < Duration::from_secs(1));
    }
}
