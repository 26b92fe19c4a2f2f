//! What these tests check from the outside.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Whether any process on the machine names the folder on its command line.
pub(crate) fn anybody_names(folder: &Path) -> bool {
    let folder = folder.canonicalize().expect("a path");
    command_lines().iter().any(|line| line.contains(&*folder.to_string_lossy()))
}

/// Not every Linux has `ps`, and not every system has `/proc`.
fn command_lines() -> Vec<String> {
    if !cfg!(target_os = "linux") {
        let output = Command::new("ps").args(["-ww", "-A", "-o", "args="]).output().expect("ps");
        return String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    }
    fs::read_dir("/proc")
        .expect("a list of processes")
        .filter_map(Result::ok)
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect()
}
