//! The program that the test command runs for its 300 seeds.
//!
//! `cargo test --no-run` builds a package's program only for a package with integration tests.
//! Without this suite there is no program to run in a new clone.

use std::path::Path;
use std::process::{Command, Output};

fn run(args: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_operator-simulation")).args(args).output();
    let output = output.expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn the_program_counts_seeds_and_tells_their_story() {
    let (output, text) = run(&["--seeds", "3", "--from", "40"]);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.lines().last(), Some("3 passed, 0 failed"), "{text}");

    let (output, text) = run(&["--seeds", "1", "--from", "40", "--story"]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("replica-1 starts"), "{text}");
}

#[test]
fn a_wrong_flag_is_refused() {
    let (output, _) = run(&["--seed", "1"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_failed_once_never_fails_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        let (output, text) = run(&["--replay", &path.display().to_string()]);
        assert!(output.status.success(), "{}: {text}", path.display());
        count += 1;
    }
    assert!(count >= 1, "the folder is there, and read");
}
