//! The real tools, and what a program printed.

use std::path::PathBuf;
use std::process::Output;
use std::time::Instant;

/// Where a real tool is: named by a variable, or in the cache that
/// `cargo xtask tools` fills.
#[track_caller]
pub fn tool(name: &str) -> PathBuf {
    real_control_plane::find_tool(name).unwrap_or_else(|error| panic!("{error}"))
}

/// What a command printed.
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
    /// It ended with this code.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the assertion is the point")]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// It printed all of these, wherever its lines are wrapped.
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
