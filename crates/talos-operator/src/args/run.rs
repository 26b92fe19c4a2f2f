//! The output of a run.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;

/// The output of a run.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// Write an HTML report with the timeline and all steps
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
