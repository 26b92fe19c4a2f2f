//! How a run is shown, and what is left of it.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;

/// How a run is shown.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// Write a page with the run's timeline and all its steps
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
