//! The arguments of `plan`.

use clap::Args;
use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

use super::{
    ClusterArgs, DataArgs, InstallerArgs, NodeArgs, OutputArgs, PolicyArgs, TargetArgs, parse,
};

const EXAMPLES: &str = "\
Examples:
  Plan for a cluster; nothing is changed:
    talos-operator plan --profile prod.yaml --talos-to 1.13.9 --kubernetes-to 1.36.3

  Both products over several minors, without a cluster:
    talos-operator plan --offline --talos-from 1.11.6 --talos-to 1.13.9 \\
        --kubernetes-from 1.33.4 --kubernetes-to 1.36.3 --control-planes 3 --workers 5

  Talos only; with --kubernetes-from the support matrix is checked as well:
    talos-operator plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --workers 20 \\
        --max-unavailable 25% --kubernetes-from 1.34.2

  A single node, as JSON:
    talos-operator plan --offline --talos-from 1.12.4 --talos-to 1.13.9 \\
        --control-planes 1 --accept-outage -o json

Exit codes: 0 planned, 1 refused (the reasons are printed), 2 bad usage";

/// The arguments of `plan`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = EXAMPLES,
    // Beside `--talos-from` the target reads better as `--talos-to`.
    mut_arg("talos", |talos| talos.long("talos-to").alias("talos")),
    mut_arg("kubernetes", |kubernetes| kubernetes.long("kubernetes-to").alias("kubernetes"))
)]
pub struct PlanArgs {
    /// Plan from the versions and numbers given here, without a cluster
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub target: TargetArgs,

    /// Running version of Talos
    #[arg(
        long,
        value_name = "VERSION",
        requires = "offline",
        help_heading = "Without a cluster (--offline)"
    )]
    pub talos_from: Option<Version>,
    /// Running version of Kubernetes
    #[arg(
        long,
        value_name = "VERSION",
        requires = "offline",
        help_heading = "Without a cluster (--offline)"
    )]
    pub kubernetes_from: Option<Version>,
    /// Number of control planes [default: 3]
    #[arg(long, value_name = "N", value_parser = parse::control_planes, requires = "offline",
          allow_negative_numbers = true, help_heading = "Without a cluster (--offline)")]
    pub control_planes: Option<usize>,
    /// Number of workers [default: 0]
    #[arg(long, value_name = "N", value_parser = parse::workers, requires = "offline",
          allow_negative_numbers = true, help_heading = "Without a cluster (--offline)")]
    pub workers: Option<usize>,
    /// Installer image of the nodes [default: the Image Factory's, without
    /// extensions]
    #[arg(
        long,
        value_name = "IMAGE",
        requires = "offline",
        help_heading = "Without a cluster (--offline)"
    )]
    pub installer: Option<ImageRef>,

    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub installer_change: InstallerArgs,
    #[command(flatten)]
    pub nodes: NodeArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub data: DataArgs,
}
