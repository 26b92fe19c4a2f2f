//! The time lines of both sides as text, on one scale: a row for each node, a
//! letter for what it did.

use std::fmt::Write as _;

use crate::record::{Line, Record, State};

/// How many columns the longer side gets.
const WIDTH: usize = 100;

/// How many workers of each side are shown where there is little room.
const SHOWN: usize = 8;

/// Both sides, with a legend. `all` shows every node.
pub(crate) fn chart(sides: &[(&str, &Record)], all: bool) -> String {
    let longest = sides.iter().map(|(_, record)| record.end).fold(0.0, f64::max);
    let column = (longest / columns(WIDTH)).max(f64::MIN_POSITIVE);
    let mut text = String::new();
    let legend: Vec<String> =
        State::ALL.iter().map(|state| format!("{} {}", state.letter(), state.words())).collect();
    let _ = writeln!(text, "one column is {column:.1} s; {}", legend.join(", "));
    for (name, record) in sides {
        let _ = writeln!(text, "\n{name}, {:.0} s", record.end);
        let widest = record.lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
        let mut workers = 0;
        let mut hidden = 0;
        for line in &record.lines {
            workers += usize::from(!line.control_plane);
            if !all && workers > SHOWN {
                hidden += 1;
                continue;
            }
            let _ = writeln!(text, "  {:<widest$} {}", line.name, row(line, record.end, column));
        }
        if hidden > 0 {
            let _ = writeln!(text, "  and {hidden} more workers in the same way");
        }
    }
    text
}

/// The letters of one node. What disrupts most wins its column, however short.
fn row(line: &Line, end: f64, column: f64) -> String {
    let mut states = vec![State::Serving; count(end / column)];
    for (from, to, state) in line.spans(end) {
        let (first, last) = (floor(from / column), count(to / column));
        for place in states.iter_mut().take(last).skip(first) {
            *place = state.max(*place);
        }
    }
    states.into_iter().map(State::letter).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a hundred columns")]
fn columns(count: usize) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a column of a hundred, never negative"
)]
fn floor(value: f64) -> usize {
    value.max(0.0).floor() as usize
}

fn count(value: f64) -> usize {
    // A whole number of columns must not become one more by rounding.
    floor((value - 1e-9).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, control_plane: bool, changes: &[(f64, State)]) -> Line {
        let mut line = Line::new(name, control_plane);
        line.changes = changes.to_vec();
        line
    }

    #[test]
    fn both_sides_have_one_scale() {
        let changes = [
            (0.0, State::Serving),
            (50.0, State::Draining),
            (60.0, State::Down),
            // Shorter than a column, and still seen.
            (80.0, State::Held),
            (80.1, State::Serving),
        ];
        let ours = Record { lines: vec![line("cp-1", true, &changes)], end: 100.0 };
        let theirs = Record { lines: vec![line("cp-1", true, &changes)], end: 1000.0 };
        let text = chart(&[("ours", &ours), ("talosctl", &theirs)], true);
        assert!(text.starts_with("one column is 10.0 s; . serves, p pulls"), "{text}");
        assert!(text.contains("ours, 100 s\n  cp-1 .....d##c.\n"), "{text}");
        assert!(text.contains(&format!("  cp-1 .....d##c.{}\n", ".".repeat(90))), "{text}");
    }

    #[test]
    fn many_workers_are_counted() {
        let mut lines = vec![line("cp-1", true, &[(0.0, State::Serving)])];
        lines.extend((1..=50).map(|n| line(&format!("w-{n}"), false, &[(0.0, State::Serving)])));
        let record = Record { lines, end: 10.0 };
        let text = chart(&[("ours", &record)], false);
        assert!(text.contains("w-8 ") && !text.contains("w-9 "), "{text}");
        assert!(text.contains("and 42 more workers"), "{text}");
        assert!(chart(&[("ours", &record)], true).contains("w-50 "));
    }
}
