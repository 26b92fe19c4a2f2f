//! The arguments of `plan`.

use clap::{Args, ValueEnum};
use upgrade_core::image::ImageRef;
use upgrade_core::intent::Preference;
use upgrade_core::version::Version;

use super::{ClusterArgs, DataArgs, InstallerArgs, NodeArgs, OutputArgs, PaceArgs, parse};

const EXAMPLES: &str = "\
Examples:
  What would it take to bring this cluster there? Looks, and changes nothing:
    talos-operator plan --profile prod.yaml --talos-to 1.13.9 --kubernetes-to 1.36.3

  Both, over several minors, without any cluster:
    talos-operator plan --offline --talos-from 1.11.6 --talos-to 1.13.9 \\
        --kubernetes-from 1.33.4 --kubernetes-to 1.36.3 --control-planes 3 --workers 5

  Talos alone; give Kubernetes the same version twice to have it checked as well:
    talos-operator plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --workers 20 \\
        --max-unavailable 25% --kubernetes-from 1.34.2

  A single machine, for a program to read:
    talos-operator plan --offline --talos-from 1.12.4 --talos-to 1.13.9 \\
        --control-planes 1 --accept-outage -o json

Exit codes: 0 planned, 1 refused (the reasons are printed), 2 bad usage";

/// Which product moves first where both may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PreferArg {
    /// Talos moves as far as it may before Kubernetes does
    TalosFirst,
    /// Kubernetes moves as far as it may before Talos does
    KubernetesFirst,
}

impl From<PreferArg> for Preference {
    fn from(prefer: PreferArg) -> Self {
        match prefer {
            PreferArg::TalosFirst => Self::TalosFirst,
            PreferArg::KubernetesFirst => Self::KubernetesFirst,
        }
    }
}

/// What `plan` is asked.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// Plan from the versions and numbers given here, without any cluster
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub output: OutputArgs,

    /// The Talos version wanted [default: the profile's]
    #[arg(
        long,
        alias = "talos",
        alias = "target-talos-version",
        value_name = "VERSION",
        help_heading = "Versions"
    )]
    pub talos_to: Option<Version>,
    /// The Kubernetes version wanted [default: the profile's]
    #[arg(
        long,
        alias = "kubernetes",
        alias = "target-k8s-version",
        value_name = "VERSION",
        help_heading = "Versions"
    )]
    pub kubernetes_to: Option<Version>,
    /// Take two Talos minors at once where the installer allows it; fewer
    /// reboots, but not a path that Talos's makers test
    #[arg(long, help_heading = "Versions")]
    pub skip_minors: bool,
    /// Go back to an older version
    #[arg(long, help_heading = "Versions")]
    pub rollback: bool,
    /// Which product moves first where the support matrix allows both
    #[arg(
        long,
        value_name = "PRODUCT",
        value_enum,
        default_value = "kubernetes-first",
        help_heading = "Versions"
    )]
    pub prefer: PreferArg,

    /// The Talos version that runs
    #[arg(
        long,
        value_name = "VERSION",
        requires = "offline",
        help_heading = "Without a cluster (--offline)"
    )]
    pub talos_from: Option<Version>,
    /// The Kubernetes version that runs
    #[arg(
        long,
        value_name = "VERSION",
        requires = "offline",
        help_heading = "Without a cluster (--offline)"
    )]
    pub kubernetes_from: Option<Version>,
    /// How many control planes there are [default: 3]
    #[arg(long, value_name = "N", value_parser = parse::control_planes, requires = "offline",
          allow_negative_numbers = true, help_heading = "Without a cluster (--offline)")]
    pub control_planes: Option<usize>,
    /// How many workers there are [default: 0]
    #[arg(long, value_name = "N", value_parser = parse::workers, requires = "offline",
          allow_negative_numbers = true, help_heading = "Without a cluster (--offline)")]
    pub workers: Option<usize>,
    /// The installer image that the nodes have now [default: the Image
    /// Factory's, without extensions]
    #[arg(
        long,
        value_name = "IMAGE",
        requires = "offline",
        help_heading = "Without a cluster (--offline)"
    )]
    pub installer: Option<ImageRef>,

    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub wanted: InstallerArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub nodes: NodeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub pace: PaceArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub data: DataArgs,
}
