//! The arguments of `snapshot`.

use std::path::PathBuf;

use clap::Args;

use super::{ClusterArgs, OutputArgs, parse};

/// The arguments of `snapshot`.
#[derive(Clone, Debug, Args)]
pub struct SnapshotArgs {
    /// Folder or S3 address for snapshots [default: the profile's policy, else the state folder]
    #[arg(long, value_name = "FOLDER|URL")]
    pub dir: Option<PathBuf>,
    /// Number of snapshots to keep [default: the profile's policy, else 5]
    #[arg(long, value_name = "N", value_parser = parse::keep)]
    pub keep: Option<usize>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
