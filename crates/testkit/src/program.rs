//! The real tools, and the output of a program.

use std::path::PathBuf;
use std::process::Output;
use std::time::Instant;

/// The path of a real tool: from its variable, or in the cache that `cargo xtask tools` fills.
#[track_caller]
pub fn tool(name: &str) -> PathBuf {
    envtest::find_tool(name).unwrap_or_else(|error| panic!("{error}"))
}

/// The exit code and output of a command.
#[derive(Debug)]
pub struct Printed {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// What went to stdout.
    pub stdout: String,
    /// What went to stderr.
    pub stderr: String,
}

impl From<Output> for Printed {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Printed {
    /// Asserts this exit code.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the assertion is the point")]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that it printed all of these, however its lines are wrapped.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the assertion is the point")]
    pub fn says(self, words: &[&str]) -> Self {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (stdout, stderr) = (flat(&self.stdout), flat(&self.stderr));
        for word in words {
            let word = flat(word);
            assert!(stdout.contains(&word) || stderr.contains(&word), "no `{word}` in {self:#?}");
        }
        self
    }
}

/// The time, for deadlines of tests that talk to real processes.
#[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
pub fn now() -> Instant {
    Instant::now()
}
