//! Versions that do not count, or lead nowhere.

use super::*;

#[test]
fn what_is_older_needs_a_word_or_an_unfinished_run() {
    // Rules 12 and 13.
    let older = || Case::new().versions("v1.13.8", "v1.35.0");
    assert_eq!(older().outcome(), (State::Ready, Reason::Refused, NextAction::Idle));
    let asked = older().annotate(annotation::ROLLBACK, "true").begins();
    assert!(asked.start.intent.rollback);
    assert_eq!((asked.product, asked.to), (Product::Talos, version("1.13.8")));
    let mut half = observed("1.13.8", "1.35.0");
    half.nodes.get_mut(&"cp-1".into()).expect("a node").talos = version("1.13.9");
    let reverted = |phase| {
        let case = Case::new().run(Product::Talos, phase);
        Case { observed: Some(Ok(half.clone())), ..case }.versions("v1.13.8", "v1.35.0")
    };
    let back = reverted(RunPhase::Cancelled).begins();
    assert!(back.start.intent.rollback, "Git was reverted while it ran");
    assert_eq!(reverted(RunPhase::Halted).decide().next, NextAction::Close, "then the same");
    let (_, reason, _) = reverted(RunPhase::Completed).outcome();
    assert_eq!(reason, Reason::Refused, "a run that ended is not taken back by itself");
    // A permission alone starts no rollback.
    let up = Case::talos().annotate(annotation::ROLLBACK, "true").begins();
    assert!(!up.start.intent.rollback);
}

#[test]
fn impossible_versions_are_refused() {
    for (talos, kubernetes) in [("v1.99.0", "v1.35.0"), ("v1.12.11", "v1.36.0")] {
        let mut case = Case::new().versions(talos, kubernetes);
        case.observed = Some(Ok(observed("1.12.4", "1.34.0")));
        assert_eq!(case.outcome(), (State::Ready, Reason::Refused, NextAction::Idle), "{talos}");
    }
    let unreadable = Case::new().versions("latest", "v1.35.0");
    assert_eq!(unreadable.outcome(), (State::Ready, Reason::Refused, NextAction::Idle));
}

#[test]
fn versions_of_another_operator_start_nothing() {
    // Rule 13.
    let adopted = || {
        let mut case = Case::talos().state("Available");
        case.hub.control_planes[0].status.as_mut().expect("a status").observed_generation = None;
        case.hub.workers[0].status.as_mut().expect("a status").observed_generation = None;
        case
    };
    let (update, next) = adopted().shown();
    assert_eq!((update.control_plane.state, reason(&update)), (State::Ready, Reason::Adopted));
    assert_eq!(next, NextAction::Idle);
    let record = |kind, name: &str| update.records[&(kind, name.to_owned())].annotation();
    let talos = Some(r#"{"talos":"v1.13.9"}"#.to_owned());
    assert_eq!(record(Kind::TalosControlPlane, "prod"), talos, "Kubernetes fits already");
    assert_eq!(record(Kind::TalosWorker, "blue"), talos);
    let pool = &update.workers["blue"].conditions;
    assert_eq!(condition(pool, ConditionType::Ready).reason, Reason::Adopted);
    let begin = adopted().annotate(keys::ADOPT, "true").begins();
    assert_eq!(begin.start.intent.talos, Some(version("1.13.9")), "the pools as well");
    // A version that the user changes counts, and that of the pool still does not.
    let changed = adopted().annotate(keys::ADOPTED, r#"{"talos":"v1.13.0"}"#).begins();
    assert_eq!(changed.start.intent.talos_of(&"cp-1".into()), Some(&version("1.13.9")));
    assert_eq!(changed.start.intent.talos_of(&"blue-1".into()), None);
}
