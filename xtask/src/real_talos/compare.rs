//! Compares real nodes with simulated ones: the same resources, read by the same real talosctl, and
//! their differences in shape or meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::cluster::{Cluster, PATIENCE, refused};
use super::read;
use crate::tools::host::{self, note};

/// Known differences, with the reason for each.
const ACCEPTED: &str = include_str!("accepted.txt");

/// The resource kinds that our client uses, by their names in talosctl.
const KINDS: [&str; 29] = [
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
    "bootids",
    "imagefactoryschematics",
    "diagnostics",
    "servicepids",
    "bootstrapmanifestsconfigs",
    "extramanifestsconfigs",
];

/// The calls of our client besides reading resources, as far as they change nothing.
const CALLS: [&[&str]; 9] = [
    &["version"],
    &["service"],
    &["memory"],
    &["time"],
    &["etcd", "members"],
    &["etcd", "status"],
    &["etcd", "alarm", "list"],
    &["image", "list", "--namespace", "system"],
    &["kubeconfig", "-"],
];

/// Manifests that only simulated nodes have: the real ones use a bridge for pods.
const OTHER_NETWORK: &str = "05-flannel";

/// Values are truncated to this length: some are whole manifests.
const VALUE: usize = 160;

/// Machine configs hold keys, and their content belongs to the user.
const WITHOUT_CONTENT: [&str; 1] = ["machineconfig"];

/// The addresses of the simulated nodes: control planes from .2 on, then workers.
const SUBNET: &str = "127.77.13.0";

/// A simulated cluster; dropping it ends it.
struct Simulated {
    child: Child,
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Compares a control plane and a worker of each, and fails on differences that are not accepted.
pub(super) fn run(cluster: &Cluster, binary: &Path) -> Result<()> {
    let folder = cluster.folder.join("simulated");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("removing an earlier simulated cluster")?;
    }
    let _simulated = start(cluster, binary, &folder)?;
    let talosctl = cluster.parts.tool("talosctl-1.14")?;
    let simulated = |node: &str, arguments: &[&str]| -> Result<Output> {
        let mut command = Command::new(talosctl);
        command.args(arguments).arg("--talosconfig").arg(folder.join("talosconfig"));
        command.args(["--nodes", node, "--endpoints", node]);
        command.output().context("running talosctl")
    };

    let (mut found, mut missing) = (BTreeSet::new(), BTreeSet::new());
    for (real, other, address) in
        [("cp1", "cp-1", "127.77.13.2"), ("worker1", "worker-1", "127.77.13.5")]
    {
        for kind in KINDS {
            let arguments = ["get", kind, "-o", "json"];
            let left = shape(kind, &cluster.talosctl(real, &arguments)?, real)?;
            let right = shape(kind, &simulated(address, &arguments)?, other)?;
            let role = real.trim_end_matches('1');
            found.extend(differences(&format!("{role} {kind}"), &left, &right));
            if role == "cp" {
                missing.extend(read::missing(kind, &left, &right));
            }
        }
        for call in CALLS {
            let left = lines(&cluster.talosctl(real, call)?, real);
            let right = lines(&simulated(address, call)?, other);
            let role = real.trim_end_matches('1');
            found.extend(differences(&format!("{role} `{}`", call.join(" ")), &left, &right));
        }
    }
    let judged = judge(&found, &accepted(ACCEPTED)?);
    ensure!(missing.is_empty(), "{}", Vec::from_iter(missing).join("\n    "));
    judged
}

fn start(cluster: &Cluster, binary: &Path, folder: &Path) -> Result<Simulated> {
    let [talos, _] = &cluster.parts.talos;
    let [kubernetes, _] = &cluster.parts.kubernetes;
    let path = cluster.folder.join("log/simulated.log");
    let log = File::create(&path)?;
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
    let mut simulated = Simulated { child };
    let began = host::now();
    while !folder.join("talosconfig").exists() {
        cluster.check()?;
        if let Some(status) = simulated.child.try_wait()? {
            let said = fs::read_to_string(&path).unwrap_or_default();
            bail!("the simulator ended with {status}: {}", said.trim());
        }
        ensure!(began.elapsed() < PATIENCE, "the simulator wrote no talosconfig");
        thread::sleep(Duration::from_millis(200));
    }
    Ok(simulated)
}

/// Values by path.
pub(super) type Shape = BTreeMap<String, BTreeSet<String>>;

/// The shape of a kind of resource on a node: every path in it, and the values that have a meaning.
fn shape(kind: &str, output: &Output, node: &str) -> Result<Shape> {
    let mut paths = Shape::new();
    if let Some(reason) = refused(output) {
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        paths.insert("refused".to_owned(), BTreeSet::from([neutral(&reason, node)]));
        return Ok(paths);
    }
    let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    for document in documents {
        let document = document.with_context(|| format!("talosctl's output for {kind}"))?;
        let Some(object) = document.as_object() else { bail!("{kind}: not an object") };
        if document["metadata"]["id"] == OTHER_NETWORK {
            continue;
        }
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

/// The output of a call: its lines, with normalised spacing.
fn lines(output: &Output, node: &str) -> Shape {
    if let Some(reason) = refused(output) {
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        return Shape::from([(format!("refused: {}", neutral(&reason, node)), BTreeSet::new())]);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(|line| (neutral(&words(line), node), BTreeSet::new())).collect()
}

fn walk(path: &str, value: &Value, node: &str, paths: &mut Shape) {
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

/// A value without the parts that differ from cluster to cluster: names, addresses, times, numbers
/// and hashes.
fn neutral(text: &str, node: &str) -> String {
    let mut text = text.replace(node, "NODE");
    for (name, place) in [("cp-", "cp"), ("worker-", "worker"), ("real-talos", "CLUSTER")] {
        text = text.replace(name, place);
    }
    let mut out = String::new();
    for word in text.split_inclusive(BETWEEN) {
        let bare = word.trim_end_matches(BETWEEN);
        let end = &word[bare.len()..];
        if bare == "sim" || bare == "@sim" {
            out.push_str("CLUSTER");
        } else if bare.starts_with(TOKEN) {
            out.push_str(TOKEN);
            out.push('#');
        } else if is_number(bare) || is_hash(bare) {
            out.push('#');
        } else {
            out.push_str(bare);
        }
        // Only some hashes have this padding.
        out.push_str(if is_hash(bare) { end.trim_matches('=') } else { end });
    }
    out
}

/// The name of a Secret with a token of the cluster.
const TOKEN: &str = "bootstrap-token-";

/// Word separators.
const BETWEEN: [char; 12] = [' ', '/', '=', ',', ':', '"', '[', ']', '(', ')', '@', '>'];

/// Whether a word is a number, version, date, duration or percentage.
fn is_number(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || ".-+TZhms%".contains(c))
}

/// Whether a word is a hash or a token: long, with digits. One node identifier in fifty has two
/// digits or fewer among its 44 letters; no name is as long as that.
fn is_hash(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters_and_digits =
        word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let capitals = word.bytes().filter(u8::is_ascii_uppercase).count();
    (word.len() >= 16 && letters_and_digits && digits > 2)
        || (word.len() >= 40 && letters_and_digits && capitals > 2)
        || (word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits > 1)
}

fn differences(title: &str, real: &Shape, simulated: &Shape) -> Vec<String> {
    match (real.is_empty(), simulated.is_empty()) {
        (false, true) => return vec![format!("{title}: only real")],
        (true, false) => return vec![format!("{title}: only simulated")],
        _ => {}
    }
    let paths: BTreeSet<&String> = real.keys().chain(simulated.keys()).collect();
    let mut found = Vec::new();
    for path in paths {
        match (real.get(path), simulated.get(path)) {
            (Some(_), None) => found.push(format!("{title}: {path}: only real")),
            (None, Some(_)) => found.push(format!("{title}: {path}: only simulated")),
            (Some(left), Some(right)) => {
                let mut list = |of: &BTreeSet<String>, other: &BTreeSet<String>, side: &str| {
                    for value in of.difference(other) {
                        let value: String = value.chars().take(VALUE).collect();
                        found.push(format!("{title}: {path}: {value:?} only {side}"));
                    }
                };
                list(left, right, "real");
                list(right, left, "simulated");
            }
            (None, None) => {}
        }
    }
    found
}

/// Lines of `PATTERN  # REASON`, where `*` matches anything.
fn accepted(text: &str) -> Result<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once("  # ") {
            Some((pattern, reason)) if !reason.trim().is_empty() => Ok(pattern.trim()),
            _ => bail!("accepted difference without a reason: {line}"),
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
            note(&format!("    no longer a difference, remove it: {pattern}"));
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
    fn stars_match_anything() {
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
    fn cluster_specific_values_do_not_count() {
        assert_eq!(neutral("https://10.5.0.11:2379", "cp1"), "https://#:#");
        assert_eq!(neutral("cp1 at 2026-11-18T05:14:18", "cp1"), "NODE at #:#:#");
        assert_eq!(neutral("sha256:0123456789abcdef0123", "cp1"), "sha256:#");
        assert_eq!(neutral("kube-apiserver", "cp1"), "kube-apiserver");
        assert_eq!(neutral("SmGnqcwQenJVEjzgmZqsqeHOmhCtKfmzyqfReOeLHWrP", "cp1"), "#");
        for token in ["bootstrap-token-abcdef", "bootstrap-token-1a2b3c"] {
            assert_eq!(neutral(token, "cp1"), "bootstrap-token-#");
        }
    }
}
