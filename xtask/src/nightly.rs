//! `cargo xtask nightly`: the checks that take too long to run after every change.
//!
//! What measures runs first and alone. The real nodes mostly wait, so the seeds and mutants run
//! beside them, at a lower priority.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, bail};
use rustix::process::nice;

use crate::bench;
use crate::nextest::{Nextest, Run};
use crate::real_talos;
use crate::report::{Report, timed};
use crate::simulate;
use crate::test::{self, tests, with_hub};
use crate::tools::host::note;

/// How many simulated lives of the operator.
const OPERATOR_SEEDS: u64 = 10_000;

/// The slow checks: 200 clusters, benchmarks, real nodes, 100,000 seeds, the operator, every mutant.
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

/// The checks.
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
    /// Simulated lives of the operator
    OperatorSeeds,
    /// Every mutant must be caught by the simulation
    Mutants,
}

impl Check {
    const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Benchmarks => "benchmarks",
            Self::RealTalos => "real-talos",
            Self::MutantTests => "mutant-tests",
            Self::Seeds => "seeds",
            Self::OperatorSeeds => "operator-seeds",
            Self::Mutants => "mutants",
        }
    }
}

/// Runs every check, continues after a failure, and reports the failed ones at the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut night = Night {
        skip: &args.skip,
        nextest: Nextest::ensure()?,
        interrupt: real_talos::interrupted()?,
        report: Report::default(),
        failed: Vec::new(),
    };
    night.check(Check::Fleet, |report, nextest| fleet(report, nextest, args.clusters));
    night.stage(Check::Benchmarks, bench::quick);
    thread::scope(|scope| {
        let real_nodes = night.starts(Check::RealTalos).then(|| {
            note("\n== real-talos: started beside the next checks");
            scope.spawn(|| timed(real_talos::nightly))
        });
        lower_priority();
        night.check(Check::MutantTests, mutant_tests);
        night.stage(Check::Seeds, || simulate::many_seeds(args.seeds));
        night.stage(Check::OperatorSeeds, || simulate::many_operator_seeds(OPERATOR_SEEDS));
        night.stage(Check::Mutants, simulate::all_mutants);
        if let Some(real_nodes) = real_nodes {
            note("\n== real-talos: waiting for its end");
            let (done, took) = real_nodes.join().unwrap_or_else(|panic| resume_unwind(panic));
            let name = Check::RealTalos.name();
            let done = night.report.record(name, took, done);
            night.note(done);
        }
    });
    night.end()
}

/// One run of the nightly checks.
struct Night<'a> {
    skip: &'a [Check],
    nextest: Nextest,
    interrupt: Arc<AtomicBool>,
    report: Report,
    failed: Vec<String>,
}

impl Night<'_> {
    fn starts(&self, check: Check) -> bool {
        if self.skip.contains(&check) {
            note(&format!("\n== {}: skipped", check.name()));
            return false;
        }
        !self.interrupt.load(Ordering::Relaxed)
    }

    fn check(&mut self, check: Check, run: impl FnOnce(&mut Report, &Nextest) -> Result<()>) {
        if self.starts(check) {
            let done = run(&mut self.report, &self.nextest);
            self.note(done);
        }
    }

    fn stage(&mut self, check: Check, run: impl FnOnce() -> Result<()>) {
        self.check(check, |report, _| report.stage(check.name(), run));
    }

    fn note(&mut self, done: Result<()>) {
        self.failed.extend(done.err().map(|error| format!("{error:#}")));
    }

    fn end(self) -> Result<()> {
        self.report.print();
        if self.interrupt.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if self.failed.is_empty() {
            return Ok(());
        }
        bail!("{} of the nightly checks failed:\n{}", self.failed.len(), self.failed.join("\n"))
    }
}

/// The processor goes to the real nodes first: their observer judges by seconds. On Linux this
/// changes only the calling thread, and what it starts from here on.
fn lower_priority() {
    if let Err(error) = nice(19) {
        note(&format!("cannot lower the priority of the next checks: {error}"));
    }
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
