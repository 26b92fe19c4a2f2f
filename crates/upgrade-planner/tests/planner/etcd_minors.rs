//! A rollback over a minor of etcd (rules 1, 12 and 13).

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::intent::Intent;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Entry, Outcome, Proof, Record, State};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Plan, Target};
use upgrade_core::policy::Policy;
use upgrade_core::reason::WaitReason;
use upgrade_core::snapshot::{Fact, NodeName, Snapshot};
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Minor;
use upgrade_planner::check::{Severity, check};
use upgrade_planner::decide::{Decision, Tried, decide};
use upgrade_planner::report::{Refusal, Report};
use upgrade_planner::rollback::{RollbackRequest, Way};
use upgrade_planner::{Planned, rollback};

use crate::common::{cluster, intent, known, plan_for, report_text, version};

const OLD: Minor = Minor::new(3, 6);
const NEW: Minor = Minor::new(3, 7);

/// `node` runs Talos 1.14 and etcd 3.7; the data follows when all do.
fn upgraded(snapshot: &mut Snapshot, node: &str) {
    let name: NodeName = node.into();
    known(&mut snapshot.nodes.get_mut(&name).unwrap().talos).version = version("1.14.4");
    let etcd = known(&mut snapshot.etcd);
    let member = etcd.members.iter_mut().find(|member| member.node == name).unwrap();
    known(&mut member.status).version = Some(NEW);
    let all = etcd.members.iter().all(|it| it.status.known().unwrap().version == Some(NEW));
    for member in etcd.members.iter_mut().filter(|_| all) {
        known(&mut member.status).storage = Some(NEW);
    }
}

fn half(nodes: &[&str]) -> Snapshot {
    let mut snapshot = cluster(3, 1, "1.13.12", "1.34.2");
    for node in nodes {
        upgraded(&mut snapshot, node);
    }
    snapshot
}

fn one(snapshot: &Snapshot, node: &str, to: &str) -> Result<Planned, Report> {
    let (node, policy) = (node.into(), Policy::default());
    let way = Way::Slot { version: version(to), schematic: None };
    rollback(&RollbackRequest {
        snapshot,
        node: &node,
        way,
        policy: &policy,
        matrix: &Matrix::builtin(),
    })
}

fn all(snapshot: &Snapshot, to: &str) -> Result<Planned, Report> {
    let intent = Intent { rollback: true, ..intent(Some(to), None) };
    plan_for(snapshot, &intent, &Policy::default())
}

fn lowers(plan: &Plan) -> Option<usize> {
    plan.steps().position(|step| step.action == Action::DowngradeEtcd)
}

#[track_caller]
fn fit(planned: Result<Planned, Report>, snapshot: &Snapshot) -> Plan {
    let plan = planned.unwrap_or_else(|report| panic!("{}", report_text(&report))).plan;
    let findings = check(&plan, snapshot, &Matrix::builtin());
    let fatal: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Fatal).collect();
    assert!(fatal.is_empty(), "{fatal:?}");
    plan
}

#[test]
fn etcd_goes_down_before_the_first_control_plane() {
    let snapshot = half(&["cp-1", "cp-2", "cp-3"]);
    for planned in [one(&snapshot, "cp-1", "1.13.12"), all(&snapshot, "1.13.12")] {
        let plan = fit(planned, &snapshot);
        let lowered = lowers(&plan).expect("a step of its own");
        let snapshotted = plan.steps().position(|step| step.action == Action::SnapshotEtcd);
        let booted = plan.steps().position(|step| {
            step.action.is_disruptive() && step.node.is_some_and(|it| it.0.starts_with("cp-"))
        });
        assert!(snapshotted < Some(lowered) && Some(lowered) < booted, "{:?}", plan.hops);
        let lanes = || plan.hops[0].lanes();
        assert!(lanes().any(|lane| lane.target == Target::Etcd { minor: OLD }));
    }
    // Without it, the other reader of plans does not let it pass.
    let mut plan = all(&snapshot, "1.13.12").unwrap().plan;
    plan.hops[0]
        .waves
        .retain(|wave| wave.lanes.iter().all(|lane| lane.target != Target::Etcd { minor: OLD }));
    let findings = check(&plan, &snapshot, &Matrix::builtin());
    assert!(findings.iter().any(|it| it.rule == 13 && it.severity == Severity::Fatal));
}

#[test]
fn in_the_middle_of_a_hop_nothing_has_to_go_down() {
    // A member on the older minor keeps the cluster there.
    for nodes in [&["cp-1"][..], &["cp-1", "cp-2"]] {
        let snapshot = half(nodes);
        let plan = fit(one(&snapshot, "cp-1", "1.13.12"), &snapshot);
        assert_eq!(lowers(&plan), None);
        assert_eq!(lowers(&fit(all(&snapshot, "1.13.12"), &snapshot)), None);
    }
    // Nor for workers, nor within a minor of etcd.
    let mut snapshot = half(&["cp-1", "cp-2", "cp-3"]);
    let name: NodeName = "worker-1".into();
    known(&mut snapshot.nodes.get_mut(&name).unwrap().talos).version = version("1.14.4");
    assert_eq!(lowers(&fit(one(&snapshot, "worker-1", "1.13.12"), &snapshot)), None);
    assert_eq!(lowers(&fit(one(&snapshot, "cp-1", "1.14.1"), &snapshot)), None);
    let snapshot = cluster(3, 0, "1.13.12", "1.34.2");
    assert_eq!(lowers(&fit(one(&snapshot, "cp-1", "1.12.11"), &snapshot)), None);
}

#[test]
fn data_that_is_about_to_go_up_counts_as_gone_up() {
    // All members run the newer minor; etcd raises its version within seconds.
    let mut snapshot = half(&["cp-1", "cp-2", "cp-3"]);
    for member in &mut known(&mut snapshot.etcd).members {
        known(&mut member.status).storage = Some(OLD);
    }
    assert!(lowers(&fit(one(&snapshot, "cp-1", "1.13.12"), &snapshot)).is_some());
    // The one that would hold it down does not answer: it may boot the newer one now.
    let mut snapshot = half(&["cp-1", "cp-2"]);
    known(&mut snapshot.etcd).members[2].status = Fact::Unknown("connection refused".to_owned());
    assert!(lowers(&fit(one(&snapshot, "cp-1", "1.13.12"), &snapshot)).is_some());
}

#[test]
fn an_etcd_image_of_the_users_own_stays() {
    let mut snapshot = cluster(3, 0, "1.14.4", "1.34.2");
    for member in &mut known(&mut snapshot.etcd).members {
        let status = known(&mut member.status);
        (status.version, status.storage) = (Some(OLD), Some(OLD));
    }
    assert_eq!(lowers(&fit(one(&snapshot, "cp-1", "1.13.12"), &snapshot)), None);
}

#[track_caller]
fn refused(planned: Result<Planned, Report>) -> String {
    let report = planned.unwrap_err();
    let [refusal @ Refusal::EtcdDowngrade { etcd, .. }] = report.refusals.as_slice() else {
        panic!("{report:?}");
    };
    let Advice::AnyOf(ways) = refusal.advice() else { panic!("{refusal:?}") };
    assert_eq!(ways[0], Advice::plan_after(Fix::DowngradeEtcd(*etcd)));
    refusal.to_string()
}

#[test]
fn what_etcd_cannot_do_is_refused_with_the_reason() {
    // It is not known which version the data is of.
    let mut snapshot = half(&["cp-1", "cp-2", "cp-3"]);
    snapshot.etcd = Fact::Unknown("no member answers".to_owned());
    assert!(refused(one(&snapshot, "cp-1", "1.13.12")).contains("no member answers"));
    // Talos has the calls since 1.11 only.
    let mut snapshot = cluster(3, 0, "1.10.9", "1.33.2");
    for member in &mut known(&mut snapshot.etcd).members {
        known(&mut member.status).storage = Some(OLD);
    }
    let matrix = {
        let text = "[[row]]\ntalos = \"1.9\"\netcd = \"3.5\"\nhost_min = \"1.8.0\"\n\
                    host_max = \"1.11.0\"\nkubernetes_min = \"1.27.0\"\nkubernetes_max = \"1.33.99\"\n\
                    [[row]]\ntalos = \"1.10\"\netcd = \"3.6\"\nhost_min = \"1.8.0\"\n\
                    host_max = \"1.12.0\"\nkubernetes_min = \"1.28.0\"\nkubernetes_max = \"1.33.99\"\n";
        Matrix::from_toml(text).unwrap()
    };
    for member in &mut known(&mut snapshot.etcd).members {
        known(&mut member.status).version = Some(OLD);
    }
    let (node, policy) = ("cp-1".into(), Policy::default());
    let way = Way::Slot { version: version("1.9.6"), schematic: None };
    let request =
        RollbackRequest { snapshot: &snapshot, node: &node, way, policy: &policy, matrix: &matrix };
    assert!(refused(rollback(&request)).contains("since Talos 1.11.0"));
    // One minor at a time.
    let mut snapshot = half(&["cp-1", "cp-2", "cp-3"]);
    for member in &mut known(&mut snapshot.etcd).members {
        known(&mut member.status).storage = Some(NEW.next());
    }
    assert!(refused(one(&snapshot, "cp-1", "1.13.12")).contains("one minor at a time"));
}

#[test]
fn a_rollback_waits_for_data_that_its_etcd_does_not_start_on() {
    // Planned in the middle of a hop, and the hop went on since.
    let before = half(&["cp-1", "cp-2"]);
    let plan = fit(one(&before, "cp-1", "1.13.12"), &before);
    let decision = |snapshot: &Snapshot| {
        let taken_at = snapshot.taken_at + SignedDuration::from_mins(1);
        let later = Snapshot { taken_at, ..snapshot.clone() };
        let mut state = State::new(&plan);
        let step: StepId = "1/*/snapshot-etcd".parse().unwrap();
        let proof = Proof::EtcdSnapshot { location: "db".into(), sha256: "00".into(), bytes: 1 };
        let outcome = Outcome::Done { proof: Some(proof) };
        for record in [
            Record::Began,
            Record::Started { step: step.clone(), attempt: 1, evidence: None },
            Record::Finished { step, attempt: 1, outcome },
        ] {
            let (at, runner) = (snapshot.taken_at, String::new());
            state.apply(&Entry { at, plan: plan.hash(), runner, record }).unwrap();
        }
        decide(&plan, &state, &Tried::default(), &later, taken_at)
    };
    assert!(matches!(decision(&before), Decision::Run(_)));
    let after = half(&["cp-1", "cp-2", "cp-3"]);
    let Decision::Wait { reason: WaitReason::EtcdUnsafe { why, .. }, gives_up: true, .. } =
        decision(&after)
    else {
        panic!("{:?}", decision(&after));
    };
    assert!(
        why.contains("the format of 3.7") && why.contains("which etcd 3.6 does not read"),
        "{why}"
    );
}

#[test]
fn one_of_two_members_skips_its_own_checks() {
    let policy = Policy { accept_outage: true, ..Policy::default() };
    let forced = |snapshot: &Snapshot| {
        let planned = plan_for(snapshot, &intent(Some("1.12.11"), None), &policy).unwrap();
        let lanes = planned.plan.hops[0].lanes();
        let forced = lanes.filter_map(|lane| match &lane.target {
            Target::Talos(target) if target.force => lane.node.clone(),
            _ => None,
        });
        forced.map(|node| node.0).collect::<Vec<_>>()
    };
    assert_eq!(forced(&cluster(2, 1, "1.12.6", "1.34.2")), ["cp-2", "cp-1"]);
    assert!(forced(&cluster(3, 1, "1.12.6", "1.34.2")).is_empty());
    assert!(forced(&cluster(1, 1, "1.12.6", "1.34.2")).is_empty());
}
