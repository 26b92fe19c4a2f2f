//! `cargo xtask test`: everything that CI checks, in the order in which it is
//! cheapest to fail.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};

use crate::tools::{self, host};
use crate::{purity, simulate};

/// Checks everything.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// The real tools that the tests run.
const TOOLS: &[&str] = &[
    "talosctl-1.12",
    "talosctl-1.13",
    "talosctl-1.14",
    "etcd",
    "etcdutl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
];

/// How many simulated upgrades belong to the tests.
const SEEDS: u64 = 2_000;

/// Runs every check and stops at the first that fails.
pub(crate) fn run(Args {}: Args) -> Result<()> {
    let began = host::now();
    step("format", || cargo(&["fmt", "--all", "--check"], &[]))?;
    step("purity", purity::check)?;
    step("clippy", || {
        let lints = ["--", "-D", "warnings"];
        let args = ["clippy", "--quiet", "--workspace", "--all-targets", "--locked"];
        cargo(&[&args[..], &lints].concat(), &[])
    })?;
    let mut variables = Vec::new();
    step("tools", || {
        for (name, path) in tools::ensure(TOOLS)? {
            variables.push((tools::variable(name).into(), path.into_os_string()));
        }
        Ok(())
    })?;
    // A snapshot that differs is a failure, never an update.
    variables.push(("INSTA_UPDATE".into(), "no".into()));
    // One failure does not hide the others.
    step("test", || cargo(&["test", "--workspace", "--locked", "--no-fail-fast"], &variables))?;
    step("simulate", || simulate::seeds(SEEDS))?;
    let strict = [("RUSTDOCFLAGS".into(), "-D warnings".into())];
    step("doc", || cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--locked"], &strict))?;
    host::note(&format!("\nall checks passed in {:.0?}", began.elapsed()));
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    host::note(&format!("\n== {name}"));
    let began = host::now();
    work().with_context(|| format!("the check `{name}` failed"))?;
    host::note(&format!("== {name}: passed in {:.1?}", began.elapsed()));
    Ok(())
}

fn cargo(args: &[&str], variables: &[(OsString, OsString)]) -> Result<()> {
    let status = crate::cargo::cargo()
        .args(args)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .status()
        .context("cargo does not start")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", args.join(" "));
    }
    Ok(())
}
