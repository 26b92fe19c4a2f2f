//! cargo-nextest, the test runner: finding or installing it, running it, and parsing its report.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use semver::Version;

use crate::cargo;
use crate::tools::host;
use crate::tools::version::{fits, probe};

/// The version that is installed if no suitable one is found.
const PINNED: Version = Version::new(0, 9, 151);

/// Where nextest writes its report: in the checkout, whatever the target folder is.
const REPORT: &str = "target/nextest/default/junit.xml";

/// An available test runner.
#[derive(Clone, Debug)]
pub(crate) struct Nextest {
    program: PathBuf,
}

/// Which tests to run, and their environment.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// A filter expression of nextest; `None` for all tests.
    pub(crate) filter: Option<String>,
    /// Cargo's build options: features, targets and the like.
    pub(crate) build: Vec<String>,
    /// Environment variables of the tests.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// One test that ran.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ran {
    /// Its package and binary, as `package::binary`.
    pub(crate) suite: String,
    /// Its name.
    pub(crate) name: String,
    /// How long it took.
    pub(crate) took: Duration,
    /// Whether it failed.
    pub(crate) failed: bool,
}

impl Ran {
    /// The argument of `cargo xtask test --only` for this test alone.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.suite, self.name)
    }
}

impl Nextest {
    /// The runner on the PATH if it is new enough, otherwise our own, installed if missing.
    pub(crate) fn ensure() -> Result<Self> {
        let on_path = PathBuf::from("cargo-nextest");
        let found = probe(&on_path, &["nextest", "--version"]);
        if found.is_ok_and(|found| fits(&PINNED, &found)) {
            return Ok(Self { program: on_path });
        }
        let root = host::cache_folder()?.join(format!("cargo-nextest-{PINNED}"));
        let program = root.join("bin/cargo-nextest");
        if !program.is_file() {
            install(&root)?;
        }
        Ok(Self { program })
    }

    /// Runs tests; the report is read whether they pass or not.
    pub(crate) fn run(&self, run: &Run) -> Result<(bool, Vec<Ran>)> {
        let report = cargo::checkout().join(REPORT);
        // An old report must not be mistaken for this run's.
        let _ = fs::remove_file(&report);
        let mut command = self.command(&["run", "--locked", "--workspace"]);
        command.args(&run.build);
        if let Some(filter) = &run.filter {
            command.args(["--filterset", filter]);
        }
        command.envs(run.variables.iter().map(|(name, value)| (name, value)));
        let status = command.status().context("cannot start cargo-nextest")?;
        let text = fs::read_to_string(&report);
        let text =
            text.with_context(|| format!("no tests ran ({status}): {}", report.display()))?;
        Ok((status.success(), parse(&text)))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = cargo::clean(&self.program);
        command.arg("nextest").args(arguments);
        command
    }
}

/// Builds it from source. It only starts processes and waits for them, so an unoptimised build is
/// good enough, and ready in a third of the time.
fn install(root: &Path) -> Result<()> {
    host::note(&format!("cargo-nextest {PINNED}: installing the test runner"));
    let began = host::now();
    let status = cargo::cargo()
        .args(["install", "--quiet", "--locked", "--debug", "--no-default-features", "--root"])
        .arg(root)
        .args(["--version", &format!("={PINNED}"), "cargo-nextest"])
        // Outside this workspace, so that it uses neither its sources nor its target folder.
        .current_dir(std::env::temp_dir())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!(
            "cargo-nextest {PINNED} could not be installed ({status}); install it yourself with \
             `cargo install cargo-nextest --locked`"
        );
    }
    host::note(&format!("cargo-nextest {PINNED}: installed in {:.0?}", began.elapsed()));
    Ok(())
}

/// Parses a `JUnit` report as nextest writes it: a `testcase` with its attributes in one tag, and a
/// `failure` or an `error` inside it if the test failed.
fn parse(report: &str) -> Vec<Ran> {
    let mut cases = Vec::new();
    for case in report.split("<testcase ").skip(1) {
        let (tag, rest) = case.split_once('>').unwrap_or((case, ""));
        let inside = if tag.ends_with('/') { "" } else { rest };
        let inside = inside.split("</testcase>").next().unwrap_or_default();
        let tag = format!(" {tag}");
        let attribute = |name: &str| {
            let (_, value) = tag.split_once(&format!(" {name}=\""))?;
            value.split('"').next().map(str::to_owned)
        };
        let (Some(suite), Some(name)) = (attribute("classname"), attribute("name")) else {
            continue;
        };
        let took = attribute("time").and_then(|time| time.parse().ok()).unwrap_or_default();
        let failed = inside.contains("<failure") || inside.contains("<error");
        cases.push(Ran { suite, name, took: Duration::from_secs_f64(took), failed });
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = r#"<?xml version="1.0"?>
<testsuites name="nextest-run" tests="2" failures="1">
  <testsuite name="annotation-operator::real" tests="2">
    <testcase name="many::fleet" classname="annotation-operator::real" timestamp="2026" time="61.5">
      <failure message="panicked"/>
      <system-err>&lt;testcase</system-err>
    </testcase>
    <testcase name="user::words" classname="annotation-operator::real" timestamp="2026" time="0.25">
    </testcase>
    <testcase name="short" classname="core" time="0.001"/>
  </testsuite>
</testsuites>"#;
        let cases = parse(report);
        let [fleet, words, short] = &cases[..] else { panic!("three tests: {cases:?}") };
        assert_eq!(fleet.id(), "annotation-operator::real/many::fleet");
        assert_eq!((fleet.failed, fleet.took), (true, Duration::from_millis(61_500)));
        assert_eq!((words.failed, words.took), (false, Duration::from_millis(250)));
        assert_eq!((short.id().as_str(), short.failed), ("core/short", false));
    }
}
