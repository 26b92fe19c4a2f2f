//! Cargo as if it were called by hand.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What cargo sets for the program that it runs, which is this one. Build scripts
/// watch some of it: handed on, it would make every `cargo xtask` build again what
/// a plain `cargo` had built, and the other way round.
const FOR_US_ALONE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Cargo.
pub(crate) fn cargo() -> Command {
    clean(OsStr::new("cargo"))
}

/// A program that calls cargo.
pub(crate) fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if FOR_US_ALONE.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command of cargo's to its end.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    run_with(arguments, &[])
}

/// The same with variables.
pub(crate) fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let status = cargo().args(arguments).envs(variables.iter().copied()).status();
    let status = status.context("cargo does not start")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Where cargo puts what it builds: this program is there.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let program = env::current_exe().context("where is this program?")?;
    let target = program.parent().and_then(Path::parent).context("a program in a folder")?;
    Ok(target.to_owned())
}

/// The checkout that this program was built from.
pub(crate) fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
