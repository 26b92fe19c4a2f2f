//! The arguments of `crds`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  Make the kinds known to a cluster:
    talos-operator crds | kubectl apply --server-side -f -";

/// What `crds` is asked.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CrdsArgs {}
