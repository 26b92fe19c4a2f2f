//! A small plan and its journals, for the tests of what is drawn from them.

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Outcome, Proof, Record};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::reason::{Failure, FailureKind, HaltReason};
use upgrade_core::snapshot::Fact;
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Version;
use upgrade_planner::Request;

use crate::offline::Cluster;

/// Seconds after the beginning of everything.
pub(crate) fn time(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-11-15T20:00:00Z".parse().expect("a time");
    start + SignedDuration::from_secs(seconds)
}

/// Three control planes and a worker, one hop of each product.
pub(crate) fn plan() -> Plan {
    let cluster = Cluster {
        control_planes: 3,
        workers: 1,
        talos: Some(Version::new(1, 12, 11)),
        kubernetes: Some(Version::new(1, 35, 2)),
        installer: None,
    };
    let planned = upgrade_planner::plan(&Request {
        snapshot: &cluster.snapshot(),
        intent: &Intent {
            talos: Some(Version::new(1, 13, 9)),
            kubernetes: Some(Version::new(1, 36, 3)),
            prefer: Preference::TalosFirst,
            ..Intent::default()
        },
        policy: &Policy::default(),
        matrix: &Matrix::builtin(),
        catalogue: &Catalogue::builtin(),
        workloads: &Fact::Unasked,
        manifests: &Fact::Unasked,
        external_upgrader: false,
    });
    planned.expect("a plan").plan
}

fn entry(plan: &Plan, seconds: i64, record: Record) -> Entry {
    Entry { at: time(seconds), plan: plan.hash(), runner: "anna@desk/41".to_owned(), record }
}

fn started(plan: &Plan, seconds: i64, step: &StepId) -> Entry {
    entry(plan, seconds, Record::Started { step: step.clone(), attempt: 1, evidence: None })
}

fn finished(plan: &Plan, seconds: i64, step: &StepId, outcome: Outcome) -> Entry {
    entry(plan, seconds, Record::Finished { step: step.clone(), attempt: 1, outcome })
}

fn well(step: &StepId) -> Outcome {
    let proof = (step.action == Action::SnapshotEtcd).then(|| Proof::EtcdSnapshot {
        location: "backups/etcd-1.snapshot".to_owned(),
        sha256: "ab".repeat(32),
        bytes: 4096,
    });
    Outcome::Done { proof }
}

/// Step after step, ten seconds each.
fn steps(plan: &Plan, count: usize) -> Vec<Entry> {
    let mut entries = vec![entry(plan, 0, Record::Began)];
    for (step, second) in plan.steps().zip((0..).step_by(10)).take(count) {
        entries.push(started(plan, second, &step));
        entries.push(finished(plan, second + 9, &step, well(&step)));
    }
    entries
}

fn next_second(entries: &[Entry]) -> i64 {
    let last = entries.last().expect("it began").at;
    last.duration_since(time(0)).as_secs() + 1
}

/// A run to its end.
pub(crate) fn whole(plan: &Plan) -> Vec<Entry> {
    let mut entries = steps(plan, usize::MAX);
    entries.push(entry(plan, next_second(&entries), Record::Completed));
    entries
}

/// A run whose process was killed in its seventh step, and taken over.
pub(crate) fn killed(plan: &Plan) -> Vec<Entry> {
    let mut entries = steps(plan, 6);
    let step = plan.steps().nth(6).expect("a seventh step");
    entries.push(started(plan, next_second(&entries), &step));
    entries.push(entry(plan, next_second(&entries) + 100, Record::Began));
    entries
}

/// A run that halted because a node booted back.
pub(crate) fn halted(plan: &Plan) -> Vec<Entry> {
    let failing = |step: &StepId| matches!(step.action, Action::Reboot | Action::Upgrade);
    let position = plan.steps().position(|step| failing(&step)).expect("a reboot");
    let step = plan.steps().nth(position).expect("a reboot");
    let mut entries = steps(plan, position);
    let second = next_second(&entries);
    let failure = Failure::new(FailureKind::BootBack, "it came back on 1.12.11 instead of 1.13.9");
    entries.push(started(plan, second, &step));
    let outcome = Outcome::Failed { failure: failure.clone() };
    entries.push(finished(plan, second + 80, &step, outcome));
    let why = HaltReason::StepFailed { step, attempt: 1, failure };
    entries.push(entry(plan, second + 80, Record::Halted { why }));
    entries
}
