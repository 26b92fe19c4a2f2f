//! The difference of two texts, as a dry run shows it.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;

/// A unified diff; empty if the texts are equal. Equal lines at both ends are left out; everything
/// in between is compared as one piece, since configurations change in one or two places.
pub(super) fn diff(old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let edits = edits(&old, &new);
    let mut text = String::from("--- a\n+++ b\n");
    let mut at = 0;
    while at < edits.len() {
        let Some(offset) = edits[at..].iter().position(|edit| edit.sign != ' ') else {
            break;
        };
        let first = at + offset;
        let mut last = first;
        // Changes that are near each other share a piece.
        for (place, edit) in edits.iter().enumerate().skip(first) {
            if edit.sign != ' ' {
                last = place;
            } else if place > last + 2 * CONTEXT {
                break;
            }
        }
        let from = first.saturating_sub(CONTEXT).max(at);
        let to = (last + CONTEXT + 1).min(edits.len());
        let piece = &edits[from..to];
        let count = |skip: char| piece.iter().filter(|edit| edit.sign != skip).count();
        let _ = writeln!(
            text,
            "@@ -{},{} +{},{} @@",
            piece[0].old + 1,
            count('+'),
            piece[0].new + 1,
            count('-')
        );
        for edit in piece {
            let _ = writeln!(text, "{}{}", edit.sign, edit.line);
        }
        at = to;
    }
    text
}

struct Edit<'a> {
    sign: char,
    line: &'a str,
    old: usize,
    new: usize,
}

/// Walks both texts; where they differ, looks for the nearest line at which they are equal again.
fn edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Edit<'a>> {
    let mut edits = Vec::new();
    let (mut one, mut two) = (0, 0);
    let mut push = |sign, line, old, new| {
        edits.push(Edit { sign, line, old, new });
    };
    while one < old.len() || two < new.len() {
        if one < old.len() && two < new.len() && old[one] == new[two] {
            push(' ', old[one], one, two);
            one += 1;
            two += 1;
            continue;
        }
        let (skip_one, skip_two) = meeting(&old[one..], &new[two..]);
        for _ in 0..skip_one {
            push('-', old[one], one, two);
            one += 1;
        }
        for _ in 0..skip_two {
            push('+', new[two], one, two);
            two += 1;
        }
    }
    edits
}

fn meeting(old: &[&str], new: &[&str]) -> (usize, usize) {
    for distance in 1..=old.len() + new.len() {
        let from = distance.saturating_sub(new.len());
        for skip in from..=distance.min(old.len()) {
            let other = distance - skip;
            match (old.get(skip), new.get(other)) {
                (Some(left), Some(right)) if left == right => return (skip, other),
                (None, None) => return (skip, other),
                _ => {}
            }
        }
    }
    (old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_context() {
        let old = "a\nb\nc\nd\ne\nf\ng\n";
        let new = "a\nb\nc\nD\ne\nf\ng\n";
        assert_eq!(
            diff(old, new),
            "--- a\n+++ b\n@@ -1,7 +1,7 @@\n a\n b\n c\n-d\n+D\n e\n f\n g\n"
        );
        assert_eq!(diff(old, old), "");
        assert!(diff("", "x\n").contains("+x"));
        assert!(diff("x\n", "").contains("-x"));
    }
}
