//! The fold, entry by entry.

use std::collections::BTreeMap;

use super::*;
use crate::image::ImageRef;
use crate::plan::{
    Change, Group, Hop, Lane, PLAN_FORMAT, Plan, RebootMode, TalosTarget, Target, UpgradeMethod,
    Versions, Wave,
};
use crate::policy::Policy;
use crate::reason::FailureKind;
use crate::step::Action;
use crate::version::Version;

fn image() -> ImageRef {
    "ghcr.io/siderolabs/installer:v1.13.2".parse().unwrap()
}

fn plan() -> Plan {
    let lane = Lane {
        node: Some("w-1".into()),
        pool: None,
        target: Target::Talos(Box::new(TalosTarget {
            from: Version::new(1, 13, 1),
            method: UpgradeMethod::Lifecycle,
            installer: image(),
            schematic: None,
            extensions: None,
            previous: None,
            etcd: None,
            force: false,
            reboot: RebootMode::Default,
            platform: None,
            secure_boot: None,
        })),
        steps: [
            Action::Install,
            Action::Cordon,
            Action::Drain,
            Action::Reboot,
            Action::Verify,
            Action::Uncordon,
        ]
        .map(Into::into)
        .to_vec(),
    };
    Plan {
        format: PLAN_FORMAT,
        cluster: "prod".to_owned(),
        parent: None,
        rollback: false,
        from: Versions::default(),
        to: Versions::default(),
        policy: Policy::default(),
        prune: Vec::new(),
        nodes: BTreeMap::new(),
        hops: vec![Hop {
            number: 1,
            change: Change::Talos { from: Version::new(1, 13, 1), to: Version::new(1, 13, 2) },
            versions: Versions::default(),
            limit: 1,
            pool_limits: BTreeMap::new(),
            waves: vec![Wave { number: 1, group: Group::Workers, lanes: vec![lane] }],
        }],
    }
}

fn step(action: Action) -> StepId {
    StepId::new(1, Some("w-1".into()), action)
}

struct Writer {
    state: State,
    clock: i64,
    entries: Vec<Entry>,
}

impl Writer {
    fn new() -> Self {
        Self { state: State::new(&plan()), clock: 0, entries: vec![] }
    }

    fn write(&mut self, record: Record) -> Result<(), FoldError> {
        self.clock += 1;
        let entry = Entry {
            at: Timestamp::from_second(self.clock).unwrap(),
            plan: self.state.plan().clone(),
            runner: "test".to_owned(),
            record,
        };
        let result = self.state.apply(&entry);
        self.entries.push(entry);
        result
    }

    fn start(&mut self, action: Action, evidence: Option<Evidence>) {
        let attempt = self.state.step(&step(action)).unwrap().attempts + 1;
        self.write(Record::Started { step: step(action), attempt, evidence }).unwrap();
    }

    fn end(&mut self, action: Action, outcome: Outcome) {
        let attempt = self.state.step(&step(action)).unwrap().attempts;
        self.write(Record::Finished { step: step(action), attempt, outcome }).unwrap();
    }

    fn phase(&self, action: Action) -> &Phase {
        &self.state.step(&step(action)).unwrap().phase
    }
}

fn failed() -> Outcome {
    Outcome::Failed { failure: Failure::new(FailureKind::Drain, "pods remain") }
}

const DONE: Outcome = Outcome::Done { proof: None };

#[test]
fn a_takeover_puts_what_was_under_way_in_doubt() {
    // Rule 8.
    let mut journal = Writer::new();
    journal.start(Action::Reboot, Some(Evidence::BootId("a".to_owned())));
    journal.write(Record::Began).unwrap();
    assert_eq!(*journal.phase(Action::Reboot), Phase::InDoubt);
    journal.start(Action::Reboot, Some(Evidence::BootId("b".to_owned())));
    let evidence = journal.state.step(&step(Action::Reboot)).unwrap().evidence.clone();
    assert_eq!(evidence, Some(Evidence::BootId("a".to_owned())), "the first look counts");
}

#[test]
fn a_node_that_booted_back_is_not_armed() {
    let mut journal = Writer::new();
    journal.start(Action::Install, None);
    journal.end(Action::Install, DONE);
    journal.start(Action::Verify, None);
    let failed = |kind| Outcome::Failed { failure: Failure::new(kind, "why") };
    journal.end(Action::Verify, failed(FailureKind::Mismatch));
    assert!(journal.state.armed().contains_key(&"w-1".into()), "it is not known");
    journal.start(Action::Verify, None);
    journal.end(Action::Verify, failed(FailureKind::BootBack));
    assert!(journal.state.armed().is_empty(), "the boot loader went back");
}

#[test]
fn arming_is_remembered_until_verified() {
    let mut journal = Writer::new();
    journal.start(Action::Install, None);
    assert!(journal.state.armed().contains_key(&"w-1".into()), "from the start of the act");
    journal.end(Action::Install, DONE);
    journal.start(Action::Verify, None);
    journal.end(Action::Verify, DONE);
    assert!(journal.state.armed().is_empty());
}

/// What is known of the node after an install that ended so.
fn after(outcome: Outcome) -> Option<Arming> {
    let mut journal = Writer::new();
    journal.start(Action::Install, Some(Evidence::BootId("a".to_owned())));
    assert_eq!(journal.state.next_boots(), [("w-1".into(), Arming::Unheard)]);
    journal.end(Action::Install, outcome);
    let armed = journal.state.armed().get(&"w-1".into()).cloned();
    if let Some(armed) = &armed {
        assert_eq!((&armed.image, armed.boot_id.as_deref()), (&image(), Some("a")));
    }
    armed.map(|armed| armed.state)
}

#[test]
fn a_node_is_armed_or_not_or_it_is_not_known() {
    // Rule 5.
    let failed = |kind, effect: Option<Effect>| {
        let failure = Failure::new(kind, "why");
        let failure = match effect {
            Some(effect) => failure.leaving(effect),
            None => failure,
        };
        let json = serde_json::to_string(&failure).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&json).unwrap(), failure);
        Outcome::Failed { failure }
    };
    let (exit, late) = (FailureKind::Installer, FailureKind::Deadline);
    assert_eq!(after(DONE), Some(Arming::Armed));
    assert_eq!(after(Outcome::Done { proof: Some(Proof::Unheard) }), Some(Arming::Unheard));
    assert_eq!(after(failed(exit, None)), Some(Arming::Failed));
    assert_eq!(after(failed(exit, Some(Effect::Armed))), Some(Arming::FailedArmed));
    assert_eq!(after(failed(exit, Some(Effect::NotArmed))), None);
    assert_eq!(after(failed(FailureKind::Pull, Some(Effect::None))), None);
    assert_eq!(after(failed(late, None)), Some(Arming::Unheard));
}

#[test]
fn what_was_armed_before_survives_an_attempt_that_did_nothing() {
    // Rule 5: another run armed it with something else, and this one is refused.
    let other: ImageRef = "ghcr.io/siderolabs/installer:v1.14.1".parse().unwrap();
    let armed = Armed { image: other, boot_id: Some("a".to_owned()), state: Arming::Armed };
    let inherited: BTreeMap<_, _> = [("w-1".into(), armed)].into();
    let mut journal = Writer::new();
    assert_eq!(
        journal.state.armed_left(&inherited),
        inherited,
        "it died before it wrote that down"
    );
    let cordons = BTreeSet::new();
    journal.write(Record::Inherited { cordons, armed: inherited.clone() }).unwrap();
    assert_eq!(*journal.state.armed(), inherited);
    journal.start(Action::Install, Some(Evidence::BootId("a".to_owned())));
    let failure = Failure::new(FailureKind::Refused, "armed").leaving(Effect::None);
    journal.end(Action::Install, Outcome::Failed { failure });
    assert_eq!(journal.state.armed_left(&BTreeMap::new()), inherited);
    journal.start(Action::Reboot, None);
    journal.end(Action::Reboot, DONE);
    assert!(journal.state.armed_left(&inherited).is_empty(), "it has booted since");
}

#[test]
fn only_our_own_cordons_are_ours() {
    // Rule 7.
    for found in [false, true] {
        let mut journal = Writer::new();
        journal.start(Action::Cordon, Some(Evidence::WasCordoned(found)));
        journal.write(Record::Began).unwrap();
        // The second look finds the cordon that we set ourselves.
        journal.start(Action::Cordon, Some(Evidence::WasCordoned(true)));
        journal.end(Action::Cordon, DONE);
        assert_eq!(journal.state.our_cordons().count(), usize::from(!found));
        assert_eq!(journal.state.found_cordoned(&"w-1".into()), found);
    }
}

#[test]
fn a_node_that_was_uncordoned_is_cordoned_and_drained_again() {
    // Rules 7 and 8.
    let mut journal = Writer::new();
    journal.start(Action::Cordon, Some(Evidence::WasCordoned(false)));
    journal.end(Action::Cordon, DONE);
    journal.start(Action::Drain, None);
    journal.end(Action::Drain, failed());
    journal.start(Action::Uncordon, None);
    journal.end(Action::Uncordon, DONE);
    assert_eq!(*journal.phase(Action::Cordon), Phase::Pending);
    assert_eq!(*journal.phase(Action::Uncordon), Phase::Pending);
    assert!(matches!(journal.phase(Action::Drain), Phase::Failed { .. }));
    journal.write(Record::Resumed { by: "ada".to_owned() }).unwrap();
    assert_eq!(*journal.phase(Action::Drain), Phase::InDoubt);
    assert_eq!(journal.state.step(&step(Action::Drain)).unwrap().tried, 0);
}

#[test]
fn entries_that_do_not_fit_are_refused_and_change_nothing() {
    // Rules 8 and 9.
    let mut journal = Writer::new();
    journal.start(Action::Drain, None);
    let again = Record::Started { step: step(Action::Drain), attempt: 2, evidence: None };
    assert_eq!(journal.write(again), Err(FoldError::BeganTwice(step(Action::Drain))));
    let other = Record::Finished { step: step(Action::Drain), attempt: 7, outcome: DONE };
    assert!(matches!(journal.write(other), Err(FoldError::NotRunning { attempt: 7, .. })));
    journal.end(Action::Drain, DONE);
    let after = Record::Started { step: step(Action::Drain), attempt: 2, evidence: None };
    assert!(journal.write(after).is_err());
    let unknown = Record::Started { step: step(Action::Forfeit), attempt: 1, evidence: None };
    assert!(matches!(journal.write(unknown), Err(FoldError::UnknownStep(_))));

    let foreign = Entry {
        at: Timestamp::UNIX_EPOCH,
        plan: serde_json::from_str("\"cafe\"").unwrap(),
        runner: "other".to_owned(),
        record: Record::Completed,
    };
    assert!(matches!(journal.state.apply(&foreign), Err(FoldError::OtherPlan { .. })));
    assert!(!journal.state.completed());
}

#[test]
fn only_disruption_makes_an_observation_stale() {
    // Rule 2.
    let mut journal = Writer::new();
    journal.start(Action::Install, None);
    journal.end(Action::Install, DONE);
    assert_eq!(journal.state.observe_after(), None);
    journal.start(Action::Reboot, None);
    journal.end(Action::Reboot, DONE);
    assert_eq!(journal.state.observe_after(), Some(journal.entries.last().unwrap().at));
}

#[test]
fn the_fold_of_json_lines_is_the_same_state() {
    let mut journal = Writer::new();
    journal.write(Record::Began).unwrap();
    journal.start(Action::Cordon, Some(Evidence::WasCordoned(false)));
    journal.end(Action::Cordon, DONE);
    journal.write(Record::Waiting { key: "etcd-unsafe/cp-1".to_owned() }).unwrap();
    journal.start(Action::Drain, None);
    journal.end(Action::Drain, failed());
    let why = HaltReason::StepFailed {
        step: step(Action::Drain),
        attempt: 1,
        failure: Failure::new(FailureKind::Drain, "pods remain"),
    };
    journal.write(Record::Halted { why: why.clone() }).unwrap();
    let lines: Vec<String> =
        journal.entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    let read: Vec<Entry> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, journal.entries);
    let state = State::fold(&plan(), &read).unwrap();
    assert_eq!(state.steps(), journal.state.steps());
    assert_eq!(state.halted(), Some(&why));
    assert_eq!(state.progress(), (1, 6));
}

#[test]
fn a_cordon_that_failed_and_was_lifted_is_ours_again() {
    // Rule 7: found by the simulation. The first attempt may have happened, so
    // it is lifted; the second is checked again.
    let mut journal = Writer::new();
    let free = Some(Evidence::WasCordoned(false));
    journal.start(Action::Cordon, free.clone());
    journal.end(Action::Cordon, failed());
    journal.start(Action::Uncordon, None);
    journal.end(Action::Uncordon, DONE);
    assert_eq!(journal.state.our_cordons().count(), 0);
    journal.write(Record::Resumed { by: "me".to_owned() }).unwrap();
    assert_eq!(journal.state.step(&step(Action::Cordon)).unwrap().evidence, None);
    journal.start(Action::Cordon, free);
    assert_eq!(journal.state.our_cordons().count(), 1);
}

#[test]
fn cordons_of_the_run_before_are_remembered_until_they_are_gone() {
    // Rule 7.
    let mut journal = Writer::new();
    let cordons = ["w-1".into(), "w-2".into()].into();
    journal.write(Record::Inherited { cordons, armed: BTreeMap::new() }).unwrap();
    journal.write(Record::Lifted { node: "w-2".into() }).unwrap();
    assert_eq!(journal.state.inherited_cordons().iter().collect::<Vec<_>>(), [&"w-1".into()]);
    journal.start(Action::Cordon, Some(Evidence::WasCordoned(false)));
    assert!(journal.state.inherited_cordons().is_empty(), "it has a lane of its own now");
}

#[test]
fn cordons_that_were_not_journaled_are_left_by_a_run_that_died_too_early() {
    // Rule 7: what was told at the beginning counts until it was written down.
    let inherited = ["w-1".into(), "w-2".into()].into();
    let mut journal = Writer::new();
    assert_eq!(journal.state.cordons_left(&inherited), inherited);
    let armed = BTreeMap::new();
    journal.write(Record::Inherited { cordons: inherited.clone(), armed }).unwrap();
    journal.write(Record::Lifted { node: "w-2".into() }).unwrap();
    assert_eq!(journal.state.cordons_left(&inherited), ["w-1".into()].into(), "w-2 was uncordoned");
}

#[test]
fn what_was_unmet_before_is_remembered_and_older_journals_are_read() {
    // Rule 10: the first look counts, across restarts.
    let mut journal = Writer::new();
    let unmet = vec![UnmetCondition { name: "time".into(), reason: "not synced".into() }];
    let before = Evidence::NotReady { boot_id: "a".to_owned(), unmet: unmet.clone() };
    journal.start(Action::Reboot, Some(before.clone()));
    journal.write(Record::Began).unwrap();
    journal.start(Action::Reboot, Some(Evidence::BootId("b".to_owned())));
    let evidence = journal.state.step(&step(Action::Reboot)).unwrap().evidence.clone().unwrap();
    assert_eq!(evidence, before);
    assert_eq!((evidence.boot_id(), evidence.unmet()), (Some("a"), unmet.as_slice()));
    for evidence in [before, Evidence::Unmet(unmet), Evidence::BootId("a".to_owned())] {
        let json = serde_json::to_string(&evidence).unwrap();
        assert_eq!(serde_json::from_str::<Evidence>(&json).unwrap(), evidence, "{json}");
    }
    let older: Evidence = serde_json::from_str(r#"{"boot-id": "a"}"#).unwrap();
    assert_eq!((older.boot_id(), older.unmet().len()), (Some("a"), 0));
}
