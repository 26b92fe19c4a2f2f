//! The arguments of the commands that need few.

use std::path::PathBuf;

use clap::Args;
use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

use super::{ClusterArgs, DataArgs, OutputArgs, PaceArgs, RunArgs, parse};

/// What `resume` is asked.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Goes on with the run that was paused, halted or cut off. What was under way is looked at before
anything is done again.
Exit codes: as of upgrade")]
pub struct ResumeArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub run: RunArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
}

/// What `pause` is asked.
#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
}

/// What `status` is asked.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Show every entry of the journal
    #[arg(long)]
    pub history: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub output: OutputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
}

/// What `rollback` is asked.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  Boot what ran before the last upgrade, which is still in the node's other slot:
    talos-operator rollback worker-3 --profile prod.yaml

  Install an older release again:
    talos-operator rollback worker-3 --image factory.talos.dev/metal-installer/ID:v1.12.11

  Give Kubernetes components their previous images after an upgrade that did not end:
    talos-operator rollback --kubernetes --profile prod.yaml")]
pub struct RollbackArgs {
    /// The node
    #[arg(value_name = "NODE", required_unless_present = "kubernetes")]
    pub node: Option<String>,
    /// Take back a Kubernetes upgrade that did not end: components get their previous images
    #[arg(long, conflicts_with_all = ["node", "image", "to"])]
    pub kubernetes: bool,
    /// Install this image instead of booting the other slot; its tag says the version
    #[arg(long, value_name = "IMAGE", conflicts_with = "to")]
    pub image: Option<ImageRef>,
    /// The version in the other slot [default: what the journal says ran before]
    #[arg(long, value_name = "VERSION")]
    pub to: Option<Version>,
    /// Go ahead without asking
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub run: RunArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub pace: PaceArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub data: DataArgs,
}

/// What `health` is asked.
#[derive(Clone, Debug, Args)]
pub struct HealthArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub output: OutputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
}

/// What `snapshot` is asked.
#[derive(Clone, Debug, Args)]
pub struct SnapshotArgs {
    /// Where snapshots go [default: the profile's policy, or else the state folder]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// How many are kept [default: the profile's policy, or else 5]
    #[arg(long, value_name = "N", value_parser = parse::keep)]
    pub keep: Option<usize>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub output: OutputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
}

/// What `version` is asked.
#[derive(Clone, Debug, Args)]
pub struct VersionArgs {
    /// Ask no cluster
    #[arg(long)]
    pub client: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub output: OutputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub cluster: ClusterArgs,
}

/// What `demo` is asked.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  A simulated cluster, upgraded in front of your eyes:
    talos-operator demo

  A node that does not come up with the new release; the run halts, and the way back is taken:
    talos-operator demo --fault boot-back")]
pub struct DemoArgs {
    /// Make something go wrong on the way: boot-back, never-returns, failing-pull and so on;
    /// `sim faults --kinds` lists them
    #[arg(long, value_name = "KIND")]
    pub fault: Option<String>,
    /// The node that it goes wrong on
    #[arg(long, value_name = "NODE", default_value = "worker-2", requires = "fault")]
    pub on: String,
    /// How many times faster than life time passes in the cluster
    #[arg(long, value_name = "FACTOR", default_value = "40", value_parser = parse::speed)]
    pub speed: f64,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub run: RunArgs,
}
