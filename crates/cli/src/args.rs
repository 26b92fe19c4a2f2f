//! The command line as types.

mod matrix;
mod parse;
mod plan;
mod sim;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub use matrix::MatrixArgs;
pub use plan::{OrderArg, PlanArgs, PreferArg};
pub use sim::{
    DirArgs, ExistingArgs, FaultArgs, FaultsArgs, NetworkArgs, RealArgs, SimArgs, SimCommand,
    StartArgs, TalosconfigArgs, TimingArgs,
};

const EXAMPLES: &str = "\
Examples:
  What would it take to get from here to there?
    talos-operator plan --offline --talos-from 1.11.6 --talos-to 1.13.9 \\
        --kubernetes-from 1.33.4 --kubernetes-to 1.36.3 --control-planes 3 --workers 5

  Which Kubernetes runs on which Talos?
    talos-operator matrix

  Is there a cluster to try things on?
    talos-operator sim --control-planes 3 --workers 5 --speed 20 --dir ./mycluster

Exit codes: 0 answered, 1 refused (the reasons are printed), 2 bad usage";

const ABOUT: &str = "\
Upgrades Talos Linux and Kubernetes on running clusters, safely and fast.

This release plans: it finds the supported path from what runs to what you want, the order of
the nodes, and how long it takes.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "talos-operator",
    version,
    about = ABOUT,
    disable_help_flag = true,
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 96
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print help
    // One help, not two: the longer form spreads the same words over more lines.
    #[arg(short, long, action = ArgAction::HelpShort, global = true, display_order = 1000)]
    pub help: Option<bool>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show every step from what runs to what you want, or why there is no way
    Plan(Box<PlanArgs>),
    /// Show which Talos upgrades from which, and which Kubernetes it runs
    Matrix(MatrixArgs),
    /// Run a simulated cluster on this machine, to rehearse on
    Sim(Box<SimArgs>),
    /// Named by every plan as the next command, so it must answer.
    #[command(hide = true)]
    Upgrade {
        /// Whatever the plan named.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<OsString>,
    },
}

/// What the answer looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Text,
    /// For programs: one documented, stable object
    Json,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// What the answer looks like
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: Output,
}

/// Facts about releases that are newer than this program.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Release data")]
pub struct DataArgs {
    /// A support matrix to use instead of the built-in one (TOML)
    #[arg(long, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
    /// A catalogue of releases to use instead of the built-in one (TOML)
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
