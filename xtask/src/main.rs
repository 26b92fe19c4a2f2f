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
    /// The quick part of it, for after every change: no sockets, no real tools
    Check(check::Args),
    /// What takes longer: 200 clusters at once, 100,000 seeds, every mutant, benchmarks
    Nightly(nightly::Args),
    /// Measure, and print ratios
    Bench(bench::Args),
    /// A real Kubernetes control plane on this machine: up, down, status
    Cluster(cluster::Args),
    /// The engine on thousands of in-memory worlds, refereed; `replay FILE` plays a kept one
    Simulate(simulate::Args),
    /// Deliberate breakages of each rule, and how soon the referee catches them
    Mutants(simulate::Args),
    /// Real Talos nodes in namespaces of this machine: build, up, down, test, compare
    RealTalos(real_talos::Args),
    /// Build the real tools that the tests compare with, or show where they are
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
        Xtask::Mutants(args) => simulate::mutants(&args),
        Xtask::RealTalos(args) => real_talos::run(args),
        Xtask::Tools(args) => tools::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes, without a backtrace that helps nobody here.
            tools::host::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
