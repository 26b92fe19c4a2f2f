//! What `plan` and `upgrade` lead to.

use clap::{Args, ValueEnum};
use upgrade_core::intent::Preference;
use upgrade_core::version::Version;

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

/// The target versions, and the way there.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Versions")]
pub struct TargetArgs {
    /// Target version of Talos [default: the profile's]
    #[arg(long, alias = "target-talos-version", alias = "talos-to", value_name = "VERSION")]
    pub talos: Option<Version>,
    /// Target version of Kubernetes [default: the profile's]
    #[arg(long, alias = "target-k8s-version", alias = "kubernetes-to", value_name = "VERSION")]
    pub kubernetes: Option<Version>,
    /// Take two Talos minors at once where the installer allows it: fewer
    /// reboots, but not a path that Sidero Labs tests
    #[arg(long)]
    pub skip_minors: bool,
    /// Go back to an older version
    #[arg(long)]
    pub rollback: bool,
    /// Which product moves first where the support matrix allows both
    #[arg(long, value_name = "PRODUCT", value_enum, default_value = "kubernetes-first")]
    pub prefer: PreferArg,
}
