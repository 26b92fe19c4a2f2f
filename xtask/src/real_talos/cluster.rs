//! A cluster of real nodes: starting it, entering its network, switching nodes on and off.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use semver::Version;
use serde_json::json;

use super::keeper::{Keeper, Place};
use super::parts::{Parts, succeed};
use crate::tools::host::{self, note};

/// The address of registry, discovery service and load balancer, inside our namespaces only.
const HUB: &str = "10.5.0.1";

/// How long a machine is off between two boots. Real firmware takes longer; this is enough for all
/// components to notice.
const OFF_SECONDS: u32 = 5;

/// The deadline of waits for the whole cluster: it takes two minutes on an idle machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(15);
const STEP: Duration = Duration::from_secs(2);

/// How many checks in a row must find everything ready: right after a boot, leader election
/// restarts controllers that were just ready.
const STEADY: u32 = 8;
const SHOW: Duration = Duration::from_secs(15);

/// Pods to evict, with budgets that allow one eviction at a time.
const WORKLOADS: &str = include_str!("workloads.yaml");

/// A node and its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) address: &'static str,
    pub(super) control_plane: bool,
}

const fn node(name: &'static str, address: &'static str, control_plane: bool) -> Node {
    Node { name, address, control_plane }
}

/// All nodes.
pub(super) const NODES: [Node; 5] = [
    node("cp1", "10.5.0.11", true),
    node("cp2", "10.5.0.12", true),
    node("cp3", "10.5.0.13", true),
    node("worker1", "10.5.0.21", false),
    node("worker2", "10.5.0.22", false),
];

pub(super) fn control_planes() -> impl Iterator<Item = Node> {
    NODES.into_iter().filter(|node| node.control_plane)
}

/// Whether a node is powered on first. Control planes join one after the other: of several that
/// join at once all but one fail and try again as new members, and etcd 3.7 keeps connecting to the
/// members of the failed attempts.
pub(super) fn starts_at_once(node: &Node) -> bool {
    !node.control_plane || node.name == NODES[0].name
}

/// A running cluster.
pub(super) struct Cluster {
    pub(super) folder: PathBuf,
    pub(super) parts: Parts,
    place: Place,
    keeper: RefCell<Option<Keeper>>,
    interrupt: Arc<AtomicBool>,
}

impl Cluster {
    /// Starts a new cluster in the folder, whose old contents are removed.
    pub(super) fn start(folder: &Path, parts: Parts, interrupt: Arc<AtomicBool>) -> Result<Self> {
        let place = Place::new(folder);
        if place.is_kept()? {
            bail!(
                "a cluster is running in {}; stop it with `cargo xtask real-talos down`",
                folder.display()
            );
        }
        place.take_down(Duration::from_mins(1)).context("cleaning up after an earlier cluster")?;
        for part in ["nodes", "cfg", "log", "state"] {
            let path = folder.join(part);
            if path.exists() {
                fs::remove_dir_all(&path)
                    .with_context(|| format!("removing {}", path.display()))?;
            }
            fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        }
        let cluster =
            Self { folder: folder.to_owned(), parts, place, keeper: RefCell::new(None), interrupt };
        cluster.describe()?;
        cluster.keeper.replace(Some(Keeper::start(folder)?));
        cluster.bring_up()?;
        Ok(cluster)
    }

    /// A cluster that another command started.
    pub(super) fn attach(folder: &Path, parts: Parts, interrupt: Arc<AtomicBool>) -> Result<Self> {
        let place = Place::new(folder);
        if !place.is_kept()? {
            bail!("no cluster is running in {}", folder.display());
        }
        let keeper = RefCell::new(None);
        Ok(Self { folder: folder.to_owned(), parts, place, keeper, interrupt })
    }

    /// Writes machine configs and the hub's description.
    fn describe(&self) -> Result<()> {
        let [kubernetes, _] = &self.parts.kubernetes;
        let talos = self.parts.talos[0].to_string();
        let cfg = self.folder.join("cfg");
        let mut command = Command::new(self.parts.tool("node-config")?);
        command.arg(&cfg).args(["real-talos", &kubernetes.to_string(), HUB]);
        for Node { name, address, control_plane } in NODES {
            let kind = if control_plane { "control-plane" } else { "worker" };
            command.arg(format!("{kind}:{name}={address}"));
        }
        succeed(&mut command)?;
        fs::write(self.catalogue(), self.releases())?;
        let nodes = NODES.iter().enumerate().map(|(index, node)| {
            json!({
                "name": node.name,
                "address": node.address,
                "controlPlane": node.control_plane,
                "pods": index + 1,
                "config": cfg.join(format!("{}.yaml", node.name)),
                "version": talos,
            })
        });
        let spec = json!({
            "folder": self.folder,
            "images": self.parts.images,
            "discovery": self.parts.tool("discovery-service")?,
            "roots": self.parts.roots,
            "cgroup": cgroup(&self.folder),
            "offSeconds": OFF_SECONDS,
            "nodes": nodes.collect::<Vec<_>>(),
        });
        fs::write(self.place.spec(), serde_json::to_vec_pretty(&spec)?)?;
        Ok(())
    }

    fn bring_up(&self) -> Result<()> {
        let began = host::now();
        for node in NODES.iter().filter(|node| starts_at_once(node)) {
            self.switch(node.name, "on")?;
        }
        self.bootstrap()?;
        for (index, node) in control_planes().enumerate() {
            if !starts_at_once(&node) {
                self.switch(node.name, "on")?;
            }
            self.until("the control plane joins", || Ok(self.missing_voters(index + 1)))?;
        }
        let kubeconfig = self.kubeconfig();
        self.until("a kubeconfig", || {
            let path = kubeconfig.display().to_string();
            Ok(refused(&self.talosctl("cp1", &["kubeconfig", "--force", "--merge=false", &path])?))
        })?;
        self.until("all nodes are ready", || Ok(self.unready_nodes()))?;
        self.until("all control planes are complete", || Ok(self.unready_control_planes()))?;
        self.kubectl_apply(WORKLOADS)?;
        self.until("all pods are ready", || Ok(self.unready_workloads()))?;
        note(&format!("real-talos: the cluster is up after {:.0?}", began.elapsed()));
        Ok(())
    }

    /// Starts etcd on the first control plane as soon as it answers.
    fn bootstrap(&self) -> Result<()> {
        note("real-talos: the first nodes are powered on; waiting for the first answer");
        self.until("the first control plane answers", || {
            // Fail early if the node cannot boot.
            ensure!(self.boots("cp1")? < 4, "cp1 does not boot:\n{}", self.end_of_log("cp1"));
            Ok(refused(&self.talosctl("cp1", &["bootstrap"])?))
        })
    }

    /// Waits until all nodes, control planes and pods are ready and stay ready. Every scenario
    /// begins with it: a plan is refused while a node is not ready, and a budget that an earlier
    /// scenario used up must not fail this one.
    pub(super) fn settle(&self) -> Result<()> {
        let mut ready = 0;
        self.until("everything is ready and stays so", || {
            let missing = self.unready_nodes().or_else(|| self.unready_control_planes());
            let missing = missing.or_else(|| self.unready_workloads());
            ready = if missing.is_none() { ready + 1 } else { 0 };
            Ok(missing.or_else(|| (ready < STEADY).then(|| "ready just now".to_owned())))
        })
    }

    /// The available releases: there are no images of newer patches.
    fn releases(&self) -> String {
        let list = |versions: &[Version]| {
            versions.iter().map(|version| format!("{:?}", version.to_string())).collect::<Vec<_>>()
        };
        let (talos, kubernetes) = (list(&self.parts.talos), list(&self.parts.kubernetes));
        format!("talos = [{}]\nkubernetes = [{}]\n", talos.join(", "), kubernetes.join(", "))
    }

    pub(super) fn catalogue(&self) -> PathBuf {
        self.folder.join("cfg/catalogue.toml")
    }

    pub(super) fn talosconfig(&self) -> PathBuf {
        self.folder.join("cfg/talosconfig")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("cfg/kubeconfig")
    }

    /// A program in the hub's network. It ends with this process.
    pub(super) fn inside(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let network = format!("--net=/proc/{}/ns/net", self.place.hub()?);
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "nsenter", &network, "--"])
            .arg(program)
            .stdin(Stdio::null());
        Ok(command)
    }

    /// The command prefix that does the same by hand.
    pub(super) fn invitation(&self) -> Result<String> {
        Ok(format!("nsenter --net=/proc/{}/ns/net --", self.place.hub()?))
    }

    /// The real talosctl with one node as its target.
    pub(super) fn talosctl(&self, node: &str, arguments: &[&str]) -> Result<Output> {
        let address =
            NODES.iter().find(|known| known.name == node).context("no such node")?.address;
        let mut command = self.inside(self.parts.tool("talosctl-1.14")?)?;
        command.args(arguments).arg("--talosconfig").arg(self.talosconfig());
        command.args(["--nodes", address, "--endpoints", address]);
        command.output().context("running talosctl")
    }

    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.inside(self.parts.tool("kubectl")?)?;
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command.args(["--request-timeout", "20s"]).args(arguments);
        let output = command.output().context("running kubectl")?;
        match refused(&output) {
            None => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Some(reason) => bail!("kubectl {}: {reason}", arguments.join(" ")),
        }
    }

    fn kubectl_apply(&self, manifest: &str) -> Result<()> {
        let path = self.folder.join("cfg/workloads.yaml");
        fs::write(&path, manifest)?;
        self.until("workloads are accepted", || {
            Ok(self
                .kubectl(&["apply", "-f", &path.display().to_string()])
                .err()
                .map(|e| e.to_string()))
        })
    }

    /// Asks the hub to switch a node `on` or `off`.
    pub(super) fn switch(&self, node: &str, state: &str) -> Result<()> {
        let answer = self.ask(&format!("POST /{node}/{state}"))?;
        if !answer.starts_with("HTTP/1.0 200") {
            bail!("switching {node} {state}: {}", answer.trim());
        }
        Ok(())
    }

    /// Adds an etcd learner that never starts (`add`), or removes it (`remove`).
    pub(super) fn learner(&self, action: &str) -> Result<()> {
        let answer = self.ask(&format!("POST /cp1/learner/{action}"))?;
        ensure!(answer.starts_with("HTTP/1.0 200"), "learner {action}: {}", answer.trim());
        Ok(())
    }

    /// How often a node has booted.
    pub(super) fn boots(&self, node: &str) -> Result<u64> {
        let answer = self.ask("GET /")?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).context("no body")?;
        let states: serde_json::Value = serde_json::from_str(body)?;
        states[node]["boots"].as_u64().with_context(|| format!("the hub does not know {node}"))
    }

    /// The last lines of a node's log.
    fn end_of_log(&self, node: &str) -> String {
        let log = fs::read(self.folder.join("log").join(format!("{node}.log"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    fn ask(&self, request: &str) -> Result<String> {
        let mut stream =
            UnixStream::connect(self.place.socket()).context("connecting to the hub")?;
        stream.set_read_timeout(Some(Duration::from_mins(2)))?;
        write!(stream, "{request} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("the hub's answer")?;
        Ok(answer)
    }

    /// Nodes that are missing, not ready or cordoned; `None` if there are none.
    pub(super) fn unready_nodes(&self) -> Option<String> {
        let columns = "jsonpath={range .items[*]}{.metadata.name} \
            {.status.conditions[?(@.type==\"Ready\")].status} {.spec.unschedulable}{\"\\n\"}{end}";
        let listed = match self.kubectl(&["get", "nodes", "-o", columns]) {
            Ok(listed) => listed,
            Err(error) => return Some(error.to_string()),
        };
        let well: Vec<&str> = listed
            .lines()
            .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
                [name, "True"] => Some(name),
                _ => None,
            })
            .collect();
        let missing: Vec<&str> =
            NODES.iter().map(|node| node.name).filter(|name| !well.contains(name)).collect();
        (!missing.is_empty()).then(|| format!("not ready: {}", missing.join(", ")))
    }

    /// Control plane pods that are missing or not ready, and etcd members that do not vote; `None`
    /// if there are none.
    pub(super) fn unready_control_planes(&self) -> Option<String> {
        let columns = "jsonpath={range .items[*]}{.metadata.name} \
            {.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end}";
        let selector = ["-n", "kube-system", "-l", "tier=control-plane"];
        let listed = self.kubectl(&[&["get", "pods", "-o", columns], &selector[..]].concat());
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return Some(error.to_string()),
        };
        let ready = listed.lines().filter(|line| line.ends_with(" True")).count();
        let wanted = 3 * control_planes().count();
        if ready < wanted {
            return Some(format!("{ready} of {wanted} control plane pods are ready"));
        }
        self.missing_voters(control_planes().count())
    }

    /// Whether fewer or more than `wanted` etcd members vote; `None` if it is the right number.
    fn missing_voters(&self, wanted: usize) -> Option<String> {
        let members = match self.talosctl("cp1", &["etcd", "members"]) {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(error) => return Some(error.to_string()),
        };
        let voting = members.lines().filter(|line| line.trim_end().ends_with("false")).count();
        (voting != wanted).then(|| format!("{voting} of {wanted} etcd members vote"))
    }

    /// Deployments and daemon sets with fewer ready pods than desired.
    pub(super) fn unready_workloads(&self) -> Option<String> {
        let columns = "jsonpath={range .items[*]}{.metadata.name} {.status.replicas}\
            {.status.desiredNumberScheduled} {.status.readyReplicas}{.status.numberReady}{\"\\n\"}{end}";
        let listed = match self.kubectl(&["get", "deployments,daemonsets", "-A", "-o", columns]) {
            Ok(listed) => listed,
            Err(error) => return Some(error.to_string()),
        };
        let waiting: Vec<&str> = listed
            .lines()
            .filter(|line| !matches!(line.split_whitespace().collect::<Vec<_>>()[..], [_, wanted, ready] if wanted == ready))
            .collect();
        (!waiting.is_empty()).then(|| format!("not ready: {}", waiting.join("; ")))
    }

    /// Waits until the check reports no problem.
    pub(super) fn until(
        &self,
        what: &str,
        mut question: impl FnMut() -> Result<Option<String>>,
    ) -> Result<()> {
        let began = host::now();
        let mut shown = began;
        loop {
            self.check()?;
            let Some(reason) = question()? else { return Ok(()) };
            let waited = began.elapsed();
            if waited > PATIENCE {
                bail!("timed out after {PATIENCE:?}: {what}: {reason}");
            }
            if shown.elapsed() > SHOW {
                shown = host::now();
                note(&format!("real-talos: {what}: {:.0?}, {}", waited, first_line(&reason)));
            }
            thread::sleep(STEP);
        }
    }

    /// Fails after Ctrl-C, or when the nodes are gone.
    pub(super) fn check(&self) -> Result<()> {
        if self.interrupt.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        match self.keeper.borrow_mut().as_mut() {
            Some(keeper) => keeper.check(),
            None => Ok(()),
        }
    }

    /// Leaves the nodes running.
    pub(super) fn detach(self) -> Result<()> {
        match self.keeper.take() {
            Some(keeper) => keeper.detach(),
            None => Ok(()),
        }
    }
}

/// The name of the cluster's control group, unique for its folder.
pub(super) fn cgroup(folder: &Path) -> String {
    use sha2::{Digest as _, Sha256};
    let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    format!("real-talos-{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2])
}

/// The error output of a failed command; `None` on success.
pub(super) fn refused(output: &Output) -> Option<String> {
    (!output.status.success()).then(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{}: {}", output.status, said.trim())
    })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
