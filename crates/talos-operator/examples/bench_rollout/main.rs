//! The same upgrade of the same simulated cluster, by us and by the real
//! talosctl: how long each takes, what no program could go below, and where the
//! rest of the time went.
//!
//! Each side gets a cluster of its own from one seed, in which every node has
//! times of its own: it pulls, installs and boots as fast for either side,
//! whatever the order. `cargo xtask bench rollout` builds and starts this;
//! whatever ends it, nothing is left running.

mod case;
mod chart;
mod child;
mod floor;
mod gap;
#[path = "../shared/interrupt.rs"]
mod interrupt;
mod journal;
#[path = "../shared/machine.rs"]
mod machine;
mod record;
mod row;
mod sides;
mod stage;
mod svg;
mod table;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use case::Case;
use machine::{line, note, now};

/// As a shell counts a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[derive(Clone, Debug, Parser)]
pub(crate) struct Measure {
    /// Our binary
    #[arg(long)]
    binary: PathBuf,
    /// The real talosctl
    #[arg(long)]
    talosctl: PathBuf,
    /// The version of that
    #[arg(long)]
    version: String,
    /// What to measure
    #[arg(long = "case", value_delimiter = ',', required = true)]
    cases: Vec<Case>,
    /// Where chance begins
    #[arg(long)]
    seed: u64,
    /// How fast time passes, instead of what each case says
    #[arg(long)]
    speed: Option<f64>,
    /// Where pictures, logs and journals go
    #[arg(long)]
    out: PathBuf,
    /// Which state of the program it is
    #[arg(long)]
    commit: String,
}

fn main() -> ExitCode {
    let measure = Measure::parse();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        tokio::select! {
            measured = all(&measure) => match measured {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => {
                    note(&format!("error: {why}"));
                    ExitCode::FAILURE
                }
            },
            () = interrupt::interrupted() => {
                note("interrupted; cleaning up");
                ExitCode::from(INTERRUPTED)
            }
        }
    })
}

/// Every case after the other.
async fn all(measure: &Measure) -> Result<(), String> {
    // Programs run elsewhere, and still have to find it.
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|error| error.to_string());
    let measure = Measure {
        binary: absolute(&measure.binary)?,
        talosctl: absolute(&measure.talosctl)?,
        out: absolute(&measure.out)?,
        ..measure.clone()
    };
    std::fs::create_dir_all(&measure.out).map_err(|error| error.to_string())?;
    let began = now();
    let mut rows = Vec::new();
    for case in &measure.cases {
        let row = row::measure(&measure, case).await?;
        line(&format!("{case}\n{}", row.chart));
        rows.push(row);
    }
    let table = table::table(&measure, &rows);
    line(&table);
    let out = measure.out.display();
    std::fs::write(measure.out.join("table.txt"), &table).map_err(|error| error.to_string())?;
    note(&format!("{:.0?} in all; pictures, logs and journals are in {out}", began.elapsed()));
    Ok(())
}
