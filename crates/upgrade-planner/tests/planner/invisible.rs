//! Nodes of Kubernetes that no known machine stands for (rules 10 and 13).

use upgrade_core::advice::{Advice, Permission};
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Entry, Outcome, Proof, Record, State};
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::reason::WaitReason;
use upgrade_core::snapshot::{Fact, NodeName, Snapshot, Unmatched};
use upgrade_core::step::Action;
use upgrade_planner::decide::{Decision, Tried, decide};
use upgrade_planner::health::{Verdict, health};
use upgrade_planner::report::{Refusal, Warning};

use crate::common::{cluster, intent, plan_for};

/// One control plane, whose discovery shows no other machine; nothing is wrong with etcd.
fn air_gap() -> Snapshot {
    let mut snapshot = cluster(1, 0, "1.13.1", "1.33.4");
    snapshot.unmatched.insert("worker-1".into(), Unmatched::because("it is not found at 10.0.1.1"));
    snapshot
}

fn policy(foreign: &[&str]) -> Policy {
    let foreign_nodes = foreign.iter().map(|name| (*name).into()).collect();
    Policy { accept_outage: true, foreign_nodes, ..Policy::default() }
}

#[test]
fn a_node_without_a_machine_is_refused() {
    // Rule 13: kubelets that are not observed would fall behind.
    for intent in [intent(Some("1.13.9"), None), intent(None, Some("1.35.1"))] {
        let refused = plan_for(&air_gap(), &intent, &policy(&[])).unwrap_err();
        let [refusal @ Refusal::NoMachine { node, why }] = refused.refusals.as_slice() else {
            panic!("{refused:?}");
        };
        assert_eq!((node.0.as_str(), why.as_str()), ("worker-1", "it is not found at 10.0.1.1"));
        let Advice::AnyOf(ways) = refusal.advice() else { panic!("{refusal:?}") };
        let foreign = Permission::ForeignNode("worker-1".into());
        assert!(ways.contains(&Advice::Allow(foreign)), "{ways:?}");
    }
}

#[test]
fn a_foreign_node_is_left_out_and_named() {
    let planned =
        plan_for(&air_gap(), &intent(Some("1.13.9"), None), &policy(&["worker-1"])).unwrap();
    let foreign = Warning::Foreign { nodes: vec!["worker-1".into()] };
    assert!(planned.report.warnings.contains(&foreign), "{:?}", planned.report);
    // One that has a machine all the same is upgraded like any other.
    let snapshot = cluster(1, 1, "1.13.1", "1.33.4");
    let policy = policy(&["worker-1"]);
    let planned = plan_for(&snapshot, &intent(Some("1.13.9"), None), &policy).unwrap();
    assert!(planned.plan.steps().any(|step| step.node == Some("worker-1".into())));
}

#[test]
fn health_names_it() {
    let checks = health(&air_gap(), &Fact::Unasked);
    let mut bad = checks.iter().filter(|check| check.verdict == Verdict::Bad);
    assert!(bad.any(|check| check.node == Some("worker-1".into())));
}

#[test]
fn a_kubernetes_api_that_is_away_is_one_reason() {
    // Rule 10, and the machines are not accused of it.
    let mut snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    for node in snapshot.nodes.values_mut() {
        node.kubernetes = Fact::Unknown("it refuses connections".to_owned());
    }
    let refused = plan_for(&snapshot, &intent(Some("1.13.9"), None), &policy(&[])).unwrap_err();
    let away = Refusal::KubernetesAway { why: "it refuses connections".to_owned() };
    assert!(refused.refusals.contains(&away), "{refused:?}");
    let unknown = |refusal: &Refusal| matches!(refusal, Refusal::NodeUnknown { .. });
    assert!(!refused.refusals.iter().any(unknown), "{refused:?}");
}

/// The run whose first node has booted, and that node.
fn booted(plan: &Plan, snapshot: &Snapshot) -> (State, NodeName) {
    let mut state = State::new(plan);
    let mut write = |record: Record| {
        let (at, runner) = (snapshot.taken_at, "test".to_owned());
        state.apply(&Entry { at, plan: plan.hash(), runner, record }).unwrap();
    };
    write(Record::Began);
    let mut node = None;
    for step in plan.steps() {
        if step.action == Action::Verify {
            node = step.node;
            break;
        }
        let proof = (step.action == Action::SnapshotEtcd).then(|| Proof::EtcdSnapshot {
            location: "etcd.snapshot".to_owned(),
            sha256: "00".to_owned(),
            bytes: 1,
        });
        write(Record::Started { step: step.clone(), attempt: 1, evidence: None });
        let outcome = Outcome::Done { proof };
        write(Record::Finished { step, attempt: 1, outcome });
    }
    (state, node.unwrap())
}

#[test]
fn a_node_that_has_booted_is_verified_once_its_machine_is_known() {
    // Rule 10: where discovery does not show it, it is found when it is back.
    let mut snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    let plan = plan_for(&snapshot, &intent(Some("1.13.9"), None), &policy(&[])).unwrap().plan;
    let (state, node) = booted(&plan, &snapshot);
    snapshot.taken_at = snapshot.taken_at.saturating_add(SignedDuration::from_secs(5)).unwrap();
    let decided = decide(&plan, &state, &Tried::default(), &snapshot, snapshot.taken_at);
    let Decision::Run(starts) = &decided else { panic!("{decided:?}") };
    assert!(starts.iter().any(|start| start.step.action == Action::Verify), "{starts:?}");
    snapshot.nodes.remove(&node);
    snapshot.unmatched.insert(node.clone(), Unmatched::because("no answer"));
    match decide(&plan, &state, &Tried::default(), &snapshot, snapshot.taken_at) {
        Decision::Wait { reason: WaitReason::NodeUnknown { node: unknown, .. }, .. } => {
            assert_eq!(unknown, node);
        }
        decided => panic!("{decided:?}"),
    }
}
