//! The command line as types.

// Flattened groups of flags are documented by their types, and clap would print a comment on
// the field as the help of the group.
#![expect(missing_docs, reason = "a flattened group is documented by its type")]

mod cluster;
mod command_line;
mod crds;
mod demo;
mod health;
mod installer;
mod matrix;
mod nodes;
mod operator;
mod parse;
mod pause;
mod plan;
mod policy;
mod resume;
mod rollback;
mod run;
mod sim;
mod snapshot;
mod status;
mod upgrade;
mod version;
mod versions;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use tracing_subscriber::filter::{LevelFilter, Targets};

pub use cluster::ClusterArgs;
pub use command_line::{CommandLine, quoted};
pub use crds::CrdsArgs;
pub use demo::DemoArgs;
pub use health::HealthArgs;
pub use installer::InstallerArgs;
pub use matrix::MatrixArgs;
pub use nodes::NodeArgs;
pub use operator::{AvailableVersionsArgs, OperatorArgs};
pub(crate) use parse::schematic;
pub use pause::PauseArgs;
pub use plan::PlanArgs;
pub use policy::{OrderArg, PolicyArgs, PruneArg};
pub use resume::ResumeArgs;
pub use rollback::RollbackArgs;
pub use run::RunArgs;
pub use sim::{
    DirArgs, ExistingArgs, FaultArgs, FaultsArgs, MachineArgs, NetworkArgs, RealArgs, SimArgs,
    SimCommand, StartArgs, TalosconfigArgs, TimingArgs,
};
pub use snapshot::SnapshotArgs;
pub use status::StatusArgs;
pub use upgrade::{Kind, UpgradeArgs};
pub use version::VersionArgs;
pub use versions::{PreferArg, TargetArgs};

const EXAMPLES: &str = "\
Examples:
  Watch an upgrade of a simulated cluster:
    talos-operator demo

  Preview an upgrade, and check that the cluster is healthy:
    talos-operator plan --profile prod.yaml --talos-to 1.13.9 --kubernetes-to 1.36.3
    talos-operator health --profile prod.yaml

  Upgrade:
    talos-operator upgrade both --profile prod.yaml --talos 1.13.9 --kubernetes 1.36.3

  Preview an upgrade without a cluster:
    talos-operator plan --offline --talos-from 1.11.6 --talos-to 1.13.9 \\
        --kubernetes-from 1.33.4 --kubernetes-to 1.36.3 --control-planes 3 --workers 5

Exit codes: 0 done, 1 failed or refused (the reason is printed), 2 bad usage, 3 paused or interrupted";

const ABOUT: &str = "\
Upgrades Talos Linux and Kubernetes on running clusters, safely and fast.";

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
    #[command(subcommand)]
    pub command: Command,
    /// Print help
    // One help, not two: the longer form spreads the same text over more lines.
    #[arg(short, long, action = ArgAction::HelpShort, global = true, display_order = 1000)]
    pub help: Option<bool>,
    /// Log level on stderr: off, error, warn, info, debug, trace, or target=level pairs
    /// [default: off; info for operator]
    #[arg(long, value_name = "FILTER", global = true, display_order = 998)]
    pub log: Option<Targets>,
    /// Format of the log
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        default_value_t,
        global = true,
        display_order = 999
    )]
    pub log_format: LogFormat,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show every step to the target versions, or the reasons why there is no path
    Plan(Box<PlanArgs>),
    /// Upgrade Talos, Kubernetes or both: plan, show the plan, ask, run it
    Upgrade(Box<UpgradeArgs>),
    /// Show the state of the last run
    Status(StatusArgs),
    /// Continue a run that was paused, halted or interrupted
    Resume(ResumeArgs),
    /// Ask a run in progress to stop at the next safe point
    Pause(PauseArgs),
    /// Roll back one node, or an unfinished Kubernetes upgrade
    Rollback(Box<RollbackArgs>),
    /// Show cluster health
    Health(HealthArgs),
    /// Take an etcd snapshot and verify it
    Snapshot(SnapshotArgs),
    /// Show the versions of this program and of the cluster
    Version(VersionArgs),
    /// Show the support matrix: upgrade paths of Talos, and the Kubernetes of each line
    Matrix(MatrixArgs),
    /// Run the operator: upgrade the clusters of a hub as their annotations say
    Operator(Box<OperatorArgs>),
    /// Print the custom resource definitions that the operator needs
    Crds(CrdsArgs),
    /// Run a simulated cluster on this machine for rehearsals
    Sim(Box<SimArgs>),
    /// Watch an upgrade of a simulated cluster
    Demo(DemoArgs),
}

impl Command {
    /// The default log level. The operator has no output but its log; the other commands print
    /// their answers.
    pub const fn usual_level(&self) -> LevelFilter {
        match self {
            Self::Operator(_) => LevelFilter::INFO,
            _ => LevelFilter::OFF,
        }
    }
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object per line
    Json,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Text,
    /// For programs: documented and stable JSON; a run prints one event per line
    Json,
}

/// The output format.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputArgs {
    /// Output format
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

impl DataArgs {
    /// Repeats these flags in another command.
    pub fn repeat(&self, line: &mut CommandLine) {
        let Self { matrix, catalogue } = self;
        line.path("matrix", matrix.as_deref()).path("catalogue", catalogue.as_deref());
    }
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
