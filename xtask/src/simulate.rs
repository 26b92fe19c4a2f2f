//! `cargo xtask simulate` and `cargo xtask mutants`: the engine on in-memory
//! worlds, by the thousand. `docs/simulation.md` has the story.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, target_folder};

/// What is passed on to the simulation.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `--help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// The profile that plays fastest; worth its build for hundreds of thousands.
const FASTEST: [&str; 2] = ["--profile", "simulation"];

const MUTANTS: [&str; 2] = ["--features", "mutants"];

/// Plays seeds.
pub(crate) fn simulate(Args { words }: &Args) -> Result<()> {
    let replays = words.first().is_some_and(|word| word == "replay");
    let command = if replays { None } else { Some("simulate") };
    run(&[], command, words)
}

/// Shows that the referee catches every deliberate breakage.
pub(crate) fn mutants(Args { words }: &Args) -> Result<()> {
    run(&MUTANTS, Some("mutants"), words)
}

/// So many seeds, as the tests want them: with the program that the tests' own
/// build has left, so that nothing is compiled for it.
pub(crate) fn seeds(count: u64) -> Result<()> {
    let program = target_folder()?.join("debug/upgrade-simulation");
    let status = Command::new(&program)
        .args(["simulate", "--seeds", &count.to_string()])
        .status()
        .with_context(|| format!("{} does not start", program.display()))?;
    ended_well(status)
}

/// So many seeds as fast as it goes. With the program that plays the mutants, none of
/// which is alive: it is built once for both.
pub(crate) fn many_seeds(count: u64) -> Result<()> {
    run(&MUTANTS, Some("simulate"), &["--seeds".into(), count.to_string().into()])
}

/// Every mutant.
pub(crate) fn all_mutants() -> Result<()> {
    mutants(&Args { words: Vec::new() })
}

fn run(features: &[&str], command: Option<&str>, words: &[OsString]) -> Result<()> {
    let status = cargo()
        .args(["run", "--quiet", "--locked"])
        .args(FASTEST)
        .args(["--package", "upgrade-simulation"])
        .args(features)
        .arg("--")
        .args(command)
        .args(words)
        .status()
        .context("cargo does not start")?;
    ended_well(status)
}

fn ended_well(status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("the simulation ended with {status}");
    }
    Ok(())
}
