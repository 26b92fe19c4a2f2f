//! The arguments of `snapshot`.

use std::path::PathBuf;

use clap::Args;

use super::{ClusterArgs, OutputArgs, parse};

/// The arguments of `snapshot`.
#[derive(Clone, Debug, Args)]
pub struct SnapshotArgs {
    /// Where snapshots go [default: the profile's policy, or else the state folder]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// How many are kept [default: the profile's policy, or else 5]
    #[arg(long, value_name = "N", value_parser = parse::keep)]
    pub keep: Option<usize>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
