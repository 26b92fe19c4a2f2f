//! Plans for nodes that something outside upgrades or replaces.

use std::collections::BTreeMap;

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::journal::{Armed, Arming};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Plan, Target, UpgradeMethod};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::Fact;
use upgrade_planner::report::{Refusal, Report};
use upgrade_planner::{Request, armed, check, plan};

use crate::common::{cluster, intent, plan_for, report_text, sketch};

fn external() -> Intent {
    Intent { external: true, ..intent(Some("1.13.9"), None) }
}

#[test]
fn lanes_have_no_pull_and_no_install_and_all_the_gates() {
    let snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    let planned = plan_for(&snapshot, &external(), &Policy::default());
    let planned = planned.unwrap_or_else(|report| panic!("{}", report_text(&report)));
    let lane = "forfeit cordon drain external-upgrade verify uncordon";
    let sketch = sketch(&planned);
    assert_eq!(sketch.matches(lane).count(), 3, "{sketch}");
    assert!(sketch.contains("worker-1[cordon drain external-upgrade verify uncordon"), "{sketch}");
    assert!(sketch.contains("Prepare: *[snapshot-etcd]\n"), "rule 3: {sketch}");
    assert!(!sketch.contains("pull") && !sketch.contains("install"), "{sketch}");
    let findings = check(&planned.plan, &snapshot, &Matrix::builtin());
    assert_eq!(findings, [], "{sketch}");
    let json = serde_json::to_string(&planned.plan).unwrap();
    let read: Plan = serde_json::from_str(&json).unwrap();
    assert_eq!(read, planned.plan);
    let of = |target: &Target| match target {
        Target::Talos(target) => Some(target.method),
        _ => None,
    };
    let mut methods = read.lanes().filter_map(|(_, lane)| of(&lane.target));
    assert!(methods.all(|method| method == UpgradeMethod::External));
}

#[test]
fn without_something_that_does_it_the_plan_is_refused() {
    let snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    let refused = plan(&Request {
        snapshot: &snapshot,
        intent: &external(),
        policy: &Policy::default(),
        matrix: &Matrix::builtin(),
        catalogue: &Catalogue::builtin(),
        workloads: &Fact::Unasked,
        manifests: &Fact::Unasked,
        external_upgrader: false,
    })
    .unwrap_err();
    assert_eq!(refused.refusals, [Refusal::NoExternalUpgrader]);
}

#[test]
fn an_armed_node_is_not_replaced() {
    // Rule 5: the new machine would hide that it was armed, even with the same image.
    let snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    let planned = plan_for(&snapshot, &external(), &Policy::default()).unwrap();
    let image = planned.plan.lanes().find_map(|(_, lane)| match &lane.target {
        Target::Talos(target) if lane.node == Some("worker-1".into()) => {
            Some(target.installer.clone())
        }
        _ => None,
    });
    for state in [Arming::Armed, Arming::Unheard, Arming::Failed] {
        let known = Armed { image: image.clone().unwrap(), boot_id: None, state };
        let mut report = Report::default();
        let nodes = BTreeMap::from([("worker-1".into(), known)]);
        armed(&planned.plan, &snapshot, &nodes, &mut report);
        assert!(matches!(&report.refusals[..], [Refusal::Armed { .. }]), "{state:?}");
    }
}
