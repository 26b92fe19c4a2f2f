//! A Kubernetes hop that never came to its end, taken back (rules 12 and 13).

use upgrade_core::intent::Intent;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Component, Fact, Snapshot};
use upgrade_core::step::Action;
use upgrade_planner::check::{Severity, check};
use upgrade_planner::report::Refusal;

use crate::common::{cluster, image, intent, kubernetes, plan_for, report_text, version};

fn back(to: &str) -> Intent {
    Intent { rollback: true, ..intent(None, Some(to)) }
}

fn moved(snapshot: &mut Snapshot, node: &str, component: Component, to: &str) {
    let tag = version(to).tag();
    let Fact::Known(images) = &mut snapshot.nodes.get_mut(&node.into()).unwrap().images else {
        unreachable!("the cluster is known");
    };
    images.insert(component, image(&format!("mirror.lan/{component}:{tag}")));
    if component == Component::Kubelet {
        kubernetes(snapshot, node).kubelet = version(to);
    }
}

fn planned(snapshot: &Snapshot, to: &str) -> Plan {
    let planned = plan_for(snapshot, &back(to), &Policy::default());
    let plan = planned.unwrap_or_else(|report| panic!("{}", report_text(&report))).plan;
    let findings = check(&plan, snapshot, &Matrix::builtin());
    let fatal: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Fatal).collect();
    assert!(fatal.is_empty(), "{fatal:?}");
    plan
}

fn steps(plan: &Plan) -> Vec<String> {
    plan.steps().map(|step| step.to_string()).collect()
}

#[test]
fn only_what_went_ahead_goes_back() {
    let mut snapshot = cluster(3, 2, "1.13.9", "1.34.2");
    moved(&mut snapshot, "cp-1", Component::KubeApiserver, "1.35.4");
    let plan = planned(&snapshot, "1.34.2");
    assert_eq!(steps(&plan), ["1/*/snapshot-etcd", "1/cp-1/set-kube-apiserver"]);
    assert!(plan.rollback);
    let images = serde_json::to_string(&plan).unwrap();
    assert!(images.contains("mirror.lan/kube-apiserver:v1.34.2"), "repositories stay: {images}");
}

#[test]
fn nothing_is_newer_than_the_api_servers_on_the_way() {
    let mut snapshot = cluster(1, 1, "1.13.9", "1.34.2");
    for component in [
        Component::KubeApiserver,
        Component::KubeControllerManager,
        Component::KubeScheduler,
        Component::KubeProxy,
    ] {
        moved(&mut snapshot, "cp-1", component, "1.35.4");
    }
    moved(&mut snapshot, "worker-1", Component::Kubelet, "1.35.4");
    let policy = Policy { accept_outage: true, ..Policy::default() };
    let order = |snapshot: &Snapshot| {
        let planned = plan_for(snapshot, &back("1.34.2"), &policy);
        steps(&planned.unwrap_or_else(|report| panic!("{}", report_text(&report))).plan)
    };
    assert_eq!(
        order(&snapshot),
        [
            "1/*/snapshot-etcd",
            "1/worker-1/set-kubelet",
            "1/cp-1/set-kube-proxy",
            "1/*/sync-manifests",
            "1/cp-1/set-kube-controller-manager",
            "1/cp-1/set-kube-scheduler",
            "1/cp-1/set-kube-apiserver",
        ]
    );
    // Unless no API server answers at all: then it is what has to be repaired.
    for node in snapshot.nodes.values_mut() {
        node.kubernetes = Fact::Unknown("connection refused".to_owned());
    }
    assert_eq!(order(&snapshot)[1], "1/cp-1/set-kube-apiserver");
}

#[test]
fn a_hop_that_is_done_is_not_taken_back() {
    let snapshot = cluster(3, 2, "1.13.9", "1.35.4");
    let report = plan_for(&snapshot, &back("1.34.2"), &Policy::default()).unwrap_err();
    assert!(matches!(report.refusals[..], [Refusal::KubernetesRollback { .. }]), "{report:?}");
    // Nor two minors at once, whatever still runs.
    let mut snapshot = cluster(3, 2, "1.13.9", "1.35.4");
    moved(&mut snapshot, "worker-1", Component::Kubelet, "1.33.4");
    let report = plan_for(&snapshot, &back("1.33.4"), &Policy::default()).unwrap_err();
    assert!(matches!(report.refusals[..], [Refusal::KubernetesRollback { .. }]), "{report:?}");
    // Within a minor it always may; what is older stays as it is.
    let mut snapshot = cluster(3, 2, "1.13.9", "1.35.4");
    moved(&mut snapshot, "worker-1", Component::Kubelet, "1.35.1");
    let plan = planned(&snapshot, "1.35.2");
    let kubelets = plan.steps().filter(|step| step.action == Action::SetKubelet);
    let mut kubelets: Vec<_> = kubelets.map(|step| step.node.unwrap().0).collect();
    kubelets.sort();
    assert_eq!(kubelets, ["cp-1", "cp-2", "cp-3", "worker-2"]);
}
