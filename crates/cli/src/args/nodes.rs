//! Which nodes are upgraded. Without any of these, all of them.

use clap::Args;

use super::CommandLine;
use crate::usage::Usage;

/// Which nodes are upgraded.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Nodes")]
pub struct NodeArgs {
    /// Upgrade Talos on this node and leave all others as they are; a name or an address, may be
    /// repeated, or be a list with commas
    #[arg(
        long = "node",
        short = 'n',
        alias = "nodes",
        value_name = "NODE",
        value_delimiter = ',',
        conflicts_with = "hold"
    )]
    pub nodes: Vec<String>,
    /// Leave this node as it is, Kubernetes included; may be repeated, or be a list with commas
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub hold: Vec<String>,
}

impl NodeArgs {
    /// Whether nothing was said.
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
            "--node is for Talos, and Kubernetes is upgraded on all nodes together",
            "say `upgrade os` and give Talos alone a target, or leave nodes out with --hold",
        ))
    }
}
