//! `cargo xtask simulate` and `cargo xtask mutants`: the engine on thousands of in-memory worlds.
//! `cargo xtask simulate-operator`: the operator, with several replicas. See `docs/simulation.md`.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::cargo::{self, cargo, target_folder};

/// Arguments for the simulation.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// The fastest build profile; worth its build time for hundreds of thousands of seeds.
const FASTEST: [&str; 2] = ["--profile", "simulation"];

const MUTANTS: [&str; 2] = ["--features", "mutants"];

/// Runs seeds.
pub(crate) fn simulate(Args { words }: &Args) -> Result<()> {
    let replays = words.first().is_some_and(|word| word == "replay");
    let command = if replays { None } else { Some("simulate") };
    run(&[], command, words)
}

/// Shows that the referee catches every deliberate breakage.
pub(crate) fn mutants(Args { words }: &Args) -> Result<()> {
    run(&MUTANTS, Some("mutants"), words)
}

/// Runs seeds of the operator, with the program that the tests' build leaves.
pub(crate) fn simulate_operator(Args { words }: &Args) -> Result<()> {
    cargo::run(&["build", "--quiet", "--locked", "--package", "operator-simulation"])?;
    program("operator-simulation", words)
}

/// Runs this many seeds for the tests, with the program that the tests' build has left, so that
/// nothing needs compiling.
pub(crate) fn seeds(count: u64) -> Result<()> {
    program("simulation-tests", &["simulate".into(), "--seeds".into(), count.to_string().into()])
}

/// The same for the operator.
pub(crate) fn operator_seeds(count: u64) -> Result<()> {
    program("operator-simulation", &["--seeds".into(), count.to_string().into()])
}

/// Runs a program that the tests' build has left.
fn program(name: &str, words: &[OsString]) -> Result<()> {
    let program = target_folder()?.join("debug").join(name);
    let status = Command::new(&program).args(words).status();
    ended_well(status.with_context(|| format!("cannot start {}", program.display()))?)
}

/// Runs this many seeds as fast as possible, with the program of the mutants and all of them
/// disabled: one build serves both.
pub(crate) fn many_seeds(count: u64) -> Result<()> {
    run(&MUTANTS, Some("simulate"), &["--seeds".into(), count.to_string().into()])
}

/// Runs this many seeds of the operator.
pub(crate) fn many_operator_seeds(count: u64) -> Result<()> {
    simulate_operator(&Args { words: vec!["--seeds".into(), count.to_string().into()] })
}

/// Every mutant.
pub(crate) fn all_mutants() -> Result<()> {
    mutants(&Args { words: Vec::new() })?;
    operator_mutants()
}

/// Every mutant of the operator.
fn operator_mutants() -> Result<()> {
    let status = cargo()
        .args(["run", "--quiet", "--locked", "--package", "operator-simulation"])
        .args(MUTANTS)
        .args(["--", "--mutants", "--seeds", "2000"])
        .status()
        .context("cannot start cargo")?;
    ended_well(status)
}

fn run(features: &[&str], command: Option<&str>, words: &[OsString]) -> Result<()> {
    let status = cargo()
        .args(["run", "--quiet", "--locked"])
        .args(FASTEST)
        .args(["--package", "simulation-tests"])
        .args(features)
        .arg("--")
        .args(command)
        .args(words)
        .status()
        .context("cannot start cargo")?;
    ended_well(status)
}

fn ended_well(status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("the simulation ended with {status}");
    }
    Ok(())
}
