//! Wording that several screens share.

use upgrade_core::journal::Outcome;
use upgrade_core::plan::{Hop, Versions};
use upgrade_core::product::Product;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::journal::Holder;
use upgrade_view::{ClusterOutcome, NodeOutcome, Outcomes, Unfinished, Verified, VersionChange};

use super::time;

/// A table cell has room for this much of a failure; its full text stands below the table.
const CUT: usize = 60;

/// A node, or the cluster as a whole.
pub(crate) fn node(node: Option<&NodeName>) -> String {
    node.map_or_else(|| "cluster".to_owned(), ToString::to_string)
}

/// The process that drives a cluster.
pub(crate) fn process(holder: &Holder) -> String {
    format!("process {} on {}", holder.pid, holder.host)
}

/// Names in one line.
pub(crate) fn list<'a>(nodes: impl IntoIterator<Item = &'a NodeName>) -> String {
    nodes.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The products that change their version, and how.
pub(crate) fn changes(from: &Versions, to: &Versions) -> String {
    let pairs = [
        (Product::Talos, &from.talos, &to.talos),
        (Product::Kubernetes, &from.kubernetes, &to.kubernetes),
    ];
    let changes: Vec<String> = pairs
        .into_iter()
        .filter_map(|(product, from, to)| match (from, to) {
            (Some(from), Some(to)) if from != to => Some(format!("{product} {from} → {to}")),
            _ => None,
        })
        .collect();
    if changes.is_empty() { "same versions".to_owned() } else { changes.join(", ") }
}

/// A hop and its number, where there are several.
pub(crate) fn hop(hop: &Hop, hops: usize) -> String {
    let change = &hop.change;
    let change = format!("{} {} → {}", change.product(), change.from(), change.to());
    match hops {
        1 => change,
        hops => format!("hop {} of {hops}: {change}", hop.number),
    }
}

/// `, attempt 2`; nothing for the first one.
pub(crate) fn attempt(number: u32) -> String {
    match number {
        0 | 1 => String::new(),
        number => format!(", attempt {number}"),
    }
}

/// The end of a step. `took` follows the outcomes that took time.
pub(crate) fn outcome(outcome: &Outcome, took: Option<&str>) -> String {
    let after = |word: &str| took.map_or_else(String::new, |took| format!(" {word} {took}"));
    match outcome {
        Outcome::Done { .. } => format!("done{}", after("in")),
        Outcome::Skipped { why } => format!("skipped: {why}"),
        Outcome::Failed { failure } => format!("failed{}: {failure}", after("after")),
    }
}

/// One line of the table at the end of a run.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) happened: String,
    pub(crate) took: String,
    pub(crate) verified: String,
}

/// The table at the end of a run: every node that something was done to, then the cluster.
pub(crate) fn rows(outcomes: &Outcomes) -> Vec<Row> {
    outcomes.nodes.iter().map(of_node).chain(outcomes.cluster.as_ref().map(of_cluster)).collect()
}

fn of_node(outcome: &NodeOutcome) -> Row {
    let NodeOutcome { node, changes, unfinished, took, verified } = outcome;
    let changes = changes.iter().map(change).chain(unfinished.iter().map(stopped));
    let verified: Vec<&str> = verified.iter().copied().map(check).collect();
    Row {
        name: node.to_string(),
        happened: changes.collect::<Vec<_>>().join(", "),
        took: time::took(*took),
        verified: if verified.is_empty() { "-".to_owned() } else { verified.join(", ") },
    }
}

fn change(VersionChange { product, from, to }: &VersionChange) -> String {
    if from == to {
        format!("{product} {to}, another schematic")
    } else {
        format!("{product} {from} → {to}")
    }
}

fn stopped(unfinished: &Unfinished) -> String {
    match unfinished {
        Unfinished::Failed(action, failure) => format!("{action} failed: {}", cut(failure.text())),
        Unfinished::StoppedAfter(action) => format!("stopped after {action}"),
        Unfinished::Interrupted(action) => format!("{action} interrupted"),
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CUT {
        return text.to_owned();
    }
    text.chars().take(CUT - 1).chain(['…']).collect()
}

const fn check(verified: Verified) -> &'static str {
    match verified {
        Verified::Boot => "boot",
        Verified::Version => "version",
        Verified::Schematic => "schematic",
        Verified::Extensions => "extensions",
        Verified::Images => "images",
        Verified::Etcd => "etcd",
        Verified::Ready => "Ready",
    }
}

fn of_cluster(outcome: &ClusterOutcome) -> Row {
    let ClusterOutcome { snapshots, manifests, took } = outcome;
    let mut happened = Vec::new();
    let mut verified = Vec::new();
    match snapshots {
        0 => {}
        1 => happened.push("1 etcd snapshot".to_owned()),
        count => happened.push(format!("{count} etcd snapshots")),
    }
    if *snapshots > 0 {
        verified.push("snapshot hash");
    }
    if *manifests {
        happened.push("manifests applied".to_owned());
        verified.push("rollouts");
    }
    Row {
        name: "cluster".to_owned(),
        happened: happened.join(", "),
        took: time::took(*took),
        verified: verified.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use upgrade_view::Timeline;

    use super::*;
    use crate::test_fixtures as fixtures;

    #[test]
    fn rows_name_what_changed_and_what_was_verified() {
        let plan = fixtures::plan();
        let timeline = Timeline::from_entries(&fixtures::whole(&plan));
        let rows = rows(&Outcomes::of(&plan, &timeline, fixtures::time(10_000)));
        let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["cp-2", "cp-3", "cp-1", "worker-1", "cluster"]);
        assert_eq!(rows[0].happened, "Talos 1.12.11 → 1.13.9, Kubernetes 1.35.2 → 1.36.3");
        assert!(rows[0].verified.contains("etcd"));
        assert!(!rows[3].verified.contains("etcd"));
        assert_eq!(rows[4].verified, "snapshot hash, rollouts");
    }
}
