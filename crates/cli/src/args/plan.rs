//! The arguments of `plan`.

use clap::{Args, ValueEnum};
use upgrade_core::amount::Amount;
use upgrade_core::image::ImageRef;
use upgrade_core::intent::Preference;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::policy::Order;
use upgrade_core::version::Version;

use super::{DataArgs, OutputArgs, parse};

const EXAMPLES: &str = "\
Examples:
  Both, over several minors:
    talos-operator plan --offline --talos-from 1.11.6 --talos-to 1.13.9 \\
        --kubernetes-from 1.33.4 --kubernetes-to 1.36.3 --control-planes 3 --workers 5

  Talos alone; give Kubernetes the same version twice to have it checked as well:
    talos-operator plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --workers 20 \\
        --max-unavailable 25% --kubernetes-from 1.34.2

  A single machine, for a program to read:
    talos-operator plan --offline --talos-from 1.12.4 --talos-to 1.13.9 \\
        --control-planes 1 --accept-outage -o json

Exit codes: 0 planned, 1 refused (the reasons are printed), 2 bad usage";

/// Which role goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// A bad release hurts a worker before it hurts etcd
    WorkersFirst,
    /// Workers never run ahead of their control planes
    ControlPlanesFirst,
}

impl From<OrderArg> for Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::WorkersFirst => Self::WorkersFirst,
            OrderArg::ControlPlanesFirst => Self::ControlPlanesFirst,
        }
    }
}

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
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct PlanArgs {
    /// Plan from the versions and numbers given here, without any cluster
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub output: OutputArgs,

    /// The Talos version that runs
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    pub talos_from: Option<Version>,
    /// The Talos version wanted
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    pub talos_to: Option<Version>,
    /// The Kubernetes version that runs
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    pub kubernetes_from: Option<Version>,
    /// The Kubernetes version wanted
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
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

    /// How many control planes there are
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse::control_planes,
          allow_negative_numbers = true, help_heading = "Cluster")]
    pub control_planes: usize,
    /// How many workers there are
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse::workers,
          allow_negative_numbers = true, help_heading = "Cluster")]
    pub workers: usize,
    /// The installer image that the nodes have now [default: the Image
    /// Factory's, without extensions]
    #[arg(long, value_name = "IMAGE", help_heading = "Cluster")]
    pub installer: Option<ImageRef>,
    /// Change to this Image Factory schematic instead of keeping the nodes' own
    #[arg(long, value_name = "ID", value_parser = parse::schematic, help_heading = "Cluster")]
    pub schematic: Option<String>,
    /// Let extensions go that the new installer lacks
    #[arg(long, help_heading = "Cluster")]
    pub drop_extensions: bool,

    /// How many workers may be away at once: a number, or a percentage of them
    #[arg(
        long,
        value_name = "AMOUNT",
        allow_negative_numbers = true,
        help_heading = "Pace",
        default_value = "1"
    )]
    pub max_unavailable: Amount,
    /// Which role goes first when Talos is upgraded
    #[arg(
        long,
        value_name = "ROLE",
        value_enum,
        default_value = "control-planes-first",
        help_heading = "Pace"
    )]
    pub order: OrderArg,
    /// How long to wait after each verified node
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse::span,
          allow_negative_numbers = true, help_heading = "Pace")]
    pub soak: SignedDuration,
    /// Accept that one or two control planes leave the cluster without its API
    /// while one of them reboots
    #[arg(long, help_heading = "Pace")]
    pub accept_outage: bool,

    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub data: DataArgs,
}
