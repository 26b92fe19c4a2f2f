//! `cargo xtask nightly`: what takes longer than anybody waits for after a change.

use anyhow::{Result, bail};

use crate::bench;
use crate::nextest::{Nextest, Run};
use crate::real_talos;
use crate::report::Report;
use crate::simulate;
use crate::test::{self, tests, with_hub};

/// What takes longer: 200 clusters, 100,000 seeds, every mutant, the quick benchmarks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many simulated upgrades
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    seeds: u64,

    /// How many clusters an operator has at once
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(40..=1000))]
    clusters: u32,
}

/// Runs everything, also after a failure, and then says what failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut report = Report::default();
    let mut failed = Vec::new();
    let mut keep = |name: &str, done: Result<()>| {
        if let Err(error) = done {
            failed.push(format!("{name}: {error:#}"));
        }
    };
    let nextest = Nextest::ensure()?;
    keep("fleet", fleet(&mut report, &nextest, args.clusters));
    let mutants = Run {
        filter: Some("test(mutant)".to_owned()),
        build: ["--features", "upgrade-simulation/mutants", "--tests"].map(str::to_owned).to_vec(),
        ..Run::default()
    };
    keep("benchmarks", report.stage("benchmarks", bench::quick));
    keep("real Talos", report.stage("real Talos", real_talos::nightly));
    keep("tests of mutants", tests(&mut report, "tests of mutants", &nextest, mutants));
    keep("seeds", report.stage("seeds", || simulate::many_seeds(args.seeds)));
    keep("mutants", report.stage("mutants", simulate::all_mutants));
    report.print();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} of the nightly checks failed:\n{}", failed.len(), failed.join("\n"))
}

fn fleet(report: &mut Report, nextest: &Nextest, clusters: u32) -> Result<()> {
    let mut variables = test::tool_variables()?;
    variables.push(("TALOS_OPERATOR_TEST_FLEET".into(), clusters.to_string().into()));
    let filter = Some("test(a_fleet_at_once)".to_owned());
    with_hub(report, "fleet", nextest, Run { filter, variables, ..Run::default() })
}
