//! Cluster health, and the versions that run.

use std::fmt::Write as _;

use serde_json::json;
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_planner::health::{Check, Verdict};

use super::layout;
use super::plan_json::pretty;
use super::{BAD, CARE, FAINT, HEADING, paint};

/// Every check, and the verdict.
pub fn text(cluster: &str, checks: &[Check]) -> String {
    let name = |check: &Check| check.node.as_ref().map_or("-", |node| node.0.as_str()).to_owned();
    let area = checks.iter().map(|check| layout::width(&check.area.to_string())).max();
    let node = checks.iter().map(|check| layout::width(&name(check))).max();
    let (area, node) = (area.unwrap_or(0), node.unwrap_or(0));
    let mut out = String::new();
    for check in checks {
        let (mark, style) = match check.verdict {
            Verdict::Good => ("✓", FAINT),
            Verdict::Doubtful => ("?", CARE),
            Verdict::Bad => ("✗", BAD),
        };
        let mark = paint(style, mark);
        let first = format!("{mark} {:area$}  {:node$}  ", check.area, name(check));
        out.push_str(&layout::hang(&first, area + node + 6, &check.text));
    }
    if !checks.is_empty() {
        out.push('\n');
    }
    let bad = count(checks, Verdict::Bad);
    let doubtful = count(checks, Verdict::Doubtful);
    let verdict = match (bad, doubtful) {
        (0, 0) => "is healthy".to_owned(),
        (0, 1) => "is healthy, with 1 warning".to_owned(),
        (0, count) => format!("is healthy, with {count} warnings"),
        (1, _) => "is not healthy: 1 check failed".to_owned(),
        (count, _) => format!("is not healthy: {count} checks failed"),
    };
    format!("{out}{} {verdict}\n", paint(HEADING, cluster))
}

fn count(checks: &[Check], verdict: Verdict) -> usize {
    checks.iter().filter(|check| check.verdict == verdict).count()
}

/// Whether nothing is bad.
pub fn is_well(checks: &[Check]) -> bool {
    count(checks, Verdict::Bad) == 0
}

/// The same for programs.
pub fn json(cluster: &str, checks: &[Check]) -> String {
    pretty(&json!({"format": 1, "cluster": cluster, "well": is_well(checks), "checks": checks}))
}

/// The versions of this program and of every node.
pub fn versions(snapshot: Option<&Snapshot>) -> String {
    let mut out = format!("talos-operator {}\n", env!("CARGO_PKG_VERSION"));
    let Some(snapshot) = snapshot else {
        return out;
    };
    let kubernetes = snapshot.kubernetes.as_result();
    let kubernetes = kubernetes.map_or_else(|why| format!("unknown ({why})"), ToString::to_string);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "cluster {}: Kubernetes {kubernetes}\n", snapshot.cluster);
    let rows: Vec<Vec<String>> = nodes(snapshot)
        .map(|(name, role, talos, kubelet)| vec![name.to_string(), role, talos, kubelet])
        .collect();
    out + &layout::table(&["NODE", "ROLE", "TALOS", "KUBELET"], &rows, &[])
}

/// The same for programs.
pub fn versions_json(snapshot: Option<&Snapshot>) -> String {
    let client = env!("CARGO_PKG_VERSION");
    let Some(snapshot) = snapshot else {
        return pretty(&json!({"format": 1, "client": client}));
    };
    let nodes: Vec<_> = snapshot
        .nodes
        .iter()
        .map(|(name, node)| {
            json!({
                "name": name,
                "role": node.role,
                "talos": node.talos.known().map(|facts| &facts.version),
                "kubelet": node.kubernetes.known().map(|facts| &facts.kubelet),
            })
        })
        .collect();
    pretty(&json!({"format": 1, "client": client, "cluster": snapshot.cluster,
        "kubernetes": snapshot.kubernetes.known(), "nodes": nodes}))
}

fn nodes(snapshot: &Snapshot) -> impl Iterator<Item = (&NodeName, String, String, String)> {
    let unknown = |why: &str| format!("unknown ({why})");
    snapshot.nodes.iter().map(move |(name, node)| {
        let talos = node.talos.as_result().map(|facts| facts.version.to_string());
        let kubelet = node.kubernetes.as_result().map(|facts| facts.kubelet.to_string());
        let role = node.role.to_string();
        (name, role, talos.unwrap_or_else(unknown), kubelet.unwrap_or_else(unknown))
    })
}
