//! `cargo xtask check`: the checks for every change. No sockets, no real tools.

use anyhow::Result;

use crate::nextest::{Nextest, Run};
use crate::report::Report;
use crate::test::{clippy, tests};
use crate::{cargo, purity};

/// The quick checks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// The build targets: unit tests, and the suites of the deciding crates.
const TARGETS: [&str; 7] =
    ["--lib", "--test", "planner", "--test", "engine", "--test", "machine_config"];

/// Unit tests that open sockets or start processes are left to `cargo xtask test`.
const QUIET: &str = "not (package(image-factory-client) | package(envtest) \
                     | package(upgrade-controller) & test(/^http::/) \
                     | package(talos-sim) & test(/^(address|factory)::/))";

/// Format, lints, purity, unit, planner and engine tests.
pub(crate) fn run(Args {}: Args) -> Result<()> {
    let mut report = Report::default();
    let checked = check_all(&mut report);
    report.print();
    checked
}

fn check_all(report: &mut Report) -> Result<()> {
    report.stage("format", || cargo::run(&["fmt", "--all", "--check"]))?;
    report.stage("purity", purity::check)?;
    report.stage("clippy", clippy)?;
    let nextest = report.stage("runner", Nextest::ensure)?;
    let run = Run {
        filter: Some(QUIET.to_owned()),
        build: TARGETS.map(str::to_owned).to_vec(),
        ..Run::default()
    };
    tests(report, "tests", &nextest, run)
}
