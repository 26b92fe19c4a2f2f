//! The nodes that are upgraded. Without any of these flags, all of them.

use clap::Args;

use super::CommandLine;
use crate::usage::Usage;

/// The nodes that are upgraded.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Nodes")]
pub struct NodeArgs {
    /// Upgrade Talos on this node only: a name or an address; repeat it, or separate several
    /// with commas
    #[arg(
        long = "node",
        short = 'n',
        alias = "nodes",
        value_name = "NODE",
        value_delimiter = ',',
        conflicts_with = "hold"
    )]
    pub nodes: Vec<String>,
    /// Leave this node as it is, Kubernetes included; repeat it, or separate several with commas
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub hold: Vec<String>,
}

impl NodeArgs {
    /// Whether neither flag is given.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.hold.is_empty()
    }

    /// Repeats these flags in another command.
    pub fn repeat(&self, line: &mut CommandLine) {
        let Self { nodes, hold } = self;
        line.values("node", nodes).values("hold", hold);
    }

    /// Kubernetes is upgraded as a whole: its API servers move before any kubelet.
    pub fn without_kubernetes(&self, kubernetes: bool) -> Result<(), Usage> {
        if self.nodes.is_empty() || !kubernetes {
            return Ok(());
        }
        Err(Usage::new(
            "--node is for Talos; Kubernetes is upgraded on all nodes together",
            "use `upgrade os` with a Talos target only, or leave nodes out with --hold",
        ))
    }
}
