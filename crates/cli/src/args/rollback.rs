//! The arguments of `rollback`.

use clap::Args;
use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

use super::{ClusterArgs, DataArgs, PolicyArgs, RunArgs};

/// The arguments of `rollback`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  Boot what ran before the last upgrade, which is still in the node's other slot:
    talos-operator rollback worker-3 --profile prod.yaml

  Install an older release again:
    talos-operator rollback worker-3 --image factory.talos.dev/metal-installer/ID:v1.12.11

  Give Kubernetes components their previous images after an upgrade that did not end:
    talos-operator rollback --kubernetes --profile prod.yaml")]
pub struct RollbackArgs {
    /// The node
    #[arg(value_name = "NODE", required_unless_present = "kubernetes")]
    pub node: Option<String>,
    /// Take back a Kubernetes upgrade that did not end: components get their previous images
    #[arg(long, conflicts_with_all = ["node", "image", "to"])]
    pub kubernetes: bool,
    /// Install this image instead of booting the other slot; its tag says the version
    #[arg(long, value_name = "IMAGE", conflicts_with = "to")]
    pub image: Option<ImageRef>,
    /// The version in the other slot [default: what the journal says ran before]
    #[arg(long, value_name = "VERSION")]
    pub to: Option<Version>,
    /// Go ahead without asking
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
