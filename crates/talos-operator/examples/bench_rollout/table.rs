//! The one table of ratios, what was wanted, and where the time went.

use std::fmt::Write as _;

use crate::Measure;
use crate::case::{Case, SLOTS};
use crate::gap::percentile;
use crate::machine::machine;
use crate::record::Shares;
use crate::row::Row;

/// What is wanted: ours by the floor and by talosctl, and the gap in
/// milliseconds.
struct Wanted {
    floor: Option<f64>,
    talosctl: Option<f64>,
    gap: Option<f64>,
}

fn wanted(case: &Case) -> Wanted {
    let gap = Some(250.0);
    match case.to_string().as_str() {
        "os-3+5" => Wanted { floor: Some(1.05), talosctl: Some(0.6), gap },
        "k8s-3+5" => Wanted { floor: None, talosctl: Some(0.4), gap: None },
        "k8s-3+50" => Wanted { floor: None, talosctl: Some(0.1), gap: None },
        name if name.starts_with("os-") => Wanted { floor: None, talosctl: None, gap },
        _ => Wanted { floor: None, talosctl: None, gap: None },
    }
}

/// All of it.
pub(crate) fn table(measure: &Measure, rows: &[Row]) -> String {
    let Measure { commit, seed, version, .. } = measure;
    let mut text = format!(
        "the same upgrade of the same simulated cluster, by us and by talosctl {version}\n\
         commit {commit}, seed {seed}; {}\n",
        machine()
    );
    let loads: Vec<String> = rows.iter().map(|row| format!("{} {}", row.case, row.load)).collect();
    let _ = writeln!(text, "load of the machine before each case: {}", loads.join(", "));
    let _ =
        writeln!(text, "seconds are the cluster's own; {SLOTS} workers at a time on both sides\n");
    text += &columns(&ratios(rows));
    text += "\nwhere the time went, in seconds: before the first node was disrupted, while at \
             least one\nwas, between two, and after the last\n\n";
    text += &columns(&shares(rows));
    text += "\nthe gap from \"ready\" to \"next node disrupted\" as the simulator saw it\n\n";
    text += &columns(&seen(rows));
    text += &verdicts(rows);
    text
}

fn ratios(rows: &[Row]) -> Vec<Vec<String>> {
    let head = [
        "case",
        "speed",
        "ours",
        "talosctl",
        "ours/talosctl",
        "floor",
        "ours/floor",
        "talosctl/floor",
        "with first",
        "gap p50",
        "gap p99",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let Row { floor, ours, talosctl, .. } = row;
        table.push(vec![
            row.case.to_string(),
            format!("{}", row.speed),
            format!("{ours:.1} s"),
            format!("{talosctl:.1} s"),
            format!("{:.3}", ours / talosctl),
            format!("{:.1} s", floor.chain),
            format!("{:.3}", ours / floor.chain),
            format!("{:.3}", talosctl / floor.chain),
            format!("{:.3}", ours / (floor.chain + floor.first)),
            milliseconds(&row.gaps, 50),
            milliseconds(&row.gaps, 99),
        ]);
    }
    table
}

fn shares(rows: &[Row]) -> Vec<Vec<String>> {
    let head = ["case", "who", "in all", "before", "disrupted", "between", "after", "floor"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let whole = [row.ours, row.talosctl];
        for ((name, share), whole) in ["ours", "talosctl"].iter().zip(row.shares).zip(whole) {
            let Shares { before, disrupted, between, after } = share;
            let seconds = [whole, before, disrupted, between, after, row.floor.chain];
            let mut cells = vec![row.case.to_string(), (*name).to_owned()];
            cells.extend(seconds.map(|seconds| format!("{seconds:.1}")));
            table.push(cells);
        }
    }
    table
}

fn seen(rows: &[Row]) -> Vec<Vec<String>> {
    let head = ["case", "who", "gaps", "p50", "p99"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        for (name, gaps) in ["ours", "talosctl"].iter().zip(&row.seen) {
            table.push(vec![
                row.case.to_string(),
                (*name).to_owned(),
                gaps.len().to_string(),
                milliseconds(gaps, 50),
                milliseconds(gaps, 99),
            ]);
        }
    }
    table
}

fn milliseconds(sorted: &[f64], percent: usize) -> String {
    percentile(sorted, percent).map_or_else(|| "-".to_owned(), |value| format!("{value:.0} ms"))
}

/// What was wanted, and whether it is so.
fn verdicts(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut verdict = |case: &Case, what: &str, found: f64, wanted: f64| {
        let word = if found <= wanted { "reached" } else { "MISSED" };
        let _ = writeln!(text, "  {case}: {what} {found:.3}, wanted {wanted}: {word}");
    };
    for row in rows {
        let wanted = wanted(&row.case);
        if let Some(wanted) = wanted.floor {
            verdict(&row.case, "ours/floor", row.ours / row.floor.chain, wanted);
        }
        if let Some(wanted) = wanted.talosctl {
            verdict(&row.case, "ours/talosctl", row.ours / row.talosctl, wanted);
        }
        if let (Some(wanted), Some(gap)) = (wanted.gap, percentile(&row.gaps, 99)) {
            verdict(&row.case, "gap p99 in ms", gap, wanted);
        }
    }
    if text.is_empty() { text } else { format!("\nwhat was wanted\n{text}") }
}

/// Columns as wide as what is in them.
fn columns(table: &[Vec<String>]) -> String {
    let count = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        table.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        padded.collect::<Vec<_>>().join("  ") + "\n"
    };
    table.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Floor;

    fn row(case: &str, ours: f64, talosctl: f64) -> Row {
        Row {
            case: case.parse().unwrap(),
            speed: 1.0,
            load: "0.1".to_owned(),
            ours,
            talosctl,
            floor: Floor { chain: 100.0, first: 20.0 },
            gaps: vec![10.0, 300.0],
            seen: [vec![1.0], vec![2.0]],
            shares: [Shares::default(); 2],
            chart: String::new(),
        }
    }

    #[test]
    fn ratios_are_ratios() {
        let cells = ratios(&[row("os-3+5", 120.0, 240.0)]).remove(1);
        let expected = [
            "os-3+5", "1", "120.0 s", "240.0 s", "0.500", "100.0 s", "1.200", "2.400", "1.000",
            "10 ms", "300 ms",
        ];
        assert_eq!(cells, expected);
    }

    #[test]
    fn what_was_wanted_is_held_against_what_was_found() {
        let text = verdicts(&[row("os-3+5", 120.0, 240.0), row("k8s-3+50", 9.0, 100.0)]);
        assert!(text.contains("os-3+5: ours/floor 1.200, wanted 1.05: MISSED"), "{text}");
        assert!(text.contains("os-3+5: ours/talosctl 0.500, wanted 0.6: reached"), "{text}");
        assert!(text.contains("os-3+5: gap p99 in ms 300.000, wanted 250: MISSED"), "{text}");
        assert!(text.contains("k8s-3+50: ours/talosctl 0.090, wanted 0.1: reached"), "{text}");
        assert_eq!(verdicts(&[row("k8s-5+5", 1.0, 1.0)]), "");
    }

    #[test]
    fn columns_line_up() {
        let cells = |row: &[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        let text = columns(&[cells(&["a", "bcd"]), cells(&["efg", "h"])]);
        assert_eq!(text, "  a  bcd\nefg    h\n");
    }
}
