//! Every rule of this front end, as a table of facts and decisions.

use std::collections::BTreeMap;

use upgrade_controller::front_end::Releases;
use upgrade_controller::versions_observed::ObservedVersions;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::product::VersionRange;
use upgrade_core::version::Version;

use super::*;
use crate::annotations::UpgradeRequest;

pub(super) fn catalogue() -> Catalogue {
    let versions = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Catalogue {
        talos: versions(&[
            "1.11.6",
            "1.11.9",
            "1.12.0",
            "1.12.11",
            "1.13.9",
            "1.14.1",
            "1.15.0-rc.0",
        ]),
        kubernetes: versions(&[
            "1.31.9", "1.32.9", "1.33.9", "1.34.9", "1.35.9", "1.36.3", "1.37.0",
        ]),
        broken: Vec::new(),
    }
}

pub(super) fn seen(talos: &str, kubernetes: &str) -> ObservedVersions {
    let spread = |text: &str| {
        let version: Version = text.parse().unwrap();
        VersionRange { lowest: version.clone(), newest: version }
    };
    ObservedVersions { talos: spread(talos), kubernetes: spread(kubernetes), nodes: 5 }
}

/// A cluster at rest, to be changed by each test.
struct Case {
    annotations: BTreeMap<String, String>,
    said: (Option<Status>, Option<Status>),
    phase: &'static str,
    seen: Option<Result<ObservedVersions, &'static str>>,
    run: Option<RunView>,
}

impl Case {
    fn new(annotations: &[(&str, &str)]) -> Self {
        let prefix = annotation::PREFIX;
        Self {
            annotations: annotations
                .iter()
                .map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned()))
                .collect(),
            said: (Some(Status::Idle), Some(Status::Idle)),
            phase: "Ready",
            seen: Some(Ok(seen("1.11.6", "1.34.1"))),
            run: None,
        }
    }

    fn run(mut self, phase: RunPhase) -> Self {
        self.run = Some(RunView {
            product: Product::Talos,
            to: Version::new(1, 12, 0),
            rollback: false,
            phase,
            message: "Upgrading node cp-0".to_owned(),
            done: 2,
            total: 5,
            target_removed: false,
        });
        self.said.0 = Some(Status::InProgress);
        self.phase = "UpgradingTalos";
        self
    }

    fn decide(&self) -> Decision {
        let (matrix, catalogue) = (Matrix::builtin(), catalogue());
        decide(&Facts {
            request: &UpgradeRequest::from_annotations(&self.annotations),
            talos_reported: self.said.0,
            kubernetes_reported: self.said.1,
            phase: self.phase,
            observed: self.seen.as_ref().map(|seen| seen.as_ref().map_err(|why| *why)),
            run: self.run.as_ref(),
            releases: Releases { matrix: &matrix, catalogue: &catalogue },
        })
    }

    #[track_caller]
    fn outcome(&self) -> (StatusUpdate, NextAction) {
        let decision = self.decide();
        (decision.update.expect("something is written"), decision.next)
    }
}

/// The version that a status shows as available: the next valid target.
fn available(status: &ProductStatus) -> Option<Version> {
    status.versions.as_ref()?.1.clone()
}

#[test]
fn an_upgrade_that_could_be_had_is_shown_and_never_begun() {
    let (write, act) = Case::new(&[]).outcome();
    assert_eq!(act, NextAction::Idle);
    assert_eq!(write.phase, Some(Phase::Ready));
    assert_eq!(write.talos.status, Status::Idle);
    assert_eq!(write.talos.message, "Upgrade available: 1.11.6 → 1.12.11");
    let versions = Some((Version::new(1, 11, 6), Some(Version::new(1, 12, 11))));
    assert_eq!(write.talos.versions, versions);
    // Only a patch: Talos 1.11 does not run Kubernetes 1.35.
    assert_eq!(write.kubernetes.message, "Upgrade available: 1.34.1 → 1.34.9");
}

#[test]
fn a_target_begins_a_run() {
    let (write, act) = Case::new(&[("talos-target", "1.12.0")]).outcome();
    let target = Version::new(1, 12, 0);
    assert_eq!(act, NextAction::Begin { product: Product::Talos, target });
    assert_eq!(write.phase, Some(Phase::Ready), "nothing runs yet");
    // Both at once: Talos goes first, the other waits.
    let both = Case::new(&[("talos-target", "v1.12.0"), ("kubernetes-target", "1.35.0")]);
    let (write, act) = both.outcome();
    assert!(matches!(act, NextAction::Begin { product: Product::Talos, .. }));
    assert_eq!(write.kubernetes.status, Status::Blocked);
    assert_eq!(write.kubernetes.message, "Waiting for Talos upgrade to complete");
}

#[test]
fn a_run_is_reported_while_it_lasts() {
    let case = Case::new(&[("talos-target", "1.12.0"), ("kubernetes-target", "1.35.0")]);
    let (write, act) = case.run(RunPhase::Running).outcome();
    assert_eq!(act, NextAction::Drive);
    assert_eq!(write.phase, Some(Phase::UpgradingTalos));
    assert_eq!(write.talos.status, Status::InProgress);
    assert_eq!(write.talos.message, "Upgrading node cp-0 (2/5 nodes completed)");
    assert_eq!(write.talos.progress.as_deref(), Some("2/5"));
    assert_eq!(write.kubernetes.status, Status::Blocked);
    assert_eq!(write.kubernetes.reason, Reason::Blocked);
    assert_eq!(write.kubernetes.message, "Waiting for Talos upgrade to complete");
}

#[test]
fn the_other_way_round_talos_waits_for_kubernetes() {
    let mut case = Case::new(&[("talos-target", "1.12.0"), ("kubernetes-target", "1.34.9")])
        .run(RunPhase::Running);
    let run = case.run.as_mut().unwrap();
    run.product = Product::Kubernetes;
    run.to = Version::new(1, 34, 9);
    let (write, act) = case.outcome();
    assert_eq!(act, NextAction::Drive);
    assert_eq!(write.phase, Some(Phase::UpgradingKubernetes));
    // The seed has no `blocked` for Talos.
    assert_eq!((write.talos.status, write.talos.reason), (Status::Idle, Reason::Blocked));
    assert_eq!(write.talos.message, "Waiting for Kubernetes upgrade to complete");
}

#[test]
fn the_users_word_holds_while_it_runs() {
    // Rule 12.
    let gone = Case::new(&[]).run(RunPhase::Running);
    assert_eq!(gone.outcome().1, NextAction::Cancel);
    let changed = Case::new(&[("talos-target", "1.12.1")]).run(RunPhase::Running);
    assert_eq!(changed.outcome().1, NextAction::Cancel);
    let paused = Case::new(&[("talos-target", "1.12.0"), ("pause", "anna")]).run(RunPhase::Running);
    let (write, act) = paused.outcome();
    assert_eq!(act, NextAction::Pause { by: "anna".to_owned() });
    assert_eq!((write.talos.status, write.talos.reason), (Status::InProgress, Reason::Paused));
    assert_eq!(write.talos.progress.as_deref(), Some("2/5"));
    assert!(write.talos.message.contains("anna"), "{}", write.talos.message);
    let resumed = Case::new(&[("talos-target", "1.12.0")]).run(RunPhase::Paused);
    assert_eq!(resumed.outcome().1, NextAction::Drive);
    let off = Case::new(&[("talos-target", "1.12.0"), ("do-not-reconcile", "x")]);
    let decision = off.run(RunPhase::Running).decide();
    assert_eq!(decision.update, None, "nothing is written");
    assert!(matches!(decision.next, NextAction::Pause { .. }));
}

#[test]
fn an_end_is_reported_and_its_target_removed() {
    let (write, act) = Case::new(&[("talos-target", "v1.12.0")]).run(RunPhase::Completed).outcome();
    assert_eq!(act, NextAction::Observe);
    assert_eq!(write.talos.status, Status::Completed);
    assert_eq!(write.phase, Some(Phase::Ready));
    assert_eq!(write.remove, [annotation::TALOS_TARGET]);
    assert_eq!(write.talos.versions.as_ref().unwrap().0, Version::new(1, 12, 0));
    // Another target that came meanwhile is not taken away.
    let (write, _) = Case::new(&[("talos-target", "1.12.11")]).run(RunPhase::Completed).outcome();
    assert!(write.remove.is_empty());
}

#[test]
fn completed_stays_reported_until_something_else_is() {
    let mut case = Case::new(&[]).run(RunPhase::Completed);
    case.said.0 = Some(Status::Completed);
    case.phase = "Ready";
    case.seen = Some(Ok(seen("1.12.0", "1.34.1")));
    let (write, act) = case.outcome();
    assert_eq!((write.talos.status, act), (Status::Completed, NextAction::Idle));
    assert_eq!(write.talos.message, "Talos 1.12.0 runs on all 5 nodes");
    // An observation that fails does not revoke it.
    case.seen = Some(Err("no answer"));
    assert_eq!(case.outcome().0.talos.status, Status::Completed);
    // A target that comes back (GitOps) is simply there: no loop, no failure.
    case.seen = Some(Ok(seen("1.12.0", "1.34.1")));
    case.annotations.insert(annotation::TALOS_TARGET.to_owned(), "1.12.0".to_owned());
    let (write, act) = case.outcome();
    assert_eq!((write.talos.status, act), (Status::Completed, NextAction::Idle));
    assert!(write.remove.is_empty());
    assert_eq!(available(&write.talos), Some(Version::new(1, 13, 9)));
}

#[test]
fn the_second_target_begins_by_itself_when_the_first_is_reached() {
    let mut case = Case::new(&[("kubernetes-target", "1.35.0")]).run(RunPhase::Completed);
    case.said = (Some(Status::Completed), Some(Status::Blocked));
    case.seen = Some(Ok(seen("1.12.0", "1.34.1")));
    let target = Version::new(1, 35, 0);
    assert_eq!(case.outcome().1, NextAction::Begin { product: Product::Kubernetes, target });
}

#[test]
fn a_failure_stays_until_its_target_is_taken_away() {
    // Rule 5: no run is retried without the user's word.
    let mut case = Case::new(&[("talos-target", "1.12.0"), ("kubernetes-target", "1.35.0")])
        .run(RunPhase::Halted);
    case.run.as_mut().unwrap().message = "node cp-1 did not come back online".to_owned();
    for said in [Status::InProgress, Status::Failed] {
        case.said.0 = Some(said);
        let (write, act) = case.outcome();
        assert_eq!(act, NextAction::Idle);
        assert_eq!(write.talos.status, Status::Failed);
        assert_eq!(write.talos.message, "Talos upgrade failed: node cp-1 did not come back online");
        assert_eq!(write.phase, Some(Phase::UpgradeFailed));
        assert_eq!(write.kubernetes.status, Status::Blocked);
    }
    // Removed and set again before this replica looked.
    case.run.as_mut().unwrap().target_removed = true;
    assert_eq!(case.decide(), Decision { update: None, next: NextAction::Close });
    case.run.as_mut().unwrap().target_removed = false;
    case.annotations.clear();
    assert_eq!(case.decide(), Decision { update: None, next: NextAction::Close });
    case.run.as_mut().unwrap().phase = RunPhase::Cancelled;
    let (write, act) = case.outcome();
    assert_eq!((write.talos.status, write.phase), (Status::Idle, Some(Phase::Ready)));
    assert_eq!(act, NextAction::Idle);
    // Set again: a new run begins.
    case.annotations.insert(annotation::TALOS_TARGET.to_owned(), "1.12.0".to_owned());
    assert!(matches!(case.outcome().1, NextAction::Begin { .. }));
}

#[test]
fn bad_targets_touch_nothing() {
    // What is wrong with each is tested beside `target::check`.
    for (talos, kubernetes) in
        [("latest", ""), ("1.10.3", ""), ("1.99.0", ""), ("", "1.36.0"), ("", "1.33.9")]
    {
        let (write, act) =
            Case::new(&[("talos-target", talos), ("kubernetes-target", kubernetes)]).outcome();
        assert_eq!(act, NextAction::Idle, "{talos} {kubernetes}");
        let (report, target) =
            if talos.is_empty() { (&write.kubernetes, kubernetes) } else { (&write.talos, talos) };
        assert_eq!((report.status, report.reason), (Status::Failed, Reason::InvalidTarget));
        let next = available(report).expect("a valid target").to_string();
        for named in [target, next.as_str()] {
            assert!(report.message.contains(named), "{named}: {}", report.message);
        }
        assert_eq!(write.phase, Some(Phase::UpgradeFailed));
    }
    let (write, act) = Case::new(&[("kubernetes-target", "1.35.0")]).outcome();
    assert_eq!((write.kubernetes.status, act), (Status::Blocked, NextAction::Idle));
    assert_eq!(write.kubernetes.reason, Reason::Blocked);
    assert_eq!(write.phase, Some(Phase::Ready));
}

#[test]
fn an_older_target_is_a_rollback_if_the_user_asks_for_one() {
    // Rule 13.
    let (_, act) = Case::new(&[("talos-target", "1.11.0"), ("rollback", "true")]).outcome();
    assert!(matches!(act, NextAction::Begin { product: Product::Talos, .. }));
    let mut done = Case::new(&[("talos-target", "1.12.0"), ("rollback", "true")]);
    done = done.run(RunPhase::Completed);
    done.run.as_mut().unwrap().rollback = true;
    assert_eq!(done.outcome().0.remove, [annotation::TALOS_TARGET, annotation::ROLLBACK]);
}

#[test]
fn a_pause_keeps_a_run_from_beginning() {
    let (write, act) = Case::new(&[("talos-target", "1.12.0"), ("pause", "true")]).outcome();
    assert_eq!((write.talos.status, act), (Status::Idle, NextAction::Idle));
    assert_eq!(write.talos.reason, Reason::Blocked);
    assert!(write.talos.message.contains(annotation::PAUSE), "{}", write.talos.message);
}

#[test]
fn the_platforms_phases_are_respected() {
    let mut case = Case::new(&[("talos-target", "1.12.0")]);
    case.phase = "Provisioning";
    let (write, act) = case.outcome();
    assert_eq!((write.phase, act), (None, NextAction::Idle));
    assert_eq!(write.talos.reason, Reason::Blocked);
    assert!(write.talos.message.contains(case.phase), "{}", write.talos.message);
    // Without any status the first look makes it Ready.
    let mut new = Case::new(&[]);
    new.phase = "";
    assert_eq!(new.outcome().0.phase, Some(Phase::Ready));
    new.seen = Some(Err("no answer"));
    assert_eq!(new.outcome().0.phase, None);
}

#[test]
fn a_reset_wipes_everything_once_it_is_safe() {
    let reset = [("talos-target", "1.12.0"), ("talos-reset-upgrade-state", "true")];
    assert_eq!(Case::new(&reset).run(RunPhase::Running).outcome().1, NextAction::Cancel);
    assert_eq!(Case::new(&reset).run(RunPhase::Halted).decide().next, NextAction::Close);
    let (write, act) = Case::new(&reset).run(RunPhase::Cancelled).outcome();
    assert_eq!((write.talos.status, write.phase), (Status::Idle, Some(Phase::Ready)));
    assert_eq!(act, NextAction::Idle);
    for gone in [annotation::RESET, annotation::TALOS_TARGET, annotation::KUBERNETES_TARGET] {
        assert!(write.remove.contains(&gone), "{gone}");
    }
}

#[test]
fn a_cluster_that_was_not_seen_is_observed_first() {
    let mut case = Case::new(&[("talos-target", "1.12.0")]);
    case.seen = None;
    assert_eq!(case.decide(), Decision { update: None, next: NextAction::Observe });
    // A cluster that cannot be observed gets its answer from trying (rule 10).
    case.seen = Some(Err("no answer within 10s"));
    let (write, act) = case.outcome();
    assert!(matches!(act, NextAction::Begin { .. }));
    assert!(write.talos.message.contains("no answer within 10s"));
    case.annotations.clear();
    assert_eq!(case.outcome().1, NextAction::Idle);
}
