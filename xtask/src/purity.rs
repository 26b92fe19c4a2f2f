//! The pure crates stay pure: no runtime, no network, no clock.
//!
//! Clippy's bans (see `clippy.toml`) catch calls; this check catches impurity through a dependency,
//! and a crate that switches the bans off.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;

/// The deciding crates, and their folders.
const PURE: &[(&str, &str)] = &[
    ("upgrade-core", "crates/upgrade-core"),
    ("upgrade-planner", "crates/upgrade-planner"),
    ("talos-machine-config", "crates/talos-machine-config"),
    ("upgrade-view", "crates/upgrade-view"),
];

/// The crate that serves every front end, its folder, and what it may not know: the kinds of
/// single front ends, and the crates that have them.
const NEUTRAL: (&str, &str) = ("upgrade-controller", "crates/upgrade-controller/src");
const FRONT_END_KINDS: [&str; 2] = ["KubernetesCluster", "TalosControlPlane"];
const FRONT_END_CRATES: [&str; 4] =
    ["annotation-operator", "spec-api", "spec-operator", "vitistack-api"];

/// Crates with a runtime, a network or a clock. A name also stands for its family: `kube` for
/// `kube-client`.
const FORBIDDEN: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "mio",
    "futures",
    "kube",
    "k8s-openapi",
    "tonic",
    "hyper",
    "reqwest",
    "ureq",
    "rustls",
    "native-tls",
    "socket2",
    "chrono",
    "time",
    "coarsetime",
    "quanta",
];

/// Crates whose clock is a feature that must stay disabled: name and feature.
const FORBIDDEN_FEATURES: &[(&str, &str)] = &[("jiff", "std"), ("jiff", "tz-system")];

/// Fails if a pure crate could do IO or read a clock.
pub(crate) fn check() -> Result<()> {
    neutral()?;
    for (package, folder) in PURE {
        let tree = dependencies(package)?;
        let found = impurities(&tree);
        if !found.is_empty() {
            bail!("{package} decides and must stay pure, but has {}", found.join(", "));
        }
        let root = format!("{folder}/src/lib.rs");
        let text = fs::read_to_string(&root).with_context(|| root.clone())?;
        if !text.contains("#![forbid(clippy::disallowed_methods)]") {
            bail!("{root} does not forbid clippy::disallowed_methods, so a clock could slip in");
        }
    }
    Ok(())
}

/// Fails if the controller knows a front end: a second one must not need the first.
fn neutral() -> Result<()> {
    let (package, folder) = NEUTRAL;
    let tree = dependencies(package)?;
    let known = FRONT_END_CRATES
        .into_iter()
        .filter(|name| tree.lines().any(|line| line.split_whitespace().next() == Some(name)));
    if let Some(name) = { known }.next() {
        bail!("{package} serves every front end, but depends on {name}");
    }
    let mut folders = vec![folder.into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir::<PathBuf>(folder).context("the controller has a folder")? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path)?;
            if let Some(kind) = FRONT_END_KINDS.into_iter().find(|kind| text.contains(kind)) {
                bail!("{} names {kind}, a kind of one front end", path.display());
            }
        }
    }
    Ok(())
}

/// The crates that a package is built from, a line `name vX.Y.Z ...|features` each.
fn dependencies(package: &str) -> Result<String> {
    let output = cargo()
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}|{f}", "--package", package])
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("cargo tree printed no text")
}

/// The violations in a dependency tree, one line `name vX.Y.Z ...|features` each.
fn impurities(tree: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in tree.lines() {
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let name = package.split_whitespace().next().unwrap_or_default();
        let family = |forbidden: &&&str| {
            name == **forbidden
                || name.strip_prefix(**forbidden).is_some_and(|it| it.starts_with('-'))
        };
        if FORBIDDEN.iter().any(|forbidden| family(&forbidden)) {
            found.push(name.to_owned());
        }
        let features: Vec<&str> = features.trim_end_matches(" (*)").split(',').collect();
        for (owner, feature) in FORBIDDEN_FEATURES {
            if name == *owner && features.contains(feature) {
                found.push(format!("{name} with its feature {feature}"));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_networks_and_clocks_are_found() {
        let clean = "upgrade-core v0.1.0 (path)|\njiff v0.2.39|alloc,serde\nserde v1.0.0|std\n";
        assert!(impurities(clean).is_empty());
        for (line, found) in [
            ("tokio v1.54.1|rt", "tokio"),
            ("kube-client v5.0.0|", "kube-client"),
            ("tonic v0.14.9|", "tonic"),
            ("jiff v0.2.39|alloc,std (*)", "jiff with its feature std"),
            ("chrono v0.4.0|clock", "chrono"),
        ] {
            assert_eq!(impurities(&format!("{clean}{line}\n")), [found]);
        }
        // Only whole names and families count.
        assert!(impurities("timeless v1.0.0|\nkubernetes v1.0.0|\n").is_empty());
    }
}
