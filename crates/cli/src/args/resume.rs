//! The arguments of `resume`.

use clap::Args;

use super::{ClusterArgs, RunArgs};

/// The arguments of `resume`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Goes on with the run that was paused, halted or cut off. What was under way is looked at before
anything is done again.
Exit codes: as of upgrade")]
pub struct ResumeArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
