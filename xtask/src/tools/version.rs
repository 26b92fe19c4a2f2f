//! The version that a program reports, and whether it is suitable.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use semver::Version;

/// Printing a version takes well under a second; ten leave room for a cold disk, and end the wait
/// for a program that prompts.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
const PROBE_POLL: Duration = Duration::from_millis(20);

/// Whether another binary can replace the pinned one. A later patch can: users run those. Another
/// minor has another protocol, and a pre-release is not a reference.
pub(crate) fn fits(wanted: &Version, found: &Version) -> bool {
    (wanted.major, wanted.minor) == (found.major, found.minor)
        && found.patch >= wanted.patch
        && found.pre.is_empty()
}

/// The first version in a program's output, with or without a `v`.
pub(crate) fn first_version(output: &str) -> Option<Version> {
    output
        .split_whitespace()
        .map(|word| word.trim_end_matches([',', ';', ')']).trim_start_matches(['(', 'v']))
        .find_map(|word| Version::parse(word).ok())
}

/// Runs the program and reads its version; the error is the reason why there is none.
pub(crate) fn probe(program: &Path, arguments: &[&str]) -> std::result::Result<Version, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("does not start: {error}"))?;

    // Reading only after the end is safe: a version is far smaller than a pipe.
    let mut waited = Duration::ZERO;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if waited >= PROBE_LIMIT {
            // Best effort: it may have ended in between.
            child.kill().ok();
            child.wait().ok();
            return Err(format!("printed no version within {PROBE_LIMIT:?}"));
        }
        thread::sleep(PROBE_POLL);
        waited += PROBE_POLL;
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    first_version(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("printed no version ({})", output.status))
}

/// Searches the module list that Go embeds into every program for a module's version.
pub(crate) fn built_in(program: &Path, module: &str, wanted: &Version) -> Result<()> {
    let contents = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    let entry = format!("\t{module}\tv{wanted}");
    let begins =
        |at: &usize| contents[*at] == b'\t' && contents[*at..].starts_with(entry.as_bytes());
    if (0..contents.len()).any(|at| begins(&at)) {
        return Ok(());
    }
    bail!("does not hold {module} v{wanted}, which go.mod pins")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).expect("a version")
    }

    #[test]
    fn versions_are_found_in_the_output_of_each_tool() {
        for (output, expected) in [
            ("Client:\nTalos v1.14.1\n", "1.14.1"),
            ("Client:\n\tTag:         v1.12.6\n\tSHA:         undefined\n", "1.12.6"),
            ("etcd Version: 3.6.16\nGit SHA: Not provided\nGo Version: go1.26.8\n", "3.6.16"),
            ("etcdutl version: 3.6.16\nAPI version: 3.6\n", "3.6.16"),
            ("Kubernetes v1.36.4\n", "1.36.4"),
            ("Client Version: v1.36.4\nKustomize Version: v5.8.1\n", "1.36.4"),
            ("Client Version: v1.32.4-dispatcher\n", "1.32.4-dispatcher"),
        ] {
            assert_eq!(first_version(output), Some(version(expected)), "{output}");
        }
        assert_eq!(first_version("unknown command\n"), None);
    }

    #[test]
    fn a_later_patch_fits_and_nothing_else_does() {
        let wanted = version("1.14.1");
        for (found, expected) in [
            ("1.14.1", true),
            ("1.14.7", true),
            ("1.14.1+vendor", true),
            ("1.14.0", false),
            ("1.14.2-beta.0", false),
            ("1.15.1", false),
            ("2.14.1", false),
        ] {
            assert_eq!(fits(&wanted, &version(found)), expected, "{found}");
        }
    }

    #[test]
    fn a_missing_program_is_a_reason() {
        let reason = probe(Path::new("/nonexistent/talosctl"), &[]).expect_err("no program");
        assert!(reason.starts_with("does not start"), "{reason}");
    }
}
