//! The board on a terminal: a line a node, and one for the whole.

use std::fmt::Write as _;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::snapshot::NodeName;

use super::board::{Board, Stage};
use crate::render::{BAD, CARE, FAINT, HEADING, INFO, paint, time};

/// Cells of the bar.
const BAR: usize = 24;

/// Columns for what is done; the longest is `set-kube-controller-manager`.
const STAGE: usize = 27;

/// The lines to show, at most `rows` of them and each at most `columns` wide.
/// Where there are more nodes than room, those that something is done to come
/// first.
pub fn lanes(board: &Board, now: Timestamp, rows: usize, columns: usize) -> Vec<String> {
    let name =
        |node: Option<&NodeName>| node.map_or_else(|| "cluster".to_owned(), ToString::to_string);
    let all: Vec<(Option<&NodeName>, Stage)> =
        board.nodes().map(|node| (node, board.stage(node))).collect();
    let room = rows.saturating_sub(3).max(1);
    let hidden = all.len().saturating_sub(room);
    let mut shown: Vec<usize> = (0..all.len()).collect();
    if hidden > 0 {
        shown.sort_by_key(|index| rank(&all[*index].1));
        shown.truncate(room);
        shown.sort_unstable();
    }
    let width = shown.iter().map(|index| name(all[*index].0).chars().count()).max().unwrap_or(0);
    let mut lines: Vec<String> = shown
        .into_iter()
        .map(|index| {
            let (node, stage) = &all[index];
            lane(&format!("{:width$}", name(*node)), stage, now, columns)
        })
        .collect();
    if hidden > 0 {
        lines.push(paint(FAINT, &format!("  and {hidden} more")));
    }
    lines.push(String::new());
    lines.push(overall(board, now, columns));
    lines
}

/// What people want to see first.
const fn rank(stage: &Stage) -> u8 {
    match stage {
        Stage::Failed(..) => 0,
        Stage::Busy(_) => 1,
        Stage::Waits(_) => 2,
        Stage::Done => 3,
    }
}

fn lane(name: &str, stage: &Stage, now: Timestamp, columns: usize) -> String {
    let (mark, style, word, text) = match stage {
        Stage::Busy(running) => {
            let since = clock(now.duration_since(running.since));
            let again = match running.attempt {
                1 => String::new(),
                attempt => format!("attempt {attempt}  "),
            };
            let message = running.message.as_deref().unwrap_or_default();
            ("▸", INFO, running.step.action.name(), format!("{since}  {again}{message}"))
        }
        Stage::Waits(why) => ("·", FAINT, "waits", format!("      {why}")),
        Stage::Failed(action, why) => ("✗", BAD, action.name(), format!("      {why}")),
        Stage::Done => ("✓", FAINT, "done", String::new()),
    };
    let before = format!("  {mark} {name}  ");
    let room = columns.saturating_sub(before.chars().count() + STAGE + 2);
    let line = format!("{before}{}  {}", paint(style, &format!("{word:STAGE$}")), cut(&text, room));
    line.trim_end().to_owned()
}

fn overall(board: &Board, now: Timestamp, columns: usize) -> String {
    let (done, total) = board.progress();
    let filled = (done * BAR).checked_div(total).unwrap_or(BAR);
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
    let mut text = format!("{done}/{total} steps");
    // Before the rest: a narrow terminal cuts from the end.
    if let Some(left) = board.left(now) {
        // Writing to a string cannot fail.
        let _ = write!(text, "   {} left", time::about(left));
    }
    if let Some(hop) = board.hop() {
        let change = &hop.change;
        let words = format!("{} {} → {}", change.product(), change.from(), change.to());
        let _ = match board.hops() {
            1 => write!(text, "   {words}"),
            hops => write!(text, "   hop {} of {hops}: {words}", hop.number),
        };
    }
    let room = columns.saturating_sub(BAR + 4);
    let mut line = format!("  {} {}", paint(INFO, &bar), paint(HEADING, &cut(&text, room)));
    if let Some(why) = board.waits_for() {
        let why = cut(&why.to_string(), columns.saturating_sub(9));
        let _ = write!(line, "\n  {} {why}", paint(CARE, "waits:"));
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

/// A text that fits; a terminal would wrap what does not, and the lanes would
/// no longer stand still.
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
    use upgrade_core::event::{Event, EventKind, StepProgress};
    use upgrade_core::journal::State;

    use super::*;
    use crate::sample;

    fn board(events: &[(i64, EventKind)]) -> Board {
        let plan = sample::plan();
        let mut board = Board::new(&plan, &State::new(&plan));
        for (seconds, kind) in events {
            board.apply(&Event {
                at: sample::time(*seconds),
                cluster: "prod".to_owned(),
                plan: plan.hash(),
                kind: kind.clone(),
            });
        }
        board
    }

    fn text(board: &Board, seconds: i64, rows: usize, columns: usize) -> String {
        let lines = lanes(board, sample::time(seconds), rows, columns).join("\n");
        anstream::adapter::strip_str(&lines).to_string()
    }

    fn busy() -> Board {
        board(&[
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
    fn a_lane_a_node() {
        insta::assert_snapshot!(text(&busy(), 42, 40, 100));
    }

    #[test]
    fn little_room_shows_what_matters() {
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
