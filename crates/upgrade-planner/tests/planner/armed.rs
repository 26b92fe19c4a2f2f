//! What an earlier run left armed, and a plan after it (rule 5).

use std::collections::BTreeMap;

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::journal::{Armed, Arming};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::PlanHash;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, NodeName};
use upgrade_planner::report::{Refusal, Report};
use upgrade_planner::rollback::{RollbackRequest, Way, rollback};
use upgrade_planner::{Earlier, Request, armed, prepare};

use crate::common::{cluster, intent, plan_for, report_text, talos, version};

/// What is refused if worker-1 is armed with this, in this boot.
fn refused(tag: &str, boot_id: Option<&str>, state: Arming) -> Vec<Refusal> {
    let mut snapshot = cluster(3, 2, "1.13.1", "1.33.4");
    "this boot".clone_into(&mut talos(&mut snapshot, "worker-1").boot_id);
    let planned = plan_for(&snapshot, &intent(Some("1.13.9"), None), &Policy::default());
    let plan = planned.unwrap_or_else(|report| panic!("{}", report_text(&report))).plan;
    let installer = talos(&mut snapshot, "worker-1").installer.clone().unwrap();
    let image = installer.with_tag(tag);
    let known = Armed { image, boot_id: boot_id.map(ToOwned::to_owned), state };
    let node = NodeName::from("worker-1");
    let mut report = Report::default();
    armed(&plan, &snapshot, &BTreeMap::from([(node, known)]), &mut report);
    report.refusals
}

#[test]
fn the_same_image_is_fine_and_another_is_not() {
    let here = Some("this boot");
    assert_eq!(refused("v1.13.9", here, Arming::Armed), []);
    for boot in [here, None] {
        let refusals = refused("v1.13.5", boot, Arming::Armed);
        let [refusal @ Refusal::Armed { failed: false, .. }] = refusals.as_slice() else {
            panic!("{refusals:?}");
        };
        let text = refusal.to_string();
        assert!(text.contains("worker-1 is armed with") && text.contains("v1.13.5"), "{text}");
        assert_eq!(refusal.advice(), Advice::plan_after(Fix::Disarm { running: None }));
    }
    assert_eq!(refused("v1.13.5", Some("an earlier boot"), Arming::Armed), []);
    assert_eq!(refused("v1.13.9", here, Arming::Unheard), [], "judged when it is reached");
    for state in [Arming::Failed, Arming::FailedArmed] {
        assert!(matches!(
            refused("v1.13.9", here, state)[..],
            [Refusal::Armed { failed: true, .. }]
        ));
    }
}

#[test]
fn what_is_prepared_passed_all_three() {
    // Planned, not armed with something else (rule 5), checked; and the plan that it
    // replaces is in its hash (rule 9).
    let mut snapshot = cluster(3, 2, "1.13.1", "1.33.4");
    let intent = intent(Some("1.13.9"), None);
    let (policy, matrix, catalogue) = (Policy::default(), Matrix::builtin(), Catalogue::builtin());
    let image = talos(&mut snapshot, "worker-1").installer.clone().unwrap().with_tag("v1.13.5");
    let prepared = |armed: &BTreeMap<NodeName, Armed>, parent: Option<&PlanHash>| {
        let request = Request {
            snapshot: &snapshot,
            intent: &intent,
            policy: &policy,
            matrix: &matrix,
            catalogue: &catalogue,
            workloads: &Fact::Unasked,
            manifests: &Fact::Unasked,
            external_upgrader: false,
        };
        prepare(&request, Earlier { parent, armed })
    };
    let none = BTreeMap::new();
    let first = prepared(&none, None).plan.expect("a plan");
    assert_eq!(first.parent, None);
    let second = prepared(&none, Some(&first.hash())).plan.expect("a plan");
    assert_eq!(second.parent, Some(first.hash()));
    assert_ne!(second.hash(), first.hash());
    let known = Armed { image, boot_id: None, state: Arming::Armed };
    let refused = prepared(&BTreeMap::from([("worker-1".into(), known)]), None);
    assert!(matches!(refused.report.refusals[..], [Refusal::Armed { failed: false, .. }]));
    assert_eq!((refused.plan.as_ref(), refused.fatal()), (None, None));
}

#[test]
fn an_armed_node_has_no_slot_to_roll_back_to() {
    // Rules 5 and 12: the installer overwrote what ran before.
    let mut snapshot = cluster(3, 2, "1.13.9", "1.33.4");
    "this boot".clone_into(&mut talos(&mut snapshot, "worker-1").boot_id);
    let node = NodeName::from("worker-1");
    let way = Way::Slot { version: "1.13.1".parse().unwrap(), schematic: None };
    let (policy, matrix) = (Policy::default(), Matrix::builtin());
    let request =
        RollbackRequest { snapshot: &snapshot, node: &node, way, policy: &policy, matrix: &matrix };
    let plan = rollback(&request).unwrap_or_else(|report| panic!("{}", report_text(&report))).plan;
    let refused = |boot_id: &str, state: Arming| {
        let image = "factory.talos.dev/metal-installer/abc:v1.14.1".parse().unwrap();
        let known = Armed { image, boot_id: Some(boot_id.to_owned()), state };
        let mut report = Report::default();
        armed(&plan, &snapshot, &BTreeMap::from([(node.clone(), known)]), &mut report);
        report.refusals
    };
    for state in [Arming::Armed, Arming::FailedArmed] {
        let refusals = refused("this boot", state);
        let [refusal @ Refusal::RollbackArmed { .. }] = refusals.as_slice() else {
            panic!("{refusals:?}");
        };
        let text = refusal.to_string();
        assert!(text.contains("v1.14.1") && text.contains("holds 1.13.9"), "{text}");
        let (node, running) = ("worker-1".into(), version("1.13.9"));
        let disarm = Fix::DisarmForRollback { node, running };
        assert_eq!(refusal.advice(), Advice::plan_after(disarm));
    }
    assert_eq!(refused("an earlier boot", Arming::Armed), []);
    assert_eq!(refused("this boot", Arming::Unheard), [], "judged when it is reached");
}
