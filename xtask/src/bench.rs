//! `cargo xtask bench`: measurements that print ratios within one run.

mod binary;
mod elf;
mod fleet;
mod program;
mod rollout;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// Planning and deciding for 10 to 10,000 nodes
    Planner,
    /// Memory, start time and requests per second of 1 to 1,000 simulated clusters, and of one with
    /// up to 1,000 nodes
    Sim,
    /// What 10, 100 and 1,000 clusters of ten nodes cost the operator on a real API server
    Fleet(fleet::Args),
    /// The same upgrade by us and by the real talosctl, and how far both are from the minimum time
    Rollout(rollout::Args),
    /// The shipped binary: its size, its dependencies, and its time to readiness
    Binary(binary::Args),
}

/// Runs a benchmark, optimised.
pub(crate) fn run(Args { bench }: Args) -> Result<()> {
    match bench {
        Bench::Planner => example("upgrade-planner", "bench_planner"),
        Bench::Sim => example("talos-operator", "bench_sim"),
        Bench::Fleet(args) => fleet::run(&args),
        Bench::Rollout(args) => rollout::run(&args),
        Bench::Binary(args) => binary::run(&args),
    }
}

/// The cases that take minutes, not hours.
pub(crate) fn quick() -> Result<()> {
    example("upgrade-planner", "bench_planner")?;
    fleet::run(&fleet::Args::quick())?;
    rollout::run(&rollout::Args::quick())?;
    binary::run(&binary::Args::quick())
}

fn example(package: &str, example: &str) -> Result<()> {
    let status = cargo()
        .args(["run", "--quiet", "--profile", "dist", "--locked", "--package", package])
        .args(["--example", example])
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the benchmark ended with {status}");
    }
    Ok(())
}
