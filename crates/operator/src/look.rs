//! Looks at a cluster, and plans on what was seen.

use std::time::Duration;

use upgrade_cluster::{Live, workloads};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_core::version::Version;
use upgrade_core::workload::Workloads;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::Io as _;
use upgrade_planner::Request;
use upgrade_planner::check::Severity;
use upgrade_planner::report::{Refusal, Report};
use vitistack_api::annotation;
use vitistack_api::run::Product;

use crate::names;

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
}

/// Looks once, at what annotations tell.
pub async fn glance(live: &Live<SystemClock>) -> Result<Snapshot, String> {
    // Boxed: it asks many at once, and is large.
    let look = Box::pin(upgrade_engine::observe(live));
    match tokio::time::timeout(LIMIT, look).await {
        Ok(Ok(snapshot)) => Ok(snapshot),
        Ok(Err(trouble)) => Err(trouble.to_string()),
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

/// Looks at everything that a plan needs, again if something could not be seen.
pub async fn look(live: &Live<SystemClock>) -> Result<Looked, String> {
    let mut looks = 1;
    loop {
        let (snapshot, workloads) =
            tokio::join!(glance(live), Box::pin(workloads(live.kubernetes())));
        match snapshot {
            Ok(snapshot) if looks == LOOKS || !has_gaps(&snapshot, &workloads) => {
                return Ok(Looked { snapshot, workloads });
            }
            Err(why) if looks == LOOKS => return Err(why),
            _ => {}
        }
        looks += 1;
        tokio::time::sleep(PAUSE).await;
    }
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
    nodes || etcd || workloads.trouble().is_some()
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
}

/// Plans, or says why not, and what to do about it.
pub fn plan(looked: &Looked, order: &Order<'_>) -> Result<Plan, String> {
    let Order { product, target, rollback, policy, matrix, catalogue } = *order;
    let mut intent = Intent { rollback, prefer: Preference::TalosFirst, ..Intent::default() };
    match product {
        Product::Talos => intent.talos = Some(target.clone()),
        Product::Kubernetes => intent.kubernetes = Some(target.clone()),
    }
    let Looked { snapshot, workloads } = looked;
    let request = Request { snapshot, intent: &intent, policy, matrix, catalogue, workloads };
    let planned = upgrade_planner::plan(&request).map_err(|report| refused(&report))?;
    let findings = upgrade_planner::check(&planned.plan, snapshot, matrix);
    if let Some(fatal) = findings.iter().find(|finding| finding.severity == Severity::Fatal) {
        return Err(format!("the plan did not pass its check: {}", fatal.text));
    }
    if planned.plan.is_empty() {
        return Err(format!(
            "{product} {target} runs on every node already; there is nothing to do"
        ));
    }
    Ok(planned.plan)
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
        Refusal::NoWayBack { .. } => format!("remove the annotation {}", annotation::ROLLBACK),
        other => other.advice(),
    }
}
