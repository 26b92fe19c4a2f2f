//! The arguments of `status`.

use clap::Args;

use super::{ClusterArgs, OutputArgs};

/// The arguments of `status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Show every entry of the run's journal
    #[arg(long)]
    pub history: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
