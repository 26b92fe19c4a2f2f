//! Looks at a cluster, and plans on what was seen.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use upgrade_cluster::workloads;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::journal::Armed;
use upgrade_core::manifests::Manifests;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, NodeName, Snapshot};
use upgrade_core::version::Version;
use upgrade_core::workload::Workloads;
use upgrade_engine::io::Io as _;
use upgrade_planner::Request;
use upgrade_planner::check::Severity;
use upgrade_planner::report::{Refusal, Report};
use vitistack_api::annotation;
use vitistack_api::run::Product;

use crate::names;
use crate::pace::Paced;
use crate::seen::if_foreign;

/// How often a cluster is looked at before what is unknown is taken for it.
const LOOKS: u32 = 5;

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// A look as a whole. Each question has its own, shorter limit.
const LIMIT: Duration = Duration::from_mins(1);

/// How many reasons a refusal names.
const REASONS: usize = 3;

/// What was seen.
pub struct Looked {
    /// Machines, etcd and nodes.
    pub snapshot: Snapshot,
    /// What runs on them.
    pub workloads: Fact<Workloads>,
    /// What left Talos's manifests.
    pub manifests: Fact<Manifests>,
}

impl Looked {
    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        !has_gaps(&self.snapshot, &self.workloads)
    }
}

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

async fn at_once(live: &Paced) -> Result<Snapshot, String> {
    // Boxed: it asks many at once, and is large.
    let look = Box::pin(upgrade_engine::observe(live.at_once()));
    match tokio::time::timeout(LIMIT, look).await {
        Ok(Ok(snapshot)) => Ok(snapshot),
        Ok(Err(trouble)) => Err(trouble.to_string()),
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

/// Looks at everything that a plan needs, again if something could not be seen.
pub async fn look(live: &Paced) -> Result<Looked, String> {
    let mut looks = 1;
    loop {
        match look_once(live).await {
            Ok(looked) if looks == LOOKS || looked.is_whole() => return Ok(looked),
            Err(why) if looks == LOOKS => return Err(why),
            _ => {}
        }
        looks += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks once at everything that a plan needs, in its turn.
async fn look_once(live: &Paced) -> Result<Looked, String> {
    let _turn = live.turn().await;
    look_now(live).await
}

/// Looks once at everything that a plan needs. Take a turn before.
pub async fn look_now(live: &Paced) -> Result<Looked, String> {
    let (snapshot, workloads, manifests) = tokio::join!(
        at_once(live),
        Box::pin(workloads(live.kubernetes())),
        Box::pin(upgrade_engine::observe_manifests(live.at_once())),
    );
    Ok(Looked { snapshot: snapshot?, workloads, manifests })
}

fn has_gaps(snapshot: &Snapshot, workloads: &Fact<Workloads>) -> bool {
    let nodes = snapshot.nodes.values().any(|node| {
        node.talos.trouble().is_some()
            || node.kubernetes.trouble().is_some()
            || node.images.trouble().is_some()
            || !node.is_up()
    });
    let etcd = match &snapshot.etcd {
        Fact::Known(etcd) => etcd.members.iter().any(|it| it.status.trouble().is_some()),
        Fact::Unknown(_) => true,
        Fact::Unasked => false,
    };
    let unmatched = !snapshot.unmatched.is_empty();
    nodes || unmatched || etcd || workloads.trouble().is_some()
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
    /// Nodes that an earlier run left armed, or may have (rule 5).
    pub armed: &'a BTreeMap<NodeName, Armed>,
}

/// A plan, and what its user should know.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// What speaks against it without refusing it.
    pub warnings: Vec<String>,
}

/// Plans, or says why not, and what to do about it.
pub fn plan(looked: &Looked, order: &Order<'_>) -> Result<Planned, String> {
    let Order { product, target, rollback, policy, matrix, catalogue, armed } = *order;
    let mut intent = Intent { rollback, prefer: Preference::TalosFirst, ..Intent::default() };
    match product {
        Product::Talos => intent.talos = Some(target.clone()),
        Product::Kubernetes => intent.kubernetes = Some(target.clone()),
    }
    let Looked { snapshot, workloads, manifests } = looked;
    let request =
        Request { snapshot, intent: &intent, policy, matrix, catalogue, workloads, manifests };
    let mut planned = upgrade_planner::plan(&request).map_err(|report| refused(&report))?;
    upgrade_planner::armed(&planned.plan, snapshot, armed, &mut planned.report);
    if !planned.report.refusals.is_empty() {
        return Err(refused(&planned.report));
    }
    let findings = upgrade_planner::check(&planned.plan, snapshot, matrix);
    if let Some(fatal) = findings.iter().find(|finding| finding.severity == Severity::Fatal) {
        return Err(format!("the plan did not pass its check: {}", fatal.text));
    }
    if planned.plan.is_empty() {
        return Err(format!(
            "{product} {target} runs on every node already; there is nothing to do"
        ));
    }
    let warnings = planned.report.warnings.iter().map(ToString::to_string).collect();
    Ok(Planned { plan: planned.plan, warnings })
}

fn refused(report: &Report) -> String {
    let mut text: Vec<String> = report
        .refusals
        .iter()
        .take(REASONS)
        .map(|refusal| format!("{refusal} ({})", advice(refusal)))
        .collect();
    if let more @ 1.. = report.refusals.len().saturating_sub(REASONS) {
        text.push(format!("and {more} more reasons"));
    }
    text.join("; ")
}

/// What to do about a refusal, in the words of this door.
fn advice(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Outage { .. } => {
            format!("accept it with the annotation {}=true", names::ACCEPT_OUTAGE)
        }
        Refusal::Downgrade { .. } => {
            format!("choose a newer target, or set {}=true to go back", annotation::ROLLBACK)
        }
        Refusal::NoMachine { .. } => if_foreign(),
        Refusal::NoWayBack { .. } => format!("remove the annotation {}", annotation::ROLLBACK),
        other => other.advice(),
    }
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
