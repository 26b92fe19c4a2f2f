//! The arguments of `resume`.

use clap::Args;

use super::{ClusterArgs, RunArgs};

/// The arguments of `resume`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Continues the run that was paused, halted or interrupted. Interrupted steps are checked before
they are repeated.
Exit codes: as for upgrade")]
pub struct ResumeArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
