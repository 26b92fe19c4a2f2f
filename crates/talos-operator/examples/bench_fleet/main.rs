//! What a fleet costs the operator: its memory, what it does while all clusters
//! are idle, and how soon every cluster's run begins when all targets are set at
//! once.
//!
//! Every size has a hub of its own (a real API server with its etcd and
//! controllers), simulated clusters of ten nodes in processes of their own, and
//! the built operator as a process of its own. `cargo xtask bench fleet` builds
//! and starts it; whatever ends it, nothing is left running.

mod fleet;
mod host;
mod hub;
#[path = "../shared/interrupt.rs"]
mod interrupt;
#[path = "../shared/machine.rs"]
mod machine;
mod operator;
mod row;
mod serve;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;

/// The nodes of a cluster: three control planes, the others workers.
pub(crate) const NODES: usize = 10;

#[derive(Debug, Parser)]
enum Command {
    /// Measure
    Measure(Measure),
    /// Be the clusters of a fleet, until stdin ends
    Serve {
        /// The number of the first
        #[arg(long)]
        first: usize,
        /// How many
        #[arg(long)]
        count: usize,
    },
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Measure {
    /// The operator's binary
    #[arg(long)]
    operator: PathBuf,
    /// How many clusters, size by size
    #[arg(long, value_delimiter = ',')]
    clusters: Vec<usize>,
    /// How many seconds nothing is done and everything counted
    #[arg(long)]
    quiet: u64,
    /// How often, in seconds, the operator looks at a cluster that rests
    #[arg(long)]
    look_every: u64,
    /// Which state of the program it is
    #[arg(long)]
    commit: String,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match command {
        Command::Serve { first, count } => {
            runtime.block_on(serve::serve(first, count));
            ExitCode::SUCCESS
        }
        Command::Measure(measure) => {
            let interrupt = Arc::new(AtomicBool::new(false));
            runtime.block_on(async {
                tokio::select! {
                    () = all(&measure, &interrupt) => ExitCode::SUCCESS,
                    () = interrupt::interrupted() => {
                        host::note("interrupted; cleaning up");
                        // For a hub that is just being started.
                        interrupt.store(true, Ordering::Relaxed);
                        ExitCode::FAILURE
                    }
                }
            })
        }
    }
}

/// Every size after the other; what a size needs is gone before the next.
async fn all(measure: &Measure, interrupt: &Arc<AtomicBool>) {
    let mut rows = Vec::new();
    for count in &measure.clusters {
        rows.push(row::measure(measure, *count, interrupt).await);
    }
    table::print(measure, &rows);
}
