//! The report of a command: each stage with its duration, and the slowest tests.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::nextest::Ran;
use crate::tools::host;

/// How many tests are shown.
const SLOWEST: usize = 10;

/// Stages in the order they ran, and all tests.
#[derive(Debug, Default)]
pub(crate) struct Report {
    stages: Vec<(&'static str, Duration, bool)>,
    /// Every test that ran.
    pub(crate) tests: Vec<Ran>,
}

impl Report {
    /// Runs a stage and records its name and duration.
    pub(crate) fn stage<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        host::note(&format!("\n== {name}"));
        let (done, took) = timed(work);
        self.record(name, took, done)
    }

    /// Records a stage that has ended.
    pub(crate) fn record<T>(
        &mut self,
        name: &'static str,
        took: Duration,
        done: Result<T>,
    ) -> Result<T> {
        self.stages.push((name, took, done.is_ok()));
        if done.is_ok() {
            host::note(&format!("== {name}: passed in {}", clock(took)));
        }
        done.with_context(|| format!("the check `{name}` failed"))
    }

    /// Prints the report.
    pub(crate) fn print(&self) {
        host::note("\nThe slowest tests:");
        let mut tests: Vec<&Ran> = self.tests.iter().collect();
        tests.sort_by_key(|test| std::cmp::Reverse(test.took));
        for test in tests.iter().take(SLOWEST) {
            host::note(&format!("{:>8}  {}", clock(test.took), test.id()));
        }
        host::note("\nThe stages:");
        let mut total = Duration::ZERO;
        for (name, took, passed) in &self.stages {
            total += *took;
            let failed = if *passed { "" } else { "  FAILED" };
            host::note(&format!("{:>8}  {name}{failed}", clock(*took)));
        }
        let failed = self.stages.iter().any(|(_, _, passed)| !passed);
        let end =
            if failed { "in total; some checks failed" } else { "in total; all checks passed" };
        host::note(&format!("{:>8}  {end}", clock(total)));
    }
}

/// Does something, and measures how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = host::now();
    let done = work();
    (done, began.elapsed())
}

/// Minutes and seconds, with tenths for short times.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        return format!("{:.1} s", time.as_secs_f64());
    }
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(clock(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(clock(Duration::from_secs(605)), "10:05");
    }

    #[test]
    fn a_failed_stage_is_named() {
        let mut report = Report::default();
        let failed = report.stage("doc", || -> Result<()> { anyhow::bail!("broken link") });
        assert_eq!(
            format!("{:#}", failed.expect_err("it failed")),
            "the check `doc` failed: broken link"
        );
        assert_eq!(report.stages.len(), 1);
    }
}
