//! The arguments of `version`.

use clap::Args;

use super::{ClusterArgs, OutputArgs};

/// The arguments of `version`.
#[derive(Clone, Debug, Args)]
pub struct VersionArgs {
    /// Show the version of this program only
    #[arg(long)]
    pub client: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
