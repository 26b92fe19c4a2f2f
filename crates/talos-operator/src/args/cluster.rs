//! The cluster, and the folder with its state.

use std::path::PathBuf;

use clap::Args;

use super::CommandLine;

/// The cluster, and the folder with its state.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Cluster profile: a YAML file with the talosconfig, the versions and the policy
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Talosconfig [default: the profile's, else the one that talosctl uses]
    #[arg(long, value_name = "FILE")]
    pub talosconfig: Option<PathBuf>,
    /// Context of the talosconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Kubeconfig [default: the profile's, else fetched through Talos]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Folder for journals, plans and snapshots [default: beside the profile, else one per
    /// cluster in this user's state folder]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

impl ClusterArgs {
    /// Repeats these flags in another command.
    pub fn repeat(&self, line: &mut CommandLine) {
        let Self { profile, talosconfig, context, kubeconfig, state } = self;
        line.path("profile", profile.as_deref())
            .path("talosconfig", talosconfig.as_deref())
            .value("context", context.as_ref())
            .path("kubeconfig", kubeconfig.as_deref())
            .path("state", state.as_deref());
    }
}
