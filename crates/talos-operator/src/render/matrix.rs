//! The support matrix, as a table, one line in words, and JSON.

use std::fmt::Write as _;

use serde::Serialize;
use upgrade_core::catalogue::Broken;
use upgrade_core::matrix::Row;
use upgrade_core::version::{Minor, Version};

use super::layout::{self, hang, remark};
use super::plan_json::{FORMAT, pretty};
use super::{BAD, FAINT, HEADING, paint};
use crate::release_data::ReleaseData;

/// All that is known of one Talos release line.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its row of the matrix.
    #[serde(flatten)]
    pub row: Row,
    /// The newest release of it that is fit to run.
    pub newest: Option<Version>,
    /// The newer lines that it may be moved to, at most two minors on.
    pub upgrades_to: Vec<Minor>,
    /// The older lines that it may be moved back to.
    pub goes_back_to: Vec<Minor>,
    /// The newest patch of each Kubernetes line that it runs.
    pub kubernetes: Vec<KubernetesLine>,
    /// Releases of it that should not be run.
    pub broken: Vec<Broken>,
}

/// A Kubernetes release line.
#[derive(Clone, Debug, Serialize)]
pub struct KubernetesLine {
    /// The line.
    pub line: Minor,
    /// Its newest patch that is known.
    pub newest: Option<Version>,
}

/// Brings matrix and catalogue together, oldest line first.
pub fn lines(data: &ReleaseData) -> Vec<Line> {
    let ReleaseData { matrix, catalogue } = data;
    let line = |row: &Row| {
        let host = catalogue.newest_talos(row.talos).cloned().unwrap_or_else(|| row.talos.first());
        // More than two minors at once are never planned, whatever installs.
        let near = |other: &Row| row.talos.steps_to(other.talos).is_none_or(|steps| steps <= 2);
        let installable =
            |other: &&Row| other.talos != row.talos && other.accepts_host(&host) && near(other);
        let (newer, older): (Vec<Minor>, Vec<Minor>) = matrix
            .rows()
            .iter()
            .filter(installable)
            .map(|other| other.talos)
            .partition(|other| *other > row.talos);
        Line {
            row: row.clone(),
            newest: catalogue.newest_talos(row.talos).cloned(),
            upgrades_to: newer,
            goes_back_to: older,
            kubernetes: kubernetes(row)
                .map(|line| KubernetesLine {
                    line,
                    newest: catalogue.newest_kubernetes(line).cloned(),
                })
                .collect(),
            broken: catalogue
                .broken
                .iter()
                .filter(|broken| broken.talos.minor() == row.talos)
                .cloned()
                .collect(),
        }
    };
    matrix.rows().iter().map(line).collect()
}

fn kubernetes(row: &Row) -> impl Iterator<Item = Minor> {
    let (oldest, newest) = row.kubernetes_minors();
    // A table over two majors would have no end to count to; there is none yet.
    let steps = oldest.steps_to(newest).unwrap_or(0).min(100);
    std::iter::successors(Some(oldest), |line| Some(line.next()))
        .zip(0..=steps)
        .map(|(line, _)| line)
}

/// The whole table.
pub fn table(lines: &[Line]) -> String {
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let (oldest, newest) = line.row.kubernetes_minors();
            vec![
                line.row.talos.to_string(),
                format!("{} to {}", line.row.host_min.minor(), line.row.talos),
                listed(&line.upgrades_to, "-"),
                format!("{oldest} to {newest}"),
                newest_of(line),
            ]
        })
        .collect();
    let header = ["TALOS", "UPGRADES FROM", "UPGRADES TO", "KUBERNETES", "NEWEST KNOWN"];
    let mut out = layout::table(&header, &rows, &[]);
    out.push_str(
        "\nUpgrades go through adjacent lines unless --skip-minors asks for two at once.\n",
    );
    // The line people will want next: the newest that they can run.
    if let Some(line) = lines.iter().rev().find(|line| line.row.released) {
        let _ =
            writeln!(out, "Details of one line: talos-operator matrix --talos {}", line.row.talos);
    }
    out
}

fn newest_of(line: &Line) -> String {
    match &line.newest {
        Some(version) => version.to_string(),
        None if line.row.released => "none".to_owned(),
        None => "not released yet".to_owned(),
    }
}

fn listed(lines: &[Minor], none: &str) -> String {
    if lines.is_empty() {
        return none.to_owned();
    }
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// One line in more words.
pub fn one(line: &Line) -> String {
    let Line { row, newest: _, upgrades_to, goes_back_to, kubernetes, broken } = line;
    let mut out = format!("{}\n\n", paint(HEADING, &format!("Talos {}", row.talos)));
    let mut say = |key: &str, value: &str| {
        out.push_str(&hang(&format!("  {key:<16}"), 18, value));
    };
    say("Newest known", &newest_of(line));
    for Broken { talos, why } in broken {
        say("Avoid", &format!("{talos}: {why}"));
    }
    say(
        "Upgrades from",
        &format!("{} and newer, up to an older patch of {}", row.host_min, row.talos),
    );
    say("Upgrades to", &directions(row.talos, upgrades_to));
    say("Rolls back to", &listed(goes_back_to, "no known line"));
    let (oldest, newest) = row.kubernetes_minors();
    say("Kubernetes", &format!("{oldest} to {newest}"));
    out.push('\n');
    let rows: Vec<Vec<String>> = kubernetes
        .iter()
        .map(|KubernetesLine { line, newest }| {
            let newest = newest.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
            vec![line.to_string(), newest]
        })
        .collect();
    for line in layout::table(&["KUBERNETES", "NEWEST KNOWN"], &rows, &[]).lines() {
        out.push_str("  ");
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn directions(from: Minor, lines: &[Minor]) -> String {
    if lines.is_empty() {
        return "no known line".to_owned();
    }
    let direction = |line: &Minor| match from.steps_to(*line) {
        Some(0 | 1) => line.to_string(),
        _ => format!("{line} (with --skip-minors)"),
    };
    lines.iter().map(direction).collect::<Vec<_>>().join(", ")
}

/// A line that the matrix lacks.
pub fn unknown(talos: Minor, lines: &[Line]) -> String {
    let range = match lines {
        [] => "is empty".to_owned(),
        [only] => format!("has {} only", only.row.talos),
        [first, .., last] => format!("goes from {} to {}", first.row.talos, last.row.talos),
    };
    remark(BAD, "refused", &format!("Talos {talos} is not in the support matrix, which {range}"))
        + &remark(
            FAINT,
            "  next",
            "choose a line from `talos-operator matrix`, or use a newer matrix with --matrix",
        )
}

/// Lines for programs.
pub fn json(lines: &[Line]) -> String {
    #[derive(Serialize)]
    struct View<'a> {
        format: u32,
        lines: &'a [Line],
    }
    pretty(&View { format: FORMAT, lines })
}
