//! The arguments of `upgrade`.

use clap::{Args, ValueEnum};
use upgrade_core::version::Version;

use super::{ClusterArgs, DataArgs, InstallerArgs, NodeArgs, PaceArgs, PreferArg, RunArgs};

const EXAMPLES: &str = "\
Examples:
  Both, over as many minors as it takes, as the profile says how:
    talos-operator upgrade both --profile prod.yaml --talos 1.13.9 --kubernetes 1.36.3

  Talos alone, on the cluster of the current talosconfig:
    talos-operator upgrade os --talos 1.13.9

  One worker first, then all but one:
    talos-operator upgrade os --talos 1.13.9 --node worker-1
    talos-operator upgrade os --talos 1.13.9 --hold gpu-1

  From a script, with every event as a line of JSON:
    talos-operator upgrade k8s --kubernetes 1.36.3 --yes -o json

  Another set of system extensions, on the way to another version:
    talos-operator upgrade os --talos 1.13.9 --extensions iscsi-tools,util-linux-tools

Ctrl-C once lets the node in flight reach a safe state and stops then; twice stops at once.
Exit codes: 0 done, 1 failed or refused (the reason is printed), 2 bad usage, 3 paused or interrupted";

/// What is upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Talos
    Os,
    /// Kubernetes
    K8s,
    /// Talos and Kubernetes, in the order that is supported at every step
    Both,
}

/// What `upgrade` is asked.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct UpgradeArgs {
    /// What to upgrade
    #[arg(value_enum, value_name = "WHAT", required_unless_present = "upgrade_type")]
    pub kind: Option<Kind>,
    /// The same, as a flag
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "kind", hide = true)]
    pub upgrade_type: Option<Kind>,
    /// Go ahead without asking
    #[arg(long, short)]
    pub yes: bool,
    /// Start over although a run is paused or was cut off; its cordons are lifted
    #[arg(long)]
    pub new_plan: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub run: RunArgs,

    /// The Talos version wanted [default: the profile's]
    #[arg(
        long,
        alias = "target-talos-version",
        alias = "talos-to",
        value_name = "VERSION",
        help_heading = "Versions"
    )]
    pub talos: Option<Version>,
    /// The Kubernetes version wanted [default: the profile's]
    #[arg(
        long,
        alias = "target-k8s-version",
        alias = "kubernetes-to",
        value_name = "VERSION",
        help_heading = "Versions"
    )]
    pub kubernetes: Option<Version>,
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

    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub installer: InstallerArgs,
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

impl UpgradeArgs {
    /// What is upgraded, however it was said.
    pub fn what(&self) -> Kind {
        self.kind.or(self.upgrade_type).unwrap_or(Kind::Both)
    }
}
