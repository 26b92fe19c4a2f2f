//! The arguments of `health`.

use clap::Args;

use super::{ClusterArgs, OutputArgs};

/// The arguments of `health`.
#[derive(Clone, Debug, Args)]
pub struct HealthArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
