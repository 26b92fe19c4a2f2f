//! What the tests share: clusters, plans for them, and a world to run plans in.

mod clusters;
mod planning;
pub(crate) mod world;

use std::fmt::Write as _;

use upgrade_core::snapshot::{EtcdFacts, KubernetesFacts, Snapshot, TalosFacts};
use upgrade_planner::report::Report;

pub(crate) use clusters::{SCHEMATIC, cluster, image, intent, known, version};
pub(crate) use planning::{plan_for, sketch};

/// What Talos told of a node, to be changed by a test.
pub(crate) fn talos<'a>(snapshot: &'a mut Snapshot, node: &str) -> &'a mut TalosFacts {
    known(&mut snapshot.nodes.get_mut(&node.into()).unwrap().talos)
}

/// What Kubernetes told of a node, to be changed by a test.
pub(crate) fn kubernetes<'a>(snapshot: &'a mut Snapshot, node: &str) -> &'a mut KubernetesFacts {
    known(&mut snapshot.nodes.get_mut(&node.into()).unwrap().kubernetes)
}

/// What etcd told, to be changed by a test.
pub(crate) fn etcd(snapshot: &mut Snapshot) -> &mut EtcdFacts {
    known(&mut snapshot.etcd)
}

/// Everything the planner had to say, a line each.
pub(crate) fn report_text(report: &Report) -> String {
    let mut text = String::new();
    for refusal in &report.refusals {
        let advice = serde_json::to_string(&refusal.advice()).unwrap();
        let _ = writeln!(text, "refused: {refusal}\n   next: {advice}");
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
