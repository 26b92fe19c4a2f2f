//! The arguments of `rollback`.

use clap::Args;
use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

use super::{ClusterArgs, DataArgs, PolicyArgs, RunArgs};

/// The arguments of `rollback`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  Boot the version before the last upgrade, which is still in the node's other slot:
    talos-operator rollback worker-3 --profile prod.yaml

  Install an older version:
    talos-operator rollback worker-3 --image factory.talos.dev/metal-installer/ID:v1.12.11

  Give Kubernetes components their previous images after an unfinished upgrade:
    talos-operator rollback --kubernetes --profile prod.yaml")]
pub struct RollbackArgs {
    /// Node to roll back
    #[arg(value_name = "NODE", required_unless_present = "kubernetes")]
    pub node: Option<String>,
    /// Roll back an unfinished Kubernetes upgrade: components get their previous images
    #[arg(long, conflicts_with_all = ["node", "image", "to"])]
    pub kubernetes: bool,
    /// Install this image instead of booting the other slot; its tag is the version
    #[arg(long, value_name = "IMAGE", conflicts_with = "to")]
    pub image: Option<ImageRef>,
    /// Version in the other slot [default: from the journal]
    #[arg(long, value_name = "VERSION")]
    pub to: Option<Version>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub data: DataArgs,
}
