//! `cargo xtask simulate` and `cargo xtask mutants`: the engine on in-memory
//! worlds, by the thousand. `docs/simulation.md` has the story.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;

/// What is passed on to the simulation.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `--help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Plays seeds.
pub(crate) fn simulate(Args { words }: &Args) -> Result<()> {
    let replays = words.first().is_some_and(|word| word == "replay");
    let command = if replays { None } else { Some("simulate") };
    run(&[], command, words)
}

/// Shows that the referee catches every deliberate breakage.
pub(crate) fn mutants(Args { words }: &Args) -> Result<()> {
    run(&["--features", "mutants"], Some("mutants"), words)
}

/// So many seeds, as the tests want them.
pub(crate) fn seeds(count: u64) -> Result<()> {
    run(&[], Some("simulate"), &["--seeds".into(), count.to_string().into()])
}

fn run(features: &[&str], command: Option<&str>, words: &[OsString]) -> Result<()> {
    let status = cargo()
        .args(["run", "--quiet", "--profile", "simulation", "--locked"])
        .args(["--package", "upgrade-simulation"])
        .args(features)
        .arg("--")
        .args(command)
        .args(words)
        .status()
        .context("cargo does not start")?;
    if !status.success() {
        bail!("the simulation ended with {status}");
    }
    Ok(())
}
