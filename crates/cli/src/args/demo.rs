//! The arguments of `demo`.

use clap::Args;

use super::{RunArgs, parse};

/// The arguments of `demo`.
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
    pub run: RunArgs,
}
