//! Counts what the simulation reached. Something that was never reached was never tested, so the
//! simulation fails.

use std::collections::{BTreeMap, BTreeSet};

use talos_sim::model::Discovery;
use talos_sim::schedule::FAULTS;
use upgrade_core::event::EventKind;
use upgrade_core::intent::Intent;
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::reason::{FailureKind, HaltReason, WaitReason};
use upgrade_core::step::Action;

use crate::crash::Point;
use crate::network::MessageFate;
use crate::scenario::{Foreign, Kit, Named, Platform, Scenario, TroubleKind, Want};
use crate::trace::{TraceEvent, TraceKind};

/// The kind of a counted item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// A completed step.
    Step,
    /// A step that failed.
    StepFailed,
    /// A skipped step.
    StepSkipped,
    /// A journal entry.
    Entry,
    /// A reason to wait.
    Wait,
    /// A reason to halt.
    Halt,
    /// The kind of failure that caused a halt.
    Failure,
    /// A fault of the simulator.
    Fault,
    /// A trouble of the scenario.
    Trouble,
    /// The fate of a message.
    Message,
    /// The point at which a process was killed.
    Crash,
    /// The end of a run.
    End,
    /// A set of workloads.
    Kit,
    /// A property of the machines.
    Machine,
    /// How nodes discover each other.
    Discovery,
    /// A target of single nodes.
    Node,
}

impl Sort {
    /// All of them, with the titles in the output.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Step, "steps done"),
        (Self::StepSkipped, "steps skipped"),
        (Self::StepFailed, "steps failed"),
        (Self::Entry, "journal entries"),
        (Self::Wait, "reasons to wait"),
        (Self::Halt, "reasons to halt"),
        (Self::Failure, "failures that halted"),
        (Self::Fault, "faults"),
        (Self::Trouble, "troubles"),
        (Self::Message, "messages"),
        (Self::Crash, "kills"),
        (Self::End, "ends"),
        (Self::Kit, "workloads"),
        (Self::Machine, "machines"),
        (Self::Discovery, "discovery"),
        (Self::Node, "targets of nodes"),
    ];
}

/// Machines whose firmware boots only signed images.
const SECURE_BOOT: &str = "secure boot";

/// Machines whose extension has another name in a target release.
const RENAMED: &str = "renamed extension";

/// The counts.
#[derive(Clone, Debug, Default)]
pub struct Met(BTreeMap<(Sort, &'static str), u64>);

/// Items that these worlds cannot reach, with the reason.
const NEVER: &[(Sort, &str, &str)] = &[
    (Sort::Step, "external-upgrade", "nothing outside these worlds owns their machines"),
    (Sort::Halt, "other-plan", "processes read the plan and its journal together"),
    (Sort::Halt, "overdue", "a step of a process that lives ends by itself, at its deadline"),
    (Sort::Wait, "paused", "a pause with nothing in flight is an end, not a wait"),
    (Sort::Wait, "cordon-left", "a new plan waits until all nodes serve again"),
    (Sort::Halt, "no-snapshot", "our plans always have the snapshot step"),
];

impl Met {
    /// Counts one item.
    pub fn count(&mut self, sort: Sort, name: &'static str) {
        *self.0.entry((sort, name)).or_default() += 1;
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    /// The count of an item.
    pub fn of(&self, sort: Sort, name: &'static str) -> u64 {
        self.0.get(&(sort, name)).copied().unwrap_or(0)
    }

    /// Counts the fate of a message.
    pub(crate) fn passage(&mut self, fate: MessageFate) {
        self.count(Sort::Message, fate.name());
    }

    /// Counts the properties of a scenario.
    pub(crate) fn scenario(&mut self, scenario: &Scenario) {
        let kit = match scenario.kit {
            Kit::Bare => "bare",
            Kit::Web => "web",
            Kit::Guarded => "guarded",
            Kit::Loose => "loose",
            Kit::Stateful => "stateful",
        };
        self.count(Sort::Kit, kit);
        self.count(Sort::Machine, scenario.machines.platform.name());
        self.count(Sort::Machine, scenario.machines.named.name());
        if scenario.machines.secure_boot {
            self.count(Sort::Machine, SECURE_BOOT);
        }
        if scenario.renames() {
            self.count(Sort::Machine, RENAMED);
        }
        self.count(Sort::Machine, scenario.foreign.name());
        self.count(Sort::Discovery, discovery(scenario.discovery));
        for want in &scenario.wants {
            if let Want::Versions(intent) = want {
                for name in node_intents(intent) {
                    self.count(Sort::Node, name);
                }
            }
        }
        if scenario.wants.iter().any(|want| matches!(want, Want::Back(_))) {
            self.count(Sort::Kit, "a rollback");
        }
    }

    /// Counts an event.
    pub(crate) fn see(&mut self, seen: &TraceEvent) {
        match &seen.what {
            TraceKind::Wrote { entry, .. } => self.entry(&entry.record),
            TraceKind::Reported { event, .. } => {
                if let EventKind::Waiting { why, .. } = &event.kind {
                    self.count(Sort::Wait, wait(why));
                }
            }
            _ => {}
        }
    }

    fn entry(&mut self, record: &Record) {
        let name = match record {
            Record::Began => "began",
            Record::Inherited { .. } => "inherited",
            Record::Lifted { .. } => "lifted",
            Record::Started { .. } => "started",
            Record::Finished { step, outcome, .. } => {
                let sort = match outcome {
                    Outcome::Done { .. } => Sort::Step,
                    Outcome::Skipped { .. } => Sort::StepSkipped,
                    Outcome::Failed { .. } => Sort::StepFailed,
                };
                self.count(sort, step.action.name());
                "finished"
            }
            Record::Waiting { .. } => "waiting",
            Record::Paused { .. } => "paused",
            Record::Resumed { .. } => "resumed",
            Record::Halted { why } => {
                self.count(Sort::Halt, halt(why));
                if let HaltReason::StepFailed { failure, .. } = why {
                    self.count(Sort::Failure, failure_name(failure.kind));
                }
                "halted"
            }
            Record::Completed => "completed",
        };
        self.count(Sort::Entry, name);
    }

    /// All items that have to be reached.
    pub fn wanted() -> Vec<(Sort, &'static str)> {
        let mut wanted: Vec<(Sort, &'static str)> = Vec::new();
        wanted.extend(Action::ALL.map(|action| (Sort::Step, action.name())));
        let entries = [
            "began",
            "inherited",
            "lifted",
            "started",
            "finished",
            "waiting",
            "paused",
            "resumed",
            "halted",
            "completed",
        ];
        wanted.extend(entries.map(|name| (Sort::Entry, name)));
        wanted.extend(HALTS.map(|name| (Sort::Halt, name)));
        wanted.extend(WAITS.map(|name| (Sort::Wait, name)));
        wanted.extend(FAILURES.map(|kind| (Sort::Failure, failure_name(kind))));
        wanted.extend(FAULTS.iter().map(|(_, name, _)| (Sort::Fault, *name)));
        wanted.extend(TroubleKind::NAMES.map(|name| (Sort::Trouble, name)));
        wanted.extend(MessageFate::ALL.map(|fate| (Sort::Message, fate.name())));
        wanted.extend(Point::ALL.map(|point| (Sort::Crash, point.name())));
        wanted.extend(
            ["done", "halted", "paused", "stopped", "refused", "given up"]
                .map(|name| (Sort::End, name)),
        );
        wanted
            .extend(["bare", "web", "guarded", "loose", "stateful"].map(|name| (Sort::Kit, name)));
        let platforms = [Platform::Metal, Platform::Nocloud, Platform::Hcloud, Platform::Container];
        wanted.extend(platforms.map(|platform| (Sort::Machine, platform.name())));
        let named = [Named::Fitting, Named::Plain, Named::Metal, Named::Own];
        wanted.extend(named.map(|named| (Sort::Machine, named.name())));
        wanted.extend([SECURE_BOOT, RENAMED].map(|name| (Sort::Machine, name)));
        let foreign = [Foreign::None, Foreign::Listed, Foreign::Unlisted];
        wanted.extend(foreign.map(|foreign| (Sort::Machine, foreign.name())));
        wanted.extend(
            ["service", "air gap", "kubernetes", "off"].map(|name| (Sort::Discovery, name)),
        );
        wanted.extend(NODE_INTENTS.map(|name| (Sort::Node, name)));
        wanted.retain(|(sort, name)| !NEVER.iter().any(|(s, n, _)| s == sort && n == name));
        wanted
    }

    /// The items that were never reached.
    pub fn missing(&self) -> Vec<(Sort, &'static str)> {
        let mut wanted = Self::wanted();
        wanted.retain(|(sort, name)| self.of(*sort, name) == 0);
        wanted
    }

    /// All items of a sort with their counts.
    pub fn by_sort(&self, sort: Sort) -> Vec<(&'static str, u64)> {
        let mut met: Vec<(&'static str, u64)> = self
            .0
            .iter()
            .filter(|((of, _), _)| *of == sort)
            .map(|((_, name), count)| (*name, *count))
            .collect();
        let missing = self.missing().into_iter().filter(|(of, _)| *of == sort);
        met.extend(missing.map(|(_, name)| (name, 0)));
        met
    }
}

const NODE_INTENTS: [&str; 5] =
    ["held control plane", "held worker", "one alone", "version", "installer"];

/// The targets of single nodes.
fn node_intents(intent: &Intent) -> BTreeSet<&'static str> {
    let held = || intent.nodes.iter().filter(|(_, own)| own.hold);
    let mut node_intents: BTreeSet<&'static str> = held()
        .map(|(name, _)| if name.0.starts_with("cp-") { NODE_INTENTS[0] } else { NODE_INTENTS[1] })
        .collect();
    let own = || intent.nodes.values();
    let met = [held().count() > 1, own().any(|own| own.talos.is_some())];
    let met = met.into_iter().chain([own().any(|own| own.installer.is_some())]);
    node_intents
        .extend(NODE_INTENTS[2..].iter().zip(met).filter(|(_, met)| *met).map(|(name, _)| *name));
    node_intents
}

const fn discovery(how: Discovery) -> &'static str {
    match how {
        Discovery::Service => "service",
        Discovery::AirGap => "air gap",
        Discovery::Kubernetes => "kubernetes",
        Discovery::Off => "off",
    }
}

const HALTS: [&str; 6] =
    ["step-failed", "overdue", "waited-too-long", "drift", "no-snapshot", "other-plan"];

fn halt(reason: &HaltReason) -> &'static str {
    match reason {
        HaltReason::StepFailed { .. } => "step-failed",
        HaltReason::Overdue { .. } => "overdue",
        HaltReason::WaitedTooLong { .. } => "waited-too-long",
        HaltReason::Drift { .. } => "drift",
        HaltReason::NoSnapshot { .. } => "no-snapshot",
        HaltReason::OtherPlan { .. } => "other-plan",
    }
}

const WAITS: [&str; 8] = [
    "etcd-unsafe",
    "control-plane-down",
    "node-unknown",
    "cordon-left",
    "no-room",
    "window",
    "paused",
    "backoff",
];

fn wait(reason: &WaitReason) -> &'static str {
    match reason {
        WaitReason::Running { .. } => "running",
        WaitReason::StaleObservation { .. } => "stale-observation",
        WaitReason::EtcdUnsafe { .. } => "etcd-unsafe",
        WaitReason::ControlPlaneDown { .. } => "control-plane-down",
        WaitReason::NodeUnknown { .. } => "node-unknown",
        WaitReason::CordonLeft { .. } => "cordon-left",
        WaitReason::NoRoom { .. } => "no-room",
        WaitReason::Window { .. } => "window",
        WaitReason::Paused { .. } => "paused",
        WaitReason::Backoff { .. } => "backoff",
    }
}

const FAILURES: [FailureKind; 10] = [
    FailureKind::Unavailable,
    FailureKind::Pull,
    FailureKind::Installer,
    FailureKind::Drain,
    FailureKind::NeverReturned,
    FailureKind::BootBack,
    FailureKind::Lost,
    FailureKind::Mismatch,
    FailureKind::Deadline,
    FailureKind::Refused,
];

const fn failure_name(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unavailable => "unavailable",
        FailureKind::Pull => "pull",
        FailureKind::Installer => "installer",
        FailureKind::Drain => "drain",
        FailureKind::NeverReturned => "never-returned",
        FailureKind::BootBack => "boot-back",
        FailureKind::Lost => "lost",
        FailureKind::Mismatch => "mismatch",
        FailureKind::Deadline => "deadline",
        FailureKind::Refused => "refused",
    }
}
