//! `cargo xtask bench`: measurements that print ratios from one run.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The benchmark
    #[arg(value_enum)]
    name: Name,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Name {
    /// Planning and deciding for 10 to 10,000 nodes
    Planner,
    /// Memory, start and requests a second of 1 to 1,000 simulated clusters, and of one with up
    /// to 1,000 nodes
    Sim,
}

/// Runs a benchmark, optimised.
pub(crate) fn run(Args { name }: Args) -> Result<()> {
    let (package, example) = match name {
        Name::Planner => ("upgrade-planner", "bench_planner"),
        Name::Sim => ("talos-operator", "bench_sim"),
    };
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--release", "--locked", "--package", package])
        .args(["--example", example])
        .status()
        .context("cargo does not start")?;
    if !status.success() {
        bail!("the benchmark ended with {status}");
    }
    Ok(())
}
