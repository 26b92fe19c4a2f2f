//! A small plan and its journals.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, Evidence, Outcome, Proof, Record};
use upgrade_core::plan::{Plan, Versions};
use upgrade_core::policy::Policy;
use upgrade_core::reason::{Failure, FailureKind, HaltReason};
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Version;

pub(crate) const FAILURE: &str = "it came back on 1.12.11 instead of 1.13.9";

pub(crate) fn time(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-11-15T20:00:00Z".parse().expect("a time");
    start + SignedDuration::from_secs(seconds)
}

/// Two control planes and a worker, one hop of Talos.
pub(crate) fn plan() -> Plan {
    let target = json!({"kind": "talos", "from": "1.12.11", "api": "lifecycle",
        "installer": "factory.talos.dev/metal-installer/ab:v1.13.9",
        "schematic": null, "extensions": [], "previous": null});
    let lane = |node: &str| {
        json!({"node": node, "target": target, "steps":
            ["install", "cordon", "drain", "reboot", "verify", "uncordon"]})
    };
    let pull = |node: &str| json!({"node": node, "target": {"kind": "pulled", "images": []}, "steps": ["pull"]});
    let snapshot = json!({"node": null, "target": {"kind": "cluster"}, "steps": ["snapshot-etcd"]});
    let wave = |number: u32, group: &str, lanes: Vec<Value>| json!({"number": number, "group": group, "lanes": lanes});
    let versions = |talos| Versions { talos: Some(talos), kubernetes: None };
    let hop = json!({"number": 1,
    "change": {"product": "talos", "from": "1.12.11", "to": "1.13.9"},
    "versions": versions(Version::new(1, 13, 9)), "limit": 1,
    "waves": [
        wave(1, "prepare", vec![snapshot, pull("worker-1"), pull("cp-1"), pull("cp-2")]),
        wave(2, "control-plane", vec![lane("cp-2")]),
        wave(3, "control-plane", vec![lane("cp-1")]),
        wave(4, "workers", vec![lane("worker-1")]),
    ]});
    Plan {
        format: upgrade_core::plan::PLAN_FORMAT,
        cluster: "prod".to_owned(),
        parent: None,
        rollback: false,
        from: versions(Version::new(1, 12, 11)),
        to: versions(Version::new(1, 13, 9)),
        policy: Policy::default(),
        prune: Vec::new(),
        nodes: std::collections::BTreeMap::new(),
        hops: vec![serde_json::from_value(hop).expect("a hop")],
    }
}

pub(crate) fn entry(plan: &Plan, seconds: i64, record: Record) -> Entry {
    Entry { at: time(seconds), plan: plan.hash(), runner: "anna@desk/41".to_owned(), record }
}

fn started(plan: &Plan, seconds: i64, step: &StepId) -> Entry {
    let evidence = (step.action == Action::Cordon).then_some(Evidence::WasCordoned(false));
    entry(plan, seconds, Record::Started { step: step.clone(), attempt: 1, evidence })
}

fn finished(plan: &Plan, seconds: i64, step: &StepId, outcome: Outcome) -> Entry {
    entry(plan, seconds, Record::Finished { step: step.clone(), attempt: 1, outcome })
}

/// Every step before this one, ten seconds each.
pub(crate) fn until(plan: &Plan, end: &str) -> Vec<Entry> {
    let mut entries = vec![entry(plan, 0, Record::Began)];
    let steps = plan.steps().take_while(|step| step.to_string() != end);
    for (step, second) in steps.zip((0..).step_by(10)) {
        let proof = (step.action == Action::SnapshotEtcd).then(|| Proof::EtcdSnapshot {
            location: "backups/etcd-1.snapshot".to_owned(),
            sha256: "ab".repeat(32),
            bytes: 4096,
        });
        entries.push(started(plan, second, &step));
        entries.push(finished(plan, second + 9, &step, Outcome::Done { proof }));
    }
    entries
}

fn next_second(entries: &[Entry]) -> i64 {
    entries.last().expect("it began").at.duration_since(time(0)).as_secs() + 1
}

/// A run to its end.
pub(crate) fn whole(plan: &Plan) -> Vec<Entry> {
    let mut entries = until(plan, "");
    entries.push(entry(plan, next_second(&entries), Record::Completed));
    entries
}

/// A run whose process was killed in this step; another one took it over.
pub(crate) fn killed(plan: &Plan, step: &str) -> Vec<Entry> {
    let mut entries = until(plan, step);
    entries.push(started(plan, next_second(&entries), &step.parse().expect("a step")));
    entries.push(entry(plan, next_second(&entries) + 100, Record::Began));
    entries
}

/// A run that halted in this step because the node booted its old version.
pub(crate) fn halted(plan: &Plan, step: &str) -> Vec<Entry> {
    let mut entries = until(plan, step);
    let step: StepId = step.parse().expect("a step");
    let second = next_second(&entries);
    let failure = Failure::new(FailureKind::NeverReturned, FAILURE);
    entries.push(started(plan, second, &step));
    let outcome = Outcome::Failed { failure: failure.clone() };
    entries.push(finished(plan, second + 80, &step, outcome));
    let why = HaltReason::StepFailed { step, attempt: 1, failure };
    entries.push(entry(plan, second + 80, Record::Halted { why }));
    entries
}
