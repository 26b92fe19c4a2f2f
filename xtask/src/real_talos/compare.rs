//! Real nodes beside simulated ones: the same resources, read by the same real
//! talosctl, and where they differ in shape or meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::cluster::{Cluster, PATIENCE, refused};
use crate::tools::host::{self, note};

/// Differences that are known, with the reason for each.
const ACCEPTED: &str = include_str!("accepted.txt");

/// What our client reads, by the names that talosctl has for them.
const KINDS: [&str; 23] = [
    "machinestatus",
    "extensions",
    "version",
    "securitystate",
    "services",
    "machineconfig",
    "machinetype",
    "kubernetesaccessconfig",
    "nodename",
    "nodestatus",
    "kubeletspec",
    "staticpods",
    "staticpodstatus",
    "apiserverconfig",
    "controllermanagerconfig",
    "schedulerconfig",
    "manifests",
    "members",
    "infos",
    "etcdmembers",
    "hostnamestatus",
    "nodeaddress",
    "bootedentry",
];

/// Machine configs hold keys, and are the users' own in any case.
const WITHOUT_CONTENT: [&str; 1] = ["machineconfig"];

/// Where the simulated nodes are: control planes from .2 on, then workers.
const SUBNET: &str = "127.77.13.0";

/// A simulated cluster; it ends with this.
struct Simulated {
    child: Child,
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Compares a control plane and a worker of each, and fails on what is not accepted.
pub(super) fn run(cluster: &Cluster, binary: &Path) -> Result<()> {
    let folder = cluster.folder.join("simulated");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("removing an earlier simulated cluster")?;
    }
    fs::create_dir_all(&folder)?;
    let _simulated = start(cluster, binary, &folder)?;
    let talosctl = cluster.parts.tool("talosctl-1.14")?;
    let simulated = |node: &str, arguments: &[&str]| -> Result<Output> {
        let mut command = Command::new(talosctl);
        command.args(arguments).arg("--talosconfig").arg(folder.join("talosconfig"));
        command.args(["--nodes", node, "--endpoints", node]);
        command.output().context("running talosctl")
    };

    let mut found = BTreeSet::new();
    for (real, other, address) in
        [("cp1", "cp-1", "127.77.13.2"), ("worker1", "worker-1", "127.77.13.5")]
    {
        for kind in KINDS {
            let arguments = ["get", kind, "-o", "json"];
            let left = shape(kind, &cluster.talosctl(real, &arguments)?, real)?;
            let right = shape(kind, &simulated(address, &arguments)?, other)?;
            let role = real.trim_end_matches('1');
            found.extend(differences(&format!("{role} {kind}"), &left, &right));
        }
    }
    judge(&found, &accepted(ACCEPTED)?)
}

fn start(cluster: &Cluster, binary: &Path, folder: &Path) -> Result<Simulated> {
    let [talos, _] = &cluster.parts.talos;
    let [kubernetes, _] = &cluster.parts.kubernetes;
    let log = File::create(folder.join("log"))?;
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(binary)
        .args(["sim", "--subnet", SUBNET, "--talos", &talos.to_string()])
        .args(["--kubernetes", &kubernetes.to_string(), "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("starting the simulator")?;
    let simulated = Simulated { child };
    let began = host::now();
    while !folder.join("talosconfig").exists() {
        ensure!(began.elapsed() < PATIENCE, "the simulator wrote no talosconfig");
        thread::sleep(Duration::from_millis(200));
    }
    Ok(simulated)
}

/// What a kind of resource looks like on a node: every path in it, and the values that
/// mean something.
fn shape(kind: &str, output: &Output, node: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut paths = BTreeMap::new();
    if let Some(reason) = refused(output) {
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        paths.insert("refused".to_owned(), BTreeSet::from([neutral(&reason, node)]));
        return Ok(paths);
    }
    let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    for document in documents {
        let document = document.with_context(|| format!("what talosctl says of {kind}"))?;
        let Some(object) = document.as_object() else { bail!("{kind}: no object") };
        for (name, value) in object {
            match name.as_str() {
                "node" => {}
                "spec" if WITHOUT_CONTENT.contains(&kind) => {}
                _ => walk(name, value, node, &mut paths),
            }
        }
    }
    Ok(paths)
}

fn walk(path: &str, value: &Value, node: &str, paths: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                walk(&format!("{path}.{name}"), value, node, paths);
            }
        }
        Value::Array(items) => {
            for item in items {
                walk(&format!("{path}[]"), item, node, paths);
            }
        }
        _ => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            paths.entry(path.to_owned()).or_default().insert(neutral(&text, node));
        }
    }
}

/// A value without what differs from cluster to cluster: names, addresses, times,
/// numbers and hashes.
fn neutral(text: &str, node: &str) -> String {
    let text = text.replace(node, "NODE");
    let mut out = String::new();
    for word in text.split_inclusive([' ', '/', '=', ',', ':', '"', '[', ']']) {
        let bare = word.trim_end_matches([' ', '/', '=', ',', ':', '"', '[', ']']);
        let digits = bare.chars().filter(char::is_ascii_digit).count();
        let is_number =
            digits > 0 && bare.chars().all(|c| c.is_ascii_digit() || ".-+TZ".contains(c));
        let is_hash =
            bare.len() >= 16 && bare.chars().all(|c| c.is_ascii_alphanumeric()) && digits > 2;
        if is_number || is_hash {
            out.push('#');
            out.push_str(&word[bare.len()..]);
        } else {
            out.push_str(word);
        }
    }
    out
}

fn differences(
    title: &str,
    real: &BTreeMap<String, BTreeSet<String>>,
    simulated: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let paths: BTreeSet<&String> = real.keys().chain(simulated.keys()).collect();
    let mut found = Vec::new();
    for path in paths {
        match (real.get(path), simulated.get(path)) {
            (Some(_), None) => found.push(format!("{title}: {path}: only real")),
            (None, Some(_)) => found.push(format!("{title}: {path}: only simulated")),
            (Some(left), Some(right)) if left != right => {
                let list = |of: &BTreeSet<String>, other: &BTreeSet<String>| {
                    of.difference(other).take(3).cloned().collect::<Vec<_>>().join(" | ")
                };
                found.push(format!(
                    "{title}: {path}: real {:?}, simulated {:?}",
                    list(left, right),
                    list(right, left)
                ));
            }
            _ => {}
        }
    }
    found
}

/// Lines of `PATTERN  # REASON`, where `*` stands for anything.
fn accepted(text: &str) -> Result<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once("  # ") {
            Some((pattern, reason)) if !reason.trim().is_empty() => Ok(pattern.trim()),
            _ => bail!("an accepted difference without a reason: {line}"),
        })
        .collect()
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    let parts: Vec<&str> = pattern.split('*').collect();
    for (index, part) in parts.iter().enumerate() {
        let at = if index == 0 {
            rest.starts_with(part).then_some(0)
        } else if index + 1 == parts.len() {
            rest.ends_with(part).then(|| rest.len() - part.len())
        } else {
            rest.find(part)
        };
        match at {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    parts.len() > 1 || rest.is_empty()
}

fn judge(found: &BTreeSet<String>, accepted: &[&str]) -> Result<()> {
    let known = |line: &&String| accepted.iter().any(|pattern| matches(pattern, line));
    let unknown: Vec<&String> = found.iter().filter(|line| !known(line)).collect();
    for pattern in accepted {
        if !found.iter().any(|line| matches(pattern, line)) {
            note(&format!("    no difference any more, remove it: {pattern}"));
        }
    }
    note(&format!("    {} differences, {} of them not accepted", found.len(), unknown.len()));
    if unknown.is_empty() {
        return Ok(());
    }
    let shown: Vec<&str> = unknown.iter().map(|line| line.as_str()).collect();
    bail!("real and simulated nodes differ:\n    {}", shown.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_difference_has_a_reason() {
        accepted(ACCEPTED).expect("reasons");
        assert!(accepted("cp x: a: only real\n").is_err());
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, expected) in [
            ("* version: spec.a: only real", "cp version: spec.a: only real", true),
            ("cp x: metadata.*", "cp x: metadata.created: real", true),
            ("cp x: metadata.*", "worker x: metadata.created", false),
            ("cp x", "cp x: y", false),
            ("*a*b", "xaxb", true),
            ("*a*b", "xaxbc", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn an_unlisted_difference_fails() {
        let found = BTreeSet::from(["cp x: a: only real".to_owned()]);
        assert!(judge(&found, &[]).is_err());
        assert!(judge(&found, &["cp x: a: *"]).is_ok());
    }

    #[test]
    fn what_differs_from_cluster_to_cluster_does_not_count() {
        assert_eq!(neutral("https://10.5.0.11:2379", "cp1"), "https://#:#");
        assert_eq!(neutral("cp1 at 2026-11-18T05:14:18", "cp1"), "NODE at #:#:#");
        assert_eq!(neutral("sha256:0123456789abcdef0123", "cp1"), "sha256:#");
        assert_eq!(neutral("kube-apiserver", "cp1"), "kube-apiserver");
    }
}
