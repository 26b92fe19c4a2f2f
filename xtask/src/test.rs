//! `cargo xtask test`: everything that CI checks, cheapest failures first.
//!
//! The real tools and the test runner are built while Rust compiles, and while the tests run that
//! do not need them.

use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::hub::Hub;
use crate::nextest::{Nextest, Ran, Run};
use crate::report::Report;
use crate::tools::{self, host};
use crate::{cargo, purity, simulate};

/// Runs all checks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only tests with this in their name, or the one test `PACKAGE::BINARY/TEST`; no other checks
    #[arg(long, value_name = "TEST")]
    only: Vec<String>,

    /// Only tests that this expression of cargo-nextest selects, such as `binary(tools)`
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["only", "processes"])]
    filter: Option<String>,

    /// Only tests that start processes: real tools, hubs, the built binary
    #[arg(long, conflicts_with = "only")]
    processes: bool,

    /// Run these tests this often, and stop at the first failure
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    times: u32,
}

impl Args {
    /// The filter for the selected tests; `None` for all checks.
    fn selection(&self) -> Option<String> {
        if self.processes {
            return Some(STARTS_PROCESSES.to_owned());
        }
        if self.only.is_empty() {
            return self.filter.clone();
        }
        Some(self.only.iter().map(|name| selects(name)).collect::<Vec<_>>().join(" | "))
    }
}

/// The real tools that the tests run.
pub(crate) const TOOLS: &[&str] = &[
    "etcd",
    "etcdutl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "talosctl-1.14",
    "talosctl-1.13",
    "talosctl-1.12",
    "versitygw",
];

/// The tests that need real tools, as a nextest filter. Any other test that uses a tool fails on a
/// machine without tools.
const NEEDS_TOOLS: &str =
    "binary(/^(real|failures|tools|operator|deploy)$/) | test(/real::|real_api_server|talosctl/)";

/// The tests that start processes: those above, and those of the built binary.
const STARTS_PROCESSES: &str = "binary(/^(real|failures|tools|operator|deploy|live|commands)$/) \
                                | test(/real::|real_api_server|talosctl/)";

/// How many seeds are part of the tests.
const SEEDS: u64 = 2_000;

/// How many seeds of the operator are.
const OPERATOR_SEEDS: u64 = 300;

/// Runs every check and stops at the first failure.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(selection) = args.selection() {
        return run_only(&selection, args.times);
    }
    if args.times > 1 {
        bail!("--times needs --only, --filter or --processes: say which tests to repeat");
    }
    let mut report = Report::default();
    let checked = check_all(&mut report);
    report.print();
    checked
}

fn check_all(report: &mut Report) -> Result<()> {
    let background = Background::start();
    report.stage("format", || cargo::run(&["fmt", "--all", "--check"]))?;
    report.stage("purity", purity::check)?;
    report.stage("clippy", clippy)?;
    report.stage("build", || {
        cargo::run(&["test", "--quiet", "--workspace", "--locked", "--no-run"])
    })?;
    let nextest = report.stage("runner", || background.runner())?;
    if let Some(variables) = background.try_tools()? {
        rest(report)?;
        return with_hub(report, "tests", &nextest, Run { variables, ..Run::default() });
    }
    let filter = Some(format!("not ({NEEDS_TOOLS})"));
    tests(report, "tests without tools", &nextest, Run { filter, ..Run::default() })?;
    rest(report)?;
    let variables = report.stage("tools", || background.tools())?;
    let filter = Some(NEEDS_TOOLS.to_owned());
    let run = Run { filter, variables, ..Run::default() };
    with_hub(report, "tests with tools", &nextest, run)
}

/// The seeds and the documentation, which need neither tools nor the test runner.
fn rest(report: &mut Report) -> Result<()> {
    report.stage("simulate", || simulate::seeds(SEEDS))?;
    report.stage("simulate operator", || simulate::operator_seeds(OPERATOR_SEEDS))?;
    // nextest does not run doc tests.
    report.stage("doc tests", || {
        cargo::run(&["test", "--quiet", "--doc", "--workspace", "--locked"])
    })?;
    report.stage("doc", || {
        let strict = [("RUSTDOCFLAGS", "-D warnings")];
        cargo::run_with(&["doc", "--quiet", "--workspace", "--no-deps", "--locked"], &strict)
    })
}

/// Clippy for everything, and for what only a build with mutants compiles.
pub(crate) fn clippy() -> Result<()> {
    let strict: [&str; 3] = ["--", "-D", "warnings"];
    let args = ["clippy", "--quiet", "--workspace", "--all-targets", "--locked"];
    cargo::run(&[&args[..], &strict].concat())?;
    let mutants = ["clippy", "--quiet", "--tests", "--locked", "--features", "mutants"];
    let crates = ["-p", "upgrade-core", "-p", "upgrade-planner", "-p", "upgrade-engine"];
    cargo::run(&[&mutants[..], &crates, &strict].concat())
}

/// Runs tests, and records their results.
pub(crate) fn tests(
    report: &mut Report,
    name: &'static str,
    nextest: &Nextest,
    mut run: Run,
) -> Result<()> {
    // A snapshot that differs is a failure, never an update.
    run.variables.push(("INSTA_UPDATE".into(), "no".into()));
    let mut ran = Vec::new();
    let done = report.stage(name, || {
        let (passed, found) = nextest.run(&run)?;
        ran = found;
        if passed {
            return Ok(());
        }
        bail!("{}", failures(&ran))
    });
    report.tests.extend(ran);
    done
}

/// The same with a hub that all tests of the run share.
pub(crate) fn with_hub(
    report: &mut Report,
    name: &'static str,
    nextest: &Nextest,
    mut run: Run,
) -> Result<()> {
    let hub = report.stage("hub", Hub::start)?;
    run.variables.push(hub.variable());
    let done = tests(report, name, nextest, run);
    hub.stop()?;
    done
}

/// The failed tests, each with the command that repeats it alone.
fn failures(ran: &[Ran]) -> String {
    let failed: Vec<&Ran> = ran.iter().filter(|test| test.failed).collect();
    let mut lines =
        vec![format!("{} of {} tests failed; to repeat one alone:", failed.len(), ran.len())];
    lines.extend(failed.iter().map(|test| format!("  cargo xtask test --only {}", test.id())));
    lines.join("\n")
}

/// Some tests, repeated if requested.
fn run_only(selection: &str, times: u32) -> Result<()> {
    let nextest = Nextest::ensure()?;
    let variables = variables(tools::ensure(TOOLS)?);
    let hub = Hub::start()?;
    for time in 1..=times {
        if times > 1 {
            host::note(&format!("\n== {time} of {times}"));
        }
        let mut run = Run {
            filter: Some(selection.to_owned()),
            variables: variables.clone(),
            ..Run::default()
        };
        run.variables.push(hub.variable());
        run.variables.push(("INSTA_UPDATE".into(), "no".into()));
        let (passed, ran) = nextest.run(&run)?;
        if !passed {
            bail!("{}", failures(&ran));
        }
    }
    hub.stop()
}

/// A filter for one test by its full id, or for those with a text in their names.
fn selects(name: &str) -> String {
    match name.split_once('/') {
        Some((suite, test)) => {
            // The suite of a library's unit tests is its package.
            format!("(binary_id(={suite}) & test(={test}))")
        }
        None => format!("test({name})"),
    }
}

/// The variables that name the tools for the tests.
fn variables(
    paths: impl IntoIterator<Item = (&'static str, std::path::PathBuf)>,
) -> Vec<(OsString, OsString)> {
    let variable = |(name, path): (&str, std::path::PathBuf)| {
        (tools::variable(name).into(), path.into_os_string())
    };
    paths.into_iter().map(variable).collect()
}

/// The variables that name the tools.
pub(crate) fn tool_variables() -> Result<Vec<(OsString, OsString)>> {
    Ok(variables(tools::ensure(TOOLS)?))
}

/// Builds in the background.
struct Background {
    runner: Receiver<Result<Nextest>>,
    tools: Receiver<Result<Vec<(OsString, OsString)>>>,
}

impl Background {
    fn start() -> Self {
        let (tell_runner, runner) = mpsc::channel();
        let (tell_tools, tools) = mpsc::channel();
        // Ends with this process: an interrupted build starts again next time.
        thread::spawn(move || {
            // The receiver is gone if a check failed meanwhile.
            let _ = tell_runner.send(Nextest::ensure());
            let _ = tell_tools.send(tools::ensure_beside(TOOLS).map(variables));
        });
        Self { runner, tools }
    }

    fn runner(&self) -> Result<Nextest> {
        self.runner.recv().context("the test runner was not built")?
    }

    /// The tools, if they are ready.
    fn try_tools(&self) -> Result<Option<Vec<(OsString, OsString)>>> {
        match self.tools.try_recv() {
            Ok(built) => built.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(anyhow!("the tools were not built")),
        }
    }

    fn tools(&self) -> Result<Vec<(OsString, OsString)>> {
        self.tools.recv().context("the tools were not built")?
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_shows_the_command_that_repeats_it() {
        let ran = |name: &str, failed| Ran {
            suite: "annotation-operator::real".to_owned(),
            name: name.to_owned(),
            took: Duration::ZERO,
            failed,
        };
        let report = failures(&[ran("a::b", true), ran("c", false)]);
        assert!(report.starts_with("1 of 2 tests failed"), "{report}");
        assert!(
            report.ends_with("cargo xtask test --only annotation-operator::real/a::b"),
            "{report}"
        );
        assert_eq!(
            selects("annotation-operator::real/a::b"),
            "(binary_id(=annotation-operator::real) & test(=a::b))",
        );
        assert_eq!(selects("drain"), "test(drain)");
    }
}
