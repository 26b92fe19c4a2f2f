//! Cargo, in the same environment as when it is called by hand.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Variables that cargo sets for the program it runs, which is this one. Build scripts watch some
/// of them: passed on, they would make every `cargo xtask` rebuild what a plain `cargo` had built,
/// and the other way round.
const OWN_VARIABLES: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Cargo.
pub(crate) fn cargo() -> Command {
    clean(OsStr::new("cargo"))
}

/// A program that calls cargo.
pub(crate) fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if OWN_VARIABLES.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a cargo command to its end.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    run_with(arguments, &[])
}

/// The same with variables.
pub(crate) fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let status = cargo().args(arguments).envs(variables.iter().copied()).status();
    let status = status.context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Cargo's target folder: this program is in it.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let program = env::current_exe().context("the path of this program")?;
    let target = program.parent().and_then(Path::parent).context("a program in a folder")?;
    Ok(target.to_owned())
}

/// The checkout that this program was built from.
pub(crate) fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
