//! Tables and wrapped lines, in columns that fit most terminals.

use anstyle::Style;

use super::{HEADING, paint};

/// The widest line: easy to read, and fits most terminals.
const WIDTH: usize = 96;

/// Characters, which is columns for all that is printed here.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// A line that starts with a word and a colon; the text is wrapped at its own start. Line
/// breaks in the text, such as in an excerpt of a file, stay.
pub(crate) fn remark(style: Style, word: &str, text: &str) -> String {
    let prefix = format!("{}: ", paint(style, word));
    let indent = width(word) + 2;
    let mut lines = text.lines();
    let mut out = hang(&prefix, indent, lines.next().unwrap_or_default());
    for line in lines {
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// `first`, which takes `indent` columns, then `text` wrapped at that indent.
pub(crate) fn hang(first: &str, indent: usize, text: &str) -> String {
    let mut out = first.to_owned();
    let mut column = indent;
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            if column + 1 + width(word) > WIDTH {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = indent;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(word);
        column += width(word);
    }
    out.push('\n');
    out
}

/// A command, broken before a flag where it is too long for one line.
pub(crate) fn command(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for (index, part) in text.split(" --").enumerate() {
        let part = if index == 0 { part.to_owned() } else { format!(" --{part}") };
        // Room for the caller's indent and the backslash.
        if width(&line) + width(&part) > WIDTH - 4 {
            lines.push(format!("{line} \\"));
            line = format!("   {part}");
        } else {
            line.push_str(&part);
        }
    }
    lines.push(line);
    lines
}

/// A table with a bold header; the columns named in `right` hold numbers.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let widths: Vec<usize> = header
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
            cells.max().unwrap_or(0).max(width(title))
        })
        .collect();
    let line = |cells: &[&str]| {
        let mut out = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let space = " ".repeat(widths[column].saturating_sub(width(cell)));
            let (before, after) =
                if right.contains(&column) { (space.as_str(), "") } else { ("", space.as_str()) };
            out.push_str(before);
            out.push_str(cell);
            out.push_str(after);
            out.push_str("  ");
        }
        out.trim_end().to_owned()
    };
    let mut out = paint(HEADING, &line(header)) + "\n";
    for row in rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        out.push_str(&line(&cells));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_hangs_below_itself() {
        let text = remark(Style::new(), "warning", &"word ".repeat(30));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].starts_with("         word"), "{text}");
        assert!(lines.iter().all(|line| width(line) <= WIDTH));
    }

    #[test]
    fn a_command_breaks_before_a_flag() {
        let text = format!("talos-operator upgrade both{}", " --some-flag value".repeat(8));
        let lines = command(&text);
        assert!(lines.len() > 1);
        assert!(lines[0].ends_with(" \\"));
        assert!(lines[1].starts_with("    --"));
        let joined: Vec<_> = lines.iter().map(|line| line.trim_end_matches('\\').trim()).collect();
        assert_eq!(joined.join(" "), text);
    }

    #[test]
    fn numbers_are_right_aligned() {
        let text = table(
            &["A", "N"],
            &[vec!["a".into(), "7".into()], vec!["b".into(), "10".into()]],
            &[1],
        );
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), "A   N\na   7\nb  10\n");
    }
}
