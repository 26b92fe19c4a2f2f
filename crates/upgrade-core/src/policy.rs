//! How the user wants the work done: order, limits, deadlines, windows.
//!
//! The shape is that of the `policy` section of a cluster profile; every field
//! has a default that argues for itself below.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amount::Amount;
use crate::snapshot::NodeName;
use crate::window::{Freeze, Window, WindowError};

/// Which role goes first in an operating system hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The annotation front end: a bad release hurts a worker before it hurts etcd.
    WorkersFirst,
    /// The command line and the Terraform front end.
    #[default]
    ControlPlanesFirst,
}

/// What happens when pods are still there at the drain deadline (rule 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDrainTimeout {
    /// Uncordon the node and stop the run.
    #[default]
    Halt,
    /// Reboot with the pods that remain; Talos stops them with their grace.
    Proceed,
}

/// What becomes of a pod that loses something when it is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtStake {
    /// Evict it like any other.
    Evict,
    /// Let it stay; the kubelet starts it again after the reboot. (A node with
    /// Talos up to 1.12 drains itself as well, whatever the policy says.)
    Leave,
    /// Evict nothing from its node and stop the run, naming it.
    Halt,
}

/// Limits for workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workers {
    /// How many workers may be unavailable at once, those that were down
    /// already included (rule 6).
    pub max_unavailable: Amount,
    /// Pools with a limit of their own; all other workers share the one above.
    pub pools: BTreeMap<String, Amount>,
    /// The label of a Kubernetes node that names its pool. Left out where it is the usual
    /// one, so that plans of before it existed keep their hash.
    #[serde(skip_serializing_if = "is_usual_label")]
    pub pool_label: String,
}

/// The label that names a worker's pool unless the policy says otherwise. Plans without one
/// were made with it, so it never changes.
pub const POOL_LABEL: &str = "vitistack.io/nodepool";

fn is_usual_label(label: &str) -> bool {
    label == POOL_LABEL
}

/// Whether Kubernetes takes this as the key of a label: a name of at most 63 characters,
/// perhaps with a domain and a slash before it.
fn is_label_key(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let part = |text: &str, longest: usize| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let mut chars = text.chars();
        let (first, last) = (text.chars().next(), text.chars().next_back());
        text.len() <= longest && chars.all(plain) && ends(first) && ends(last)
    };
    match key.split_once('/') {
        Some((domain, name)) => part(domain, 253) && part(name, 63),
        None => part(key, 63),
    }
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            max_unavailable: Amount::Count(1),
            pools: BTreeMap::new(),
            pool_label: POOL_LABEL.to_owned(),
        }
    }
}

/// Limits for kubelet restarts in a Kubernetes hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kubelets {
    /// How many kubelets of workers restart at once. Pods keep running
    /// meanwhile, so this may be larger than the number of unavailable workers.
    pub max_parallel: Amount,
}

impl Default for Kubelets {
    fn default() -> Self {
        Self { max_parallel: Amount::Percent(25) }
    }
}

/// How nodes are drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Drain {
    /// How long pods get to leave.
    pub timeout: SignedDuration,
    /// What happens then.
    pub on_timeout: OnDrainTimeout,
    /// Pods with an `emptyDir`, whose content goes with them. Evicted unless
    /// told otherwise: it is scratch space by definition, and nearly every
    /// cluster has some, so that halting would halt every upgrade.
    pub empty_dir: AtStake,
    /// Pods without a controller, which are not recreated. Halts by default: what is lost
    /// here does not come back.
    pub bare_pods: AtStake,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            timeout: SignedDuration::from_mins(10),
            on_timeout: OnDrainTimeout::default(),
            empty_dir: AtStake::Evict,
            bare_pods: AtStake::Halt,
        }
    }
}

/// Where etcd snapshots go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotPolicy {
    /// The folder, or an S3 address; `None` lets the front end choose.
    pub dir: Option<String>,
    /// How many are kept.
    pub keep: usize,
}

impl Default for SnapshotPolicy {
    fn default() -> Self {
        Self { dir: None, keep: 5 }
    }
}

/// What is deleted of what left Talos's manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prune {
    /// Nothing.
    None,
    /// All but definitions, namespaces and volumes, with which other objects or
    /// data would go.
    #[default]
    Safe,
    /// Everything that the plan lists, those included.
    All,
}

/// How the bootstrap manifests are synced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ManifestPolicy {
    /// What is deleted of what left them.
    pub prune: Prune,
}

impl ManifestPolicy {
    /// Plans of before it existed keep their hash.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How nodes are rebooted into another Talos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebootChoice {
    /// As Talos does it: by kexec, which leaves the firmware out.
    #[default]
    Default,
    /// Through the firmware: slower, and right where kexec hangs or leaves devices dead.
    Powercycle,
    /// The first node of each pool through the firmware, which shows whether the version
    /// boots there; the others follow once it is verified, by kexec.
    PowercycleFirst,
}

/// Reboots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RebootPolicy {
    /// How nodes are rebooted.
    pub mode: RebootChoice,
}

impl RebootPolicy {
    /// Plans of before it existed keep their hash.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How often a harmless step that failed is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retries {
    /// Attempts in all, the first included.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles each time.
    pub backoff: SignedDuration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 3, backoff: SignedDuration::from_secs(15) }
    }
}

/// Deadlines (rule 11). Generous: they end what will not end by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Pulling an image; the Image Factory builds on first pull.
    pub pull: SignedDuration,
    /// Writing the inactive slot.
    pub install: SignedDuration,
    /// A call that answers at once: cordon, uncordon, leadership, preflight.
    pub call: SignedDuration,
    /// From the reboot request until the node answers with a new boot ID.
    /// Servers with slow firmware take ten minutes.
    pub reboot: SignedDuration,
    /// From a new boot ID until everything about the node is as planned.
    pub verify: SignedDuration,
    /// An etcd snapshot, streamed and checked.
    pub snapshot: SignedDuration,
    /// One Kubernetes component or kubelet on one node.
    pub component: SignedDuration,
    /// Syncing the bootstrap manifests and their roll-outs.
    pub manifests: SignedDuration,
    /// How long a closed safety gate (etcd, budget, unknown node) is waited for.
    pub gate: SignedDuration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let minutes = SignedDuration::from_mins;
        Self {
            pull: minutes(15),
            install: minutes(10),
            call: minutes(2),
            reboot: minutes(20),
            verify: minutes(15),
            snapshot: minutes(15),
            component: minutes(10),
            manifests: minutes(10),
            gate: minutes(15),
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Which role goes first.
    pub order: Order,
    /// Worker limits.
    pub workers: Workers,
    /// Kubelet limits.
    pub kubelets: Kubelets,
    /// Draining.
    pub drain: Drain,
    /// A pause after each verified node. Verification is by level, so the
    /// default is none.
    pub soak: SignedDuration,
    /// The user accepts that a cluster with one or two control planes is
    /// without its API while one reboots (rule 1).
    pub accept_outage: bool,
    /// etcd snapshots.
    pub snapshot: SnapshotPolicy,
    /// When new work may begin; none means always.
    pub windows: Vec<Window>,
    /// When it may not.
    pub freezes: Vec<Freeze>,
    /// Second chances.
    pub retries: Retries,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// The bootstrap manifests.
    #[serde(skip_serializing_if = "ManifestPolicy::is_default")]
    pub manifests: ManifestPolicy,
    /// Reboots into another Talos.
    #[serde(skip_serializing_if = "RebootPolicy::is_default")]
    pub reboot: RebootPolicy,
    /// Nodes of Kubernetes that are not Talos machines of this cluster, by name. They
    /// are neither waited for nor upgraded (rule 10).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub foreign_nodes: BTreeSet<NodeName>,
}

/// A policy that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// A time span that is not longer than nothing.
    #[error("policy: {field} is {value:#}; it must be longer than zero")]
    NotPositive {
        /// Which one.
        field: &'static str,
        /// What was written.
        value: SignedDuration,
    },
    /// No attempts at all.
    #[error("policy: retries.attempts is 0; write at least 1")]
    NoAttempts,
    /// No node can have such a label.
    #[error(
        "policy: workers.pool_label is `{0}`; write the key of a node label, such as \
             example.com/pool"
    )]
    NotALabel(String),
    /// No snapshot would be kept.
    #[error("policy: snapshot.keep is 0; at least the newest snapshot is kept")]
    KeepsNothing,
    /// A window or freeze.
    #[error("policy: {0}")]
    Window(WindowError),
}

impl Policy {
    /// Everything that is wrong with it.
    pub fn problems(&self) -> Vec<PolicyError> {
        let Self { workers, drain, soak, snapshot, windows, freezes, retries, timeouts, .. } = self;
        let Timeouts { pull, install, call, reboot, verify, component, manifests, gate, .. } =
            timeouts;
        let mut problems = Vec::new();
        for (field, value) in [
            ("drain.timeout", drain.timeout),
            ("timeouts.pull", *pull),
            ("timeouts.install", *install),
            ("timeouts.call", *call),
            ("timeouts.reboot", *reboot),
            ("timeouts.verify", *verify),
            ("timeouts.snapshot", timeouts.snapshot),
            ("timeouts.component", *component),
            ("timeouts.manifests", *manifests),
            ("timeouts.gate", *gate),
            ("retries.backoff", retries.backoff),
        ] {
            if value <= SignedDuration::ZERO {
                problems.push(PolicyError::NotPositive { field, value });
            }
        }
        if soak.is_negative() {
            problems.push(PolicyError::NotPositive { field: "soak", value: *soak });
        }
        if !is_label_key(&workers.pool_label) {
            problems.push(PolicyError::NotALabel(workers.pool_label.clone()));
        }
        if retries.attempts == 0 {
            problems.push(PolicyError::NoAttempts);
        }
        if snapshot.keep == 0 {
            problems.push(PolicyError::KeepsNothing);
        }
        let windows = windows.iter().map(Window::validate);
        let freezes = freezes.iter().map(Freeze::validate);
        problems.extend(windows.chain(freezes).filter_map(Result::err).map(PolicyError::Window));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_section_is_read() {
        let policy: Policy = serde_json::from_str(
            r#"{"order": "workers-first", "workers": {"max_unavailable": 2, "pools": {"gpu": "50%"}},
                "drain": {"timeout": "10m", "on_timeout": "proceed", "bare_pods": "leave"}, "soak": "30s",
                "snapshot": {"dir": "./backups", "keep": 5}}"#,
        )
        .unwrap();
        assert_eq!(policy.order, Order::WorkersFirst);
        assert_eq!(policy.workers.pools["gpu"], Amount::Percent(50));
        assert_eq!(policy.soak, SignedDuration::from_secs(30));
        assert_eq!(policy.drain.on_timeout, OnDrainTimeout::Proceed);
        assert_eq!(policy.drain.bare_pods, AtStake::Leave);
        assert!(policy.problems().is_empty());
    }

    #[test]
    fn defaults_are_sound_and_cautious() {
        let policy = Policy::default();
        assert!(policy.problems().is_empty());
        assert_eq!(policy.workers.max_unavailable, Amount::Count(1));
        assert_eq!(policy.drain.on_timeout, OnDrainTimeout::Halt);
        assert_eq!(policy.drain.bare_pods, AtStake::Halt);
        assert!(!policy.accept_outage);
    }

    #[test]
    fn every_problem_is_named() {
        let policy: Policy = serde_json::from_str(
            r#"{"drain": {"timeout": "0s"}, "retries": {"attempts": 0}, "snapshot": {"keep": 0},
                "windows": [{"start": "22:00", "duration": "1h", "timezone": "Nowhere"}]}"#,
        )
        .unwrap();
        let text: Vec<_> = policy.problems().iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 4, "{text:?}");
        assert!(text[0].contains("drain.timeout is 0s"), "{text:?}");
        assert!(text[3].contains("Nowhere"), "{text:?}");
    }

    #[test]
    fn pruning_is_cautious_and_leaves_older_plans_their_hash() {
        // Rule 10.
        let policy = Policy::default();
        assert_eq!(policy.manifests.prune, Prune::Safe);
        assert!(!serde_json::to_string(&policy).unwrap().contains("manifests\":{"));
        let read: Policy = serde_json::from_str(r#"{"manifests": {"prune": "all"}}"#).unwrap();
        assert_eq!(read.manifests.prune, Prune::All);
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&again).unwrap(), read);
    }

    #[test]
    fn reboots_are_by_kexec_by_default() {
        let policy = Policy::default();
        assert_eq!(policy.reboot.mode, RebootChoice::Default);
        assert!(!serde_json::to_string(&policy).unwrap().contains("reboot\":{"));
        let text = r#"{"reboot": {"mode": "powercycle-first"}}"#;
        let read: Policy = serde_json::from_str(text).unwrap();
        assert_eq!(read.reboot.mode, RebootChoice::PowercycleFirst);
        let error = serde_json::from_str::<Policy>(r#"{"reboot": {"mode": "warm"}}"#).unwrap_err();
        assert!(error.to_string().contains("powercycle-first"), "{error}");
    }

    #[test]
    fn the_label_of_pools_is_the_users_and_leaves_older_plans_their_hash() {
        let policy = Policy::default();
        assert_eq!(policy.workers.pool_label, POOL_LABEL);
        assert!(!serde_json::to_string(&policy).unwrap().contains("pool_label"));
        let text = r#"{"workers": {"pool_label": "example.com/pool"}}"#;
        let read: Policy = serde_json::from_str(text).unwrap();
        assert!(read.problems().is_empty());
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&again).unwrap(), read);
        for wrong in ["", "a/b/c", "-pool", "pool of mine", "/pool"] {
            let workers = Workers { pool_label: wrong.to_owned(), ..Workers::default() };
            let problems = Policy { workers, ..Policy::default() }.problems();
            assert_eq!(problems, [PolicyError::NotALabel(wrong.to_owned())], "{wrong}");
        }
    }

    #[test]
    fn foreign_nodes_are_listed_and_leave_older_plans_their_hash() {
        // Rule 10: no node is foreign unless the user says so.
        assert!(!serde_json::to_string(&Policy::default()).unwrap().contains("foreign"));
        let read: Policy = serde_json::from_str(r#"{"foreign_nodes": ["edge-1"]}"#).unwrap();
        assert!(read.foreign_nodes.contains(&"edge-1".into()));
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&again).unwrap(), read);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let error = serde_json::from_str::<Policy>(r#"{"max_unavailable": 2}"#).unwrap_err();
        assert!(error.to_string().contains("max_unavailable"), "{error}");
    }
}
