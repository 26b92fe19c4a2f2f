//! The arguments of `matrix`.

use clap::Args;
use upgrade_core::version::Minor;

use super::{DataArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  All known release lines:
    talos-operator matrix

  Talos 1.13: its Kubernetes versions, and where it upgrades to:
    talos-operator matrix --talos 1.13";

/// The arguments of `matrix`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MatrixArgs {
    /// Show the details of one release line: 1.13, v1.13 or 1.13.9
    #[arg(long, value_name = "VERSION")]
    pub talos: Option<Minor>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub data: DataArgs,
}
