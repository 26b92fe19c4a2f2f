//! The arguments of `matrix`.

use clap::Args;
use upgrade_core::version::Minor;

use super::{DataArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  Every release line that is known:
    talos-operator matrix

  What may run on Talos 1.13, and where can it go from there?
    talos-operator matrix --talos 1.13";

/// The arguments of `matrix`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MatrixArgs {
    /// Show this release line alone, in more words: 1.13, v1.13 or 1.13.9
    #[arg(long, value_name = "VERSION")]
    pub talos: Option<Minor>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub data: DataArgs,
}
