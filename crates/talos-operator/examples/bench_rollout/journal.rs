//! What our own journal says: when each node was first disrupted, and when it
//! was verified.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use upgrade_core::jiff::Timestamp;

use crate::gap::Turn;

/// Steps that take a node from its users.
const DISRUPTS: [&str; 4] = ["cordon", "drain", "reboot", "upgrade"];

/// The turns of the nodes, from a run's journal. A node that was not both
/// disrupted and verified has none.
pub(crate) fn turns(path: &Path) -> Vec<Turn> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    read(&text)
}

fn read(text: &str) -> Vec<Turn> {
    let mut nodes: BTreeMap<String, (Option<f64>, Option<f64>)> = BTreeMap::new();
    // The first line is the plan.
    for line in text.lines().skip(1) {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(record), Some(step)) = (entry["record"].as_str(), entry["step"].as_str()) else {
            continue;
        };
        let Some(at) = entry["at"].as_str().and_then(seconds) else { continue };
        let mut parts = step.split('/').skip(1);
        let (Some(node), Some(action)) = (parts.next(), parts.next()) else { continue };
        let turn = nodes.entry(node.to_owned()).or_default();
        match record {
            "started" if DISRUPTS.contains(&action) => turn.0 = turn.0.or(Some(at)),
            "finished" if action == "verify" => turn.1 = Some(at),
            _ => {}
        }
    }
    let turn = |(node, (disrupted, done)): (String, (Option<f64>, Option<f64>))| {
        let control_plane = node.starts_with("cp-");
        Some(Turn { control_plane, disrupted: disrupted?, done: done? })
    };
    nodes.into_iter().filter_map(turn).collect()
}

fn seconds(text: &str) -> Option<f64> {
    let at: Timestamp = text.parse().ok()?;
    Some(at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_from_the_first_disruption_to_the_verification() {
        let entry = |second: u32, record: &str, step: &str| {
            format!(
                r#"{{"at":"1970-01-01T00:00:{second:02}Z","record":"{record}","step":"{step}"}}"#
            )
        };
        let lines = [
            r#"{"plan": {}}"#.to_owned(),
            entry(1, "started", "1/cp-1/install"),
            entry(2, "started", "1/cp-1/cordon"),
            entry(3, "started", "1/cp-1/reboot"),
            entry(9, "finished", "1/cp-1/verify"),
            entry(10, "started", "1/worker-1/drain"),
            r#"{"at":"1970-01-01T00:00:12Z","record":"completed"}"#.to_owned(),
        ];
        let turns = read(&lines.join("\n"));
        assert_eq!(turns, [Turn { control_plane: true, disrupted: 2.0, done: 9.0 }]);
    }
}
