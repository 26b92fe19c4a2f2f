//! One case: the same upgrade of the same cluster, by both sides.

use std::path::Path;

use upgrade_core::policy::Policy;

use crate::case::{Case, Product};
use crate::floor::{self, Floor};
use crate::gap::{self, Turn};
use crate::journal;
use crate::machine::{load, note};
use crate::record::{Record, Shares};
use crate::sides::{Side, play};
use crate::stage::Stage;
use crate::{Measure, chart, svg};

/// What came out.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) case: Case,
    pub(crate) speed: f64,
    pub(crate) load: String,
    /// In seconds of the cluster's time.
    pub(crate) ours: f64,
    pub(crate) talosctl: f64,
    pub(crate) floor: Floor,
    /// Real milliseconds, by our own journal; shortest first.
    pub(crate) gaps: Vec<f64>,
    /// Real milliseconds from "ready" to "next disrupted", as the simulator saw
    /// it on both sides; shortest first.
    pub(crate) seen: [Vec<f64>; 2],
    pub(crate) shares: [Shares; 2],
    pub(crate) chart: String,
}

/// Measures a case.
pub(crate) async fn measure(measure: &Measure, case: &Case) -> Result<Row, String> {
    let speed = measure.speed.unwrap_or_else(|| case.usual_speed());
    let load = load();
    note(&format!("{case}: time runs {speed} times as fast as life; load {load}"));
    let folder = measure.out.join(case.to_string());
    let set =
        |side: Side| Stage::set(case, side.name(), measure.seed, speed, folder.join(side.name()));
    let ours = set(Side::Ours).await?;
    let takes = ours.takes(case.product).await?;
    let floor = match case.product {
        Product::Os => floor::os(&takes),
        Product::Kubernetes => floor::kubernetes(&takes, width(case.workers)),
    };
    // At the speed of real machines neither side needs the processor for long,
    // and both may run at once. Faster than that, they would slow each other down.
    let (our_record, their_record) = if speed <= 1.0 {
        let theirs = set(Side::Talosctl).await?;
        tokio::try_join!(
            play(Side::Ours, case, &ours, measure),
            play(Side::Talosctl, case, &theirs, measure),
        )?
    } else {
        let our_record = play(Side::Ours, case, &ours, measure).await?;
        ours.cluster.stop().await;
        let theirs = set(Side::Talosctl).await?;
        (our_record, play(Side::Talosctl, case, &theirs, measure).await?)
    };
    let journal = folder.join("ours/profile.state/run.jsonl");
    let sides = [("ours", &our_record), ("talosctl", &their_record)];
    keep(measure, case, speed, &sides)?;
    Ok(Row {
        case: case.clone(),
        speed,
        load,
        ours: our_record.end,
        talosctl: their_record.end,
        floor,
        gaps: milliseconds(&gap::gaps(&journal::turns(&journal)), 1.0),
        seen: [&our_record, &their_record].map(|record| milliseconds(&waits(case, record), speed)),
        shares: [our_record.shares(), their_record.shares()],
        chart: chart::chart(&sides, false),
    })
}

/// How many kubelets of workers restart at once, as shipped.
fn width(workers: usize) -> usize {
    Policy::default().kubelets.max_parallel.of(workers).max(1)
}

/// The gaps that the simulator saw, in seconds of the cluster's time.
fn waits(case: &Case, record: &Record) -> Vec<f64> {
    if case.product == Product::Kubernetes {
        return Vec::new();
    }
    let turns = record.lines.iter().filter_map(|line| {
        let (disrupted, done) = line.disruptions(record.end).first().copied()?;
        Some(Turn { control_plane: line.control_plane, disrupted, done })
    });
    gap::gaps(&turns.collect::<Vec<_>>())
}

fn milliseconds(seconds: &[f64], speed: f64) -> Vec<f64> {
    seconds.iter().map(|seconds| seconds / speed * 1000.0).collect()
}

/// Writes the charts to the output folder.
fn keep(
    measure: &Measure,
    case: &Case,
    speed: f64,
    sides: &[(&str, &Record)],
) -> Result<(), String> {
    let Measure { commit, seed, out, .. } = measure;
    let title = format!("{case}, seed {seed}, {speed} times as fast as life, commit {commit}");
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write(&out.join(format!("{case}.svg")), svg::drawing(&title, sides))?;
    let text = format!("{title}\n{}", chart::chart(sides, true));
    write(&out.join(format!("{case}.txt")), text)
}
