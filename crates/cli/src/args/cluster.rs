//! Which cluster, and where what is remembered of it lies.

use std::path::PathBuf;

use clap::Args;

use super::CommandLine;

/// Which cluster.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The cluster's profile: a YAML file that names its talosconfig, its versions and its policy
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// The talosconfig [default: the profile's, or else where talosctl looks]
    #[arg(long, value_name = "FILE")]
    pub talosconfig: Option<PathBuf>,
    /// The context of the talosconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// A kubeconfig [default: the profile's, or else fetched through Talos]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where journal, plans and snapshots are kept [default: a folder beside the profile, or else
    /// one for each cluster in this user's state folder]
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
