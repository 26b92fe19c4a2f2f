//! `cargo xtask bench rollout`: the same upgrade by us and by the real talosctl,
//! on the same simulated cluster.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use super::program;
use crate::cargo::target_folder;
use crate::tools;

/// The talosctl to compare with.
const TALOSCTL: &str = "talosctl-1.14";

/// Which upgrades, and the speed of time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which upgrades: os or k8s, control planes + workers
    #[arg(
        long = "case",
        value_name = "CASES",
        value_delimiter = ',',
        default_value = "os-3+0,os-3+5,os-3+50,k8s-3+5,k8s-3+50"
    )]
    cases: Vec<String>,

    /// Random seed: the same seed gives nodes with the same durations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How many times faster than real time; beyond 20 talosctl misses reboots [default: 1 for up
    /// to ten nodes, 10 for more]
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,

    /// Folder for pictures, logs and journals [default: `rollout` in cargo's target folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Args {
    /// The small clusters, faster than real time.
    pub(crate) fn quick() -> Self {
        let cases = ["os-3+0", "os-3+5", "k8s-3+5"].map(str::to_owned).to_vec();
        Self { cases, seed: 1, speed: Some(10.0), out: None }
    }
}

/// Builds, and measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut paths = tools::ensure(&[TALOSCTL])?;
    let talosctl = paths.remove(TALOSCTL).context("talosctl is missing")?;
    let version = tools::version::probe(&talosctl, &["version", "--client", "--short"]);
    let version = version.map_err(|why| anyhow!("{}: {why}", talosctl.display()))?;
    let folder = program::build("bench_rollout")?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => target_folder()?.join("rollout"),
    };
    let mut measuring = program::command(&folder, "bench_rollout");
    measuring
        .args(["--case", &args.cases.join(",")])
        .args(["--seed", &args.seed.to_string()])
        .args(args.speed.map(|speed| format!("--speed={speed}")))
        .args(["--commit", &program::commit()])
        .args(["--version", &version.to_string()])
        .arg("--talosctl")
        .arg(talosctl)
        .arg("--binary")
        .arg(folder.join("talos-operator"))
        .arg("--out")
        .arg(out);
    program::run(measuring)
}
