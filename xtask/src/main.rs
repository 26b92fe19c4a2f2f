//! The project's own commands. `cargo xtask test` is the one that CI and a
//! newcomer run; it installs and builds what it needs by itself.

mod bench;
mod cargo;
mod check;
mod cluster;
mod hub;
mod nextest;
mod nightly;
mod purity;
mod real_talos;
mod report;
mod simulate;
mod test;
mod tools;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project commands", disable_help_subcommand = true)]
enum Xtask {
    /// Format, lints, purity, all tests, documentation: everything CI checks
    Test(test::Args),
    /// The quick checks for every change: no sockets, no real tools
    Check(check::Args),
    /// The slow checks: 200 clusters at once, 100,000 seeds, every mutant, benchmarks
    Nightly(nightly::Args),
    /// Measure, and print ratios
    Bench(bench::Args),
    /// A real Kubernetes control plane on this machine: up, down, status
    Cluster(cluster::Args),
    /// Thousands of upgrades on in-memory worlds with a referee; `replay FILE` repeats a saved one
    Simulate(simulate::Args),
    /// Thousands of lives of the operator, with several replicas, on an in-memory hub
    SimulateOperator(simulate::Args),
    /// Break each guard on purpose, and count the seeds until the referee catches it
    Mutants(simulate::Args),
    /// Real Talos nodes in namespaces of this machine: build, up, down, test, compare
    RealTalos(real_talos::Args),
    /// Build the real tools that the tests use, or show where they are
    Tools(tools::Args),
}

fn main() -> ExitCode {
    let result = match Xtask::parse() {
        Xtask::Test(args) => test::run(&args),
        Xtask::Check(args) => check::run(args),
        Xtask::Nightly(args) => nightly::run(&args),
        Xtask::Bench(args) => bench::run(args),
        Xtask::Cluster(args) => cluster::run(args),
        Xtask::Simulate(args) => simulate::simulate(&args),
        Xtask::SimulateOperator(args) => simulate::simulate_operator(&args),
        Xtask::Mutants(args) => simulate::mutants(&args),
        Xtask::RealTalos(args) => real_talos::run(args),
        Xtask::Tools(args) => tools::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes; a backtrace would not help here.
            tools::host::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
