//! The arguments of `pause`.

use clap::Args;

use super::ClusterArgs;

/// The arguments of `pause`.
#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
