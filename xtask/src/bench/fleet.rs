//! `cargo xtask bench fleet`: builds the operator and its benchmark, and runs the benchmark.

use anyhow::Result;

use super::program;
use crate::tools;

/// The real tools of a hub.
const TOOLS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The size and duration of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many clusters, for each size
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "10,100,1000")]
    clusters: Vec<usize>,

    /// Length of the quiet period, in seconds, in which usage is counted [default: one polling
    /// interval]
    #[arg(long, value_name = "SECONDS")]
    quiet: Option<u64>,

    /// Polling interval, in seconds, of clusters without an upgrade target; 300 is the operator's
    /// default
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    look_every: u64,
}

impl Args {
    /// A small fleet, and a short quiet period.
    pub(crate) fn quick() -> Self {
        Self { clusters: vec![10], quiet: Some(30), look_every: 300 }
    }
}

/// Builds, and measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    let paths = tools::ensure(&TOOLS)?;
    let folder = program::build("bench_fleet")?;
    let clusters: Vec<String> = args.clusters.iter().map(ToString::to_string).collect();
    let mut measuring = program::command(&folder, "bench_fleet");
    measuring
        .args(["measure", "--commit", &program::commit()])
        .args(["--clusters", &clusters.join(",")])
        .args(["--quiet", &args.quiet.unwrap_or(args.look_every).to_string()])
        .args(["--look-every", &args.look_every.to_string()])
        .arg("--operator")
        .arg(folder.join("talos-operator"))
        .envs(paths.into_iter().map(|(name, path)| (tools::variable(name), path)));
    program::run(measuring)
}
