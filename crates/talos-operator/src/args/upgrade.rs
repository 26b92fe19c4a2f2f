//! The arguments of `upgrade`.

use clap::{Args, ValueEnum};

use super::{ClusterArgs, DataArgs, InstallerArgs, NodeArgs, PolicyArgs, RunArgs, TargetArgs};

const EXAMPLES: &str = "\
Examples:
  Both products, over as many minors as needed, with the policy of the profile:
    talos-operator upgrade both --profile prod.yaml --talos 1.13.9 --kubernetes 1.36.3

  Talos only, on the cluster of the current talosconfig:
    talos-operator upgrade os --talos 1.13.9

  One worker first, then all nodes but one:
    talos-operator upgrade os --talos 1.13.9 --node worker-1
    talos-operator upgrade os --talos 1.13.9 --hold gpu-1

  From a script, with one JSON event per line:
    talos-operator upgrade k8s --kubernetes 1.36.3 --yes -o json

  Other system extensions together with another version:
    talos-operator upgrade os --talos 1.13.9 --extensions iscsi-tools,util-linux-tools

Press Ctrl-C once to stop after nodes in flight reach a safe state, twice to stop at once.
Exit codes: 0 done, 1 failed or refused (the reason is printed), 2 bad usage, 3 paused or interrupted";

/// The products to upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Talos
    Os,
    /// Kubernetes
    K8s,
    /// Talos and Kubernetes, in an order that is supported at every step
    Both,
}

/// The arguments of `upgrade`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UpgradeArgs {
    /// What to upgrade
    #[arg(value_enum, value_name = "WHAT", required_unless_present = "upgrade_type")]
    pub kind: Option<Kind>,
    /// The same, as a flag
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "kind", hide = true)]
    pub upgrade_type: Option<Kind>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Make a new plan although a run is paused or interrupted; nodes it cordoned are uncordoned
    #[arg(long)]
    pub new_plan: bool,
    #[command(flatten)]
    pub run: RunArgs,

    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub installer: InstallerArgs,
    #[command(flatten)]
    pub nodes: NodeArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub data: DataArgs,
}

impl UpgradeArgs {
    /// The products to upgrade, by argument or by flag.
    pub fn what(&self) -> Kind {
        self.kind.or(self.upgrade_type).unwrap_or(Kind::Both)
    }
}
