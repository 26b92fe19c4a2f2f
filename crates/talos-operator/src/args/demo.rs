//! The arguments of `demo`.

use clap::Args;

use super::{RunArgs, parse};

/// The arguments of `demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  Upgrade a simulated cluster:
    talos-operator demo

  A node boots its old version again; the run halts, and the nodes are rolled back:
    talos-operator demo --fault boot-back")]
pub struct DemoArgs {
    /// Inject a fault, such as boot-back, never-returns or failing-pull; `sim faults --kinds`
    /// lists them
    #[arg(long, value_name = "KIND")]
    pub fault: Option<String>,
    /// Node with the fault
    #[arg(long, value_name = "NODE", default_value = "worker-2", requires = "fault")]
    pub on: String,
    /// Speed of time in the cluster; 40 is forty times real time
    #[arg(long, value_name = "FACTOR", default_value = "40", value_parser = parse::speed)]
    pub speed: f64,
    #[command(flatten)]
    pub run: RunArgs,
}
