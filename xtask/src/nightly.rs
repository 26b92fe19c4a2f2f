//! `cargo xtask nightly`: the checks that take too long to run after every change.

use anyhow::{Result, bail};

use crate::bench;
use crate::nextest::{Nextest, Run};
use crate::real_talos;
use crate::report::Report;
use crate::simulate;
use crate::test::{self, tests, with_hub};
use crate::tools::host::note;

/// The slow checks: 200 clusters, benchmarks, real nodes, 100,000 seeds, every mutant.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many simulated upgrades
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    seeds: u64,

    /// How many clusters one operator serves at once
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(40..=1000))]
    clusters: u32,

    /// Skip this check; repeat for several
    #[arg(long, value_name = "CHECK")]
    skip: Vec<Check>,
}

/// The checks, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Check {
    /// One operator with many clusters at once
    Fleet,
    /// The quick cases of the benchmarks
    Benchmarks,
    /// Our binary against real Talos nodes; needs root on Linux
    RealTalos,
    /// The tests that break a guard and expect a failure
    MutantTests,
    /// Simulated upgrades
    Seeds,
    /// Every mutant must be caught by the simulation
    Mutants,
}

impl Check {
    const ALL: [Self; 6] = [
        Self::Fleet,
        Self::Benchmarks,
        Self::RealTalos,
        Self::MutantTests,
        Self::Seeds,
        Self::Mutants,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Benchmarks => "benchmarks",
            Self::RealTalos => "real-talos",
            Self::MutantTests => "mutant-tests",
            Self::Seeds => "seeds",
            Self::Mutants => "mutants",
        }
    }

    fn run(self, args: &Args, report: &mut Report, nextest: &Nextest) -> Result<()> {
        let name = self.name();
        match self {
            Self::Fleet => fleet(report, nextest, args.clusters),
            Self::Benchmarks => report.stage(name, bench::quick),
            Self::RealTalos => report.stage(name, real_talos::nightly),
            Self::MutantTests => mutant_tests(report, nextest),
            Self::Seeds => report.stage(name, || simulate::many_seeds(args.seeds)),
            Self::Mutants => report.stage(name, simulate::all_mutants),
        }
    }
}

/// Runs every check, continues after a failure, and reports the failed ones at the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut report = Report::default();
    let mut failed = Vec::new();
    let nextest = Nextest::ensure()?;
    for check in Check::ALL {
        if args.skip.contains(&check) {
            note(&format!("\n== {}: skipped", check.name()));
        } else if let Err(error) = check.run(args, &mut report, &nextest) {
            failed.push(format!("{}: {error:#}", check.name()));
        }
    }
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
    with_hub(report, Check::Fleet.name(), nextest, Run { filter, variables, ..Run::default() })
}

fn mutant_tests(report: &mut Report, nextest: &Nextest) -> Result<()> {
    let run = Run {
        filter: Some("test(mutant)".to_owned()),
        build: ["--features", "simulation-tests/mutants", "--tests"].map(str::to_owned).to_vec(),
        ..Run::default()
    };
    tests(report, Check::MutantTests.name(), nextest, run)
}
