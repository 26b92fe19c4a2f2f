//! Mutants change what is planned and decided. One test in a process of its own,
//! since one mutant lives at a time in a process, and others would notice.

#[path = "planner/common/clusters.rs"]
mod clusters;
#[path = "planner/common/planning.rs"]
mod planning;

use clusters::{cluster, intent, known, version};
use planning::{plan_for, sketch};
use upgrade_core::intent::{Intent, NodeIntent};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::State;
use upgrade_core::matrix::Matrix;
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot, Unmatched};
use upgrade_core::step::Action;
use upgrade_core::window::Freeze;
use upgrade_planner::check::check;
use upgrade_planner::decide::{Decision, Tried, decide};
use upgrade_planner::installer::choose;
use upgrade_planner::report::Report;
use upgrade_planner::rollback::{RollbackRequest, Way, rollback};

/// What the same question is answered without the mutant and with it.
fn both<T>(breakage: Mutant, ask: impl Fn() -> T) -> (T, T) {
    let calm = ask();
    mutant::set(Some(breakage));
    let broken = ask();
    mutant::set(None);
    (calm, broken)
}

fn first(plan: &Plan, snapshot: &Snapshot) -> Decision {
    decide(plan, &State::new(plan), &Tried::default(), snapshot, snapshot.taken_at)
}

fn runs(decision: &Decision) -> bool {
    matches!(decision, Decision::Run(_))
}

#[test]
fn plans_and_decisions_differ() {
    quorum();
    installers();
    windows();
    holds();
    ways_back();
    versions();
    invisible();
    containers();
    let (calm, broken) =
        both(Mutant::DeadlineRemoved, || Action::Reboot.timeout(&Policy::default()));
    assert!(calm < SignedDuration::from_hours(24) && broken > SignedDuration::from_hours(24));
}

/// Rule 13: nothing can be installed there. Rule 4: an extension under its new name.
fn containers() {
    let mut snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    known(&mut snapshot.nodes.get_mut(&"worker-1".into()).unwrap().talos).container = true;
    let ask = || plan_for(&snapshot, &intent(Some("1.13.9"), None), &Policy::default()).is_ok();
    assert_eq!(both(Mutant::ContainerTaken, ask), (false, true));
    let ask = || upgrade_core::extension::is_same("i915-ucode", "i915");
    assert_eq!(both(Mutant::RenamedMissed, ask), (true, false));
}

/// Rule 10.
fn invisible() {
    let mut snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    snapshot.unmatched.insert("worker-2".into(), Unmatched::because("no answer"));
    let ask = || plan_for(&snapshot, &intent(Some("1.13.9"), None), &Policy::default()).is_ok();
    assert_eq!(both(Mutant::InvisibleNodes, ask), (false, true));
}

/// Rule 1.
fn quorum() {
    let mut snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    known(&mut snapshot.etcd).alarms.push("NOSPACE".to_owned());
    let ask = || plan_for(&snapshot, &intent(Some("1.13.9"), None), &Policy::default()).is_ok();
    assert_eq!(both(Mutant::QuorumGate, ask), (false, true));
}

/// Rule 4: what runs, whatever the machine config names.
fn installers() {
    let mut snapshot = cluster(1, 0, "1.13.1", "1.33.4");
    let facts = known(&mut snapshot.nodes.get_mut(&"cp-1".into()).unwrap().talos);
    (facts.platform, facts.secure_boot) = ("nocloud".to_owned(), true);
    let (facts, to) = (facts.clone(), version("1.13.9"));
    let ask = || {
        let mut report = Report::default();
        let choice = choose(&"cp-1".into(), &facts, &to, &Intent::default(), &mut report);
        choice.unwrap().image.repository.split('/').next().unwrap_or_default().to_owned()
    };
    let calm = "nocloud-installer-secureboot".to_owned();
    for (breakage, broken) in [
        (Mutant::PlatformDropped, "metal-installer-secureboot"),
        (Mutant::SecureBootDropped, "nocloud-installer"),
    ] {
        assert_eq!(both(breakage, ask), (calm.clone(), broken.to_owned()));
    }
}

/// Rule 12: the user's windows.
fn windows() {
    let snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    let from = snapshot.taken_at;
    let freeze = Freeze { from, until: Timestamp::MAX, reason: "holidays".to_owned() };
    let policy = Policy { freezes: vec![freeze], ..Policy::default() };
    let plan = plan_for(&snapshot, &intent(Some("1.13.9"), None), &policy).unwrap().plan;
    let ask = || runs(&first(&plan, &snapshot));
    assert_eq!(both(Mutant::WindowIgnored, ask), (false, true));
}

/// Rule 12: nodes that the user holds.
fn holds() {
    let snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    let held = NodeIntent { hold: true, ..NodeIntent::default() };
    let nodes = [("worker-1".into(), held)].into();
    let to = Intent { nodes, ..intent(Some("1.13.9"), None) };
    let ask = || {
        let planned = plan_for(&snapshot, &to, &Policy::default()).unwrap();
        assert_eq!(check(&planned.plan, &snapshot, &Matrix::builtin()), []);
        sketch(&planned).contains("worker-1")
    };
    assert_eq!(both(Mutant::HoldIgnored, ask), (false, true));
}

/// Rule 12: a rollback while Kubernetes does not answer.
fn ways_back() {
    let mut snapshot = cluster(3, 1, "1.13.9", "1.33.4");
    for node in snapshot.nodes.values_mut() {
        node.kubernetes = Fact::Unknown("no API server answers".to_owned());
    }
    let (node, policy, matrix) = ("worker-1".into(), Policy::default(), Matrix::builtin());
    let way = Way::Slot { version: version("1.13.1"), schematic: None };
    let request =
        RollbackRequest { snapshot: &snapshot, node: &node, way, policy: &policy, matrix: &matrix };
    let plan = rollback(&request).unwrap().plan;
    let ask = || runs(&first(&plan, &snapshot));
    assert_eq!(both(Mutant::RollbackGated, ask), (true, false));
}

/// Rule 13.
fn versions() {
    let snapshot = cluster(3, 1, "1.13.9", "1.33.4");
    let planned = || {
        let planned = plan_for(&snapshot, &intent(None, Some("1.35.4")), &Policy::default());
        let planned = planned.unwrap();
        assert_eq!(check(&planned.plan, &snapshot, &Matrix::builtin()), []);
        planned
    };
    assert_eq!(both(Mutant::MinorSkipped, || planned().plan.hops.len()), (2, 1));
    let ask = || {
        let sketch = sketch(&planned());
        sketch.find("set-kubelet") < sketch.find("set-kube-apiserver")
    };
    assert_eq!(both(Mutant::KubeletsFirst, ask), (false, true));
    let hops = |from: &str, to: &str| {
        let snapshot = cluster(3, 0, from, "1.30.4");
        plan_for(&snapshot, &intent(Some(to), None), &Policy::default())
            .map(|it| it.plan.hops.len())
    };
    assert_eq!(both(Mutant::PatchSkipped, || hops("1.11.1", "1.12.9").unwrap()), (2, 1));
    assert_eq!(both(Mutant::OldHostTaken, || hops("1.7.6", "1.8.4").is_ok()), (false, true));
    let snapshot = cluster(3, 0, "1.14.4", "1.34.2");
    let ask = || {
        let back = Intent { rollback: true, ..intent(Some("1.13.12"), None) };
        let planned = plan_for(&snapshot, &back, &Policy::default()).unwrap();
        assert_eq!(check(&planned.plan, &snapshot, &Matrix::builtin()), []);
        sketch(&planned).contains("downgrade-etcd")
    };
    assert_eq!(both(Mutant::DowngradeSkipped, ask), (true, false));
}
