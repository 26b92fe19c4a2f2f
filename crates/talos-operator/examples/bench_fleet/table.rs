//! The one table, what was wanted, and how straight the lines are.

use crate::host::{line, machine};
use crate::row::Row;
use crate::{Measure, NODES};

/// What is wanted at a thousand clusters: MiB, percent of a core, seconds.
const WANTED: (f64, f64, f64) = (128.0, 2.0, 30.0);

type Column = (&'static str, fn(&Row) -> String);

type Measured = (&'static str, fn(&Row) -> f64);

const COLUMNS: [Column; 13] = [
    ("clusters", |row| row.clusters.to_string()),
    ("memory", |row| format!("{:.0} MiB", row.memory)),
    ("idle CPU", |row| format!("{:.2} %", row.processor)),
    ("requests", |row| format!("{:.0}/min", row.requests)),
    ("begun", |row| format!("{:.1} s", row.begun)),
    ("runs", |row| row.runs.to_string()),
    ("CPU", |row| format!("{:.1} s", row.begun_processor)),
    ("hub, clusters", |row| format!("{:.1} s, {:.1} s", row.begun_others.0, row.begun_others.1)),
    ("asked", |row| format!("{:.0}", row.begun_requests)),
    ("at most", |row| format!("{:.0} MiB", row.most)),
    ("open", |row| row.open.to_string()),
    ("first told", |row| format!("{:.1} s", row.reported)),
    ("let go", |row| format!("{:.1} s", row.handed_over)),
];

/// Prints it.
pub(crate) fn print(measure: &Measure, rows: &[Row]) {
    let Measure { quiet, look_every, commit, .. } = measure;
    line(&format!("the operator with fleets of clusters of {NODES} nodes"));
    line(&format!("commit {commit}; {}", machine()));
    let loads: Vec<&str> = rows.iter().map(|row| row.load.as_str()).collect();
    line(&format!("load of the machine before each size: {}", loads.join(", ")));
    line(&format!("looks every {look_every} s; {quiet} s of quiet were counted\n"));
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| COLUMNS.iter().map(|(_, cell)| cell(row)).collect()).collect();
    let widths: Vec<usize> = COLUMNS
        .iter()
        .enumerate()
        .map(|(at, (name, _))| {
            cells.iter().map(|row| row[at].len()).chain([name.len()]).max().unwrap_or(0)
        })
        .collect();
    let show = |cells: &[&str]| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        line(&padded.join("  "));
    };
    show(&COLUMNS.map(|(name, _)| name));
    for row in &cells {
        show(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (memory, processor, begun) = WANTED;
    line(&format!(
        "\nwanted at 1000 clusters: {memory:.0} MiB, {processor} % of a core idle, {begun:.0} s"
    ));
    if let Some(row) = rows.iter().find(|row| row.clusters == 1000) {
        line(&format!(
            "of what is wanted:       {:.2} of the memory, {:.2} of the idle CPU, {:.2} of the time",
            row.memory / memory,
            row.processor / processor,
            row.begun / begun
        ));
    }
    slopes(rows);
}

/// What one more cluster costs between two sizes; on a straight line it is the
/// same between all of them.
fn slopes(rows: &[Row]) {
    let measures: [Measured; 5] = [
        ("KiB of memory", |row| row.memory * 1024.0),
        ("% of a core idle", |row| row.processor),
        ("requests/min", |row| row.requests),
        ("s until begun", |row| row.begun),
        ("s of CPU until begun", |row| row.begun_processor),
    ];
    if rows.len() < 2 {
        return;
    }
    line(
        "\none more cluster costs, and the last such cost by the first (1.00 is a straight line):",
    );
    for (name, of) in measures {
        let costs: Vec<f64> = rows
            .windows(2)
            .map(|pair| (of(&pair[1]) - of(&pair[0])) / more(&pair[0], &pair[1]))
            .collect();
        let shown: Vec<String> = costs
            .iter()
            .zip(rows.windows(2))
            .map(|(cost, pair)| format!("{cost:.4} ({} to {})", pair[0].clusters, pair[1].clusters))
            .collect();
        let ratio = match (costs.first(), costs.last()) {
            (Some(first), Some(last)) if costs.len() > 1 => format!("   {:.2}", last / first),
            _ => String::new(),
        };
        line(&format!("  {name:<21}{}{ratio}", shown.join(", ")));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a thousand clusters fit")]
fn more(before: &Row, after: &Row) -> f64 {
    (after.clusters as f64 - before.clusters as f64).max(1.0)
}
