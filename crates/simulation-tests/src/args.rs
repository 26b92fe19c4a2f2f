//! The words of the command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use simulation_tests::scenario::TroubleKind;

/// Simulates upgrades by the thousand
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Many seeds: progress, throughput, coverage, and every broken rule
    Simulate(Simulate),
    /// One scenario from a file, with its story
    Replay(Replay),
    /// Deliberate breakages, and after how many seeds the referee catches each
    #[cfg(feature = "mutants")]
    Mutants(Mutants),
}

#[derive(ClapArgs)]
pub(crate) struct Simulate {
    /// How many seeds
    #[arg(long, default_value_t = 2_000)]
    pub(crate) seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
    /// Only those of them in which this happens, such as `retarget` or `crash`
    #[arg(long, value_name = "TROUBLE", value_parser = TroubleKind::NAMES, conflicts_with = "story")]
    pub(crate) with: Option<String>,
    /// Tell the whole story of each; for one seed or a few
    #[arg(long)]
    pub(crate) story: bool,
    /// Where to write failing scenarios, to be kept as regression cases
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct Replay {
    /// The scenario, as JSON
    pub(crate) file: PathBuf,
}

#[cfg(feature = "mutants")]
#[derive(ClapArgs)]
pub(crate) struct Mutants {
    /// After how many seeds a mutant has escaped
    #[arg(long, default_value_t = 2_000)]
    pub(crate) seeds: u64,
    /// Only this one
    #[arg(long)]
    pub(crate) only: Option<String>,
}
