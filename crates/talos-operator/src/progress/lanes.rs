//! A run on a terminal: one line per node, and one for the whole.

use std::fmt::Write as _;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::snapshot::NodeName;
use upgrade_view::{LiveRun, NodeProgress, Queued, RunView, Stage};

use crate::render::{BAD, CARE, FAINT, HEADING, INFO, paint, time, words};

/// Cells of the bar.
const BAR: usize = 24;

/// Columns for the step; the longest is `set-kube-controller-manager`.
const STAGE: usize = 27;

/// The lines to show, at most `rows` of them and each at most `columns` wide.
/// Where there are more nodes than rows, nodes in progress come first.
pub fn lanes(run: &LiveRun, now: Timestamp, rows: usize, columns: usize) -> Vec<String> {
    let view = run.view();
    let nodes = view.nodes();
    let room = rows.saturating_sub(3).max(1);
    let hidden = nodes.len().saturating_sub(room);
    let mut shown: Vec<usize> = (0..nodes.len()).collect();
    if hidden > 0 {
        shown.sort_by_key(|index| rank(&nodes[*index].stage()));
        shown.truncate(room);
        shown.sort_unstable();
    }
    let name = |index: usize| words::node(nodes[index].node);
    let width = shown.iter().map(|index| name(*index).chars().count()).max().unwrap_or(0);
    let mut lines: Vec<String> = shown
        .into_iter()
        .map(|index| {
            let name = format!("{:width$}", name(index));
            drawn(&name, &Lane::of(&view, &nodes, index, now), columns)
        })
        .collect();
    if hidden > 0 {
        lines.push(paint(FAINT, &format!("  and {hidden} more")));
    }
    lines.push(String::new());
    lines.push(overall(run, now, columns));
    lines
}

/// What people want to see first.
const fn rank(stage: &Stage<'_>) -> u8 {
    match stage {
        Stage::Failed { .. } => 0,
        Stage::Running { .. } => 1,
        Stage::Interrupted { .. } | Stage::Queued { .. } => 2,
        Stage::Done => 3,
    }
}

/// What a lane shows.
struct Lane {
    mark: &'static str,
    style: anstyle::Style,
    word: &'static str,
    text: String,
}

impl Lane {
    fn of(view: &RunView<'_>, nodes: &[NodeProgress<'_>], index: usize, now: Timestamp) -> Self {
        match nodes[index].stage() {
            Stage::Running { step, since } => {
                let since = clock(now.duration_since(since));
                let attempt = match step.state.attempts {
                    0 | 1 => String::new(),
                    attempt => format!("attempt {attempt}  "),
                };
                let text = format!("{since}  {attempt}{}", step.message.unwrap_or_default());
                Self { mark: "▸", style: INFO, word: step.action.name(), text }
            }
            Stage::Failed { step, failure } => Self {
                mark: "✗",
                style: BAD,
                word: step.action.name(),
                text: format!("      {failure}"),
            },
            Stage::Interrupted { .. } | Stage::Queued { .. } => {
                let (word, why) = queued(&view.queued(nodes[index].node, nodes));
                Self { mark: "·", style: FAINT, word, text: format!("      {why}") }
            }
            Stage::Done => Self { mark: "✓", style: FAINT, word: "done", text: String::new() },
        }
    }
}

/// Why nothing is done to a node.
fn queued(reason: &Queued<'_>) -> (&'static str, String) {
    match reason {
        Queued::Halted => ("stopped", "run halted".to_owned()),
        Queued::Waiting(why) => ("waiting", why.to_string()),
        Queued::Next => ("queued", String::new()),
        Queued::Behind(nodes) => ("queued", behind(nodes)),
    }
}

fn behind(nodes: &[Option<&NodeName>]) -> String {
    let name = |node: Option<&NodeName>| match node {
        Some(node) => node.to_string(),
        None => "the cluster".to_owned(),
    };
    match nodes {
        [] => String::new(),
        [one] => format!("after {}", name(*one)),
        [one, two] => format!("after {} and {}", name(*one), name(*two)),
        [one, rest @ ..] => format!("after {} and {} more", name(*one), rest.len()),
    }
}

fn drawn(name: &str, lane: &Lane, columns: usize) -> String {
    let Lane { mark, style, word, text } = lane;
    let before = format!("  {mark} {name}  ");
    let room = columns.saturating_sub(before.chars().count() + STAGE + 2);
    let text = format!("{before}{}  {}", paint(*style, &format!("{word:STAGE$}")), cut(text, room));
    text.trim_end().to_owned()
}

fn overall(run: &LiveRun, now: Timestamp, columns: usize) -> String {
    let view = run.view();
    let (done, total) = view.progress();
    let filled = (done * BAR).checked_div(total).unwrap_or(BAR);
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
    let mut text = format!("{done}/{total} steps");
    // Before the rest: a narrow terminal cuts from the end.
    if let Some(left) = run.left(now) {
        // Writing to a string cannot fail.
        let _ = write!(text, "   {} left", time::about(left));
    }
    if let Some(hop) = view.hop() {
        let _ = write!(text, "   {}", words::hop(hop.hop, view.plan().hops.len()));
    }
    let room = columns.saturating_sub(BAR + 4);
    let mut line = format!("  {} {}", paint(INFO, &bar), paint(HEADING, &cut(&text, room)));
    if let Some(waiting) = view.waiting() {
        let until = format!("waiting until {}:", time::of_day(waiting.until));
        let room = columns.saturating_sub(until.chars().count() + 3);
        let why = cut(&waiting.why.to_string(), room);
        let _ = write!(line, "\n  {} {why}", paint(CARE, &until));
    }
    line
}

/// `0:42`, `12:05`, `1:02:03`, right-aligned for small ones.
pub(crate) fn clock(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes:2}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A text that fits: a terminal would wrap a longer one, and the lanes would jump.
fn cut(text: &str, room: usize) -> String {
    let text = text.lines().next().unwrap_or_default();
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(room.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use upgrade_core::event::{Event, EventKind, StepProgress};
    use upgrade_core::journal::State;
    use upgrade_core::reason::WaitReason;

    use super::*;
    use crate::test_fixtures as fixtures;

    fn run(events: &[(i64, EventKind)]) -> LiveRun {
        let plan = fixtures::plan();
        let state = State::new(&plan);
        let mut run = LiveRun::new(Arc::new(plan), state);
        for (seconds, kind) in events {
            run.apply(&Event {
                at: fixtures::time(*seconds),
                cluster: "prod".to_owned(),
                plan: run.view().plan().hash(),
                kind: kind.clone(),
            });
        }
        run
    }

    fn text(run: &LiveRun, seconds: i64, rows: usize, columns: usize) -> String {
        let lines = lanes(run, fixtures::time(seconds), rows, columns).join("\n");
        anstream::adapter::strip_str(&lines).to_string()
    }

    fn busy() -> LiveRun {
        run(&[
            (0, EventKind::StepStarted { step: "1/cp-2/drain".parse().unwrap(), attempt: 2 }),
            (
                3,
                EventKind::StepProgress {
                    step: "1/cp-2/drain".parse().unwrap(),
                    progress: StepProgress::text(
                        "web-1 waits for budget shop/web, which allows none now",
                    ),
                },
            ),
        ])
    }

    #[test]
    fn one_lane_per_node() {
        insta::assert_snapshot!(text(&busy(), 42, 40, 100));
    }

    #[test]
    fn a_closed_gate_is_shown_with_its_deadline() {
        // Rule 11.
        let why = WaitReason::EtcdUnsafe { node: "cp-1".into(), why: "a learner".to_owned() };
        let waiting = EventKind::Waiting { why, until: fixtures::time(900) };
        insta::assert_snapshot!(text(&run(&[(0, waiting)]), 42, 40, 100));
    }

    #[test]
    fn a_small_terminal_shows_nodes_in_progress_first() {
        let text = text(&busy(), 42, 5, 60);
        assert!(text.contains("cp-2"), "{text}");
        assert!(text.contains("and 3 more"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn clocks_are_short() {
        assert_eq!(clock(SignedDuration::from_secs(42)), " 0:42");
        assert_eq!(clock(SignedDuration::from_secs(725)), "12:05");
        assert_eq!(clock(SignedDuration::from_secs(3723)), "1:02:03");
        assert_eq!(clock(SignedDuration::from_secs(-1)), " 0:00");
    }
}
