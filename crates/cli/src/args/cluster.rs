//! Which cluster, and where what is remembered of it lies.

use std::path::PathBuf;

use clap::Args;

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
