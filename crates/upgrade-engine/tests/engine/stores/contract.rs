//! The contract of a run store, for plans with a `worker-1` that is installed on and
//! cordoned. The second plan names the first as the one that it replaces.

use upgrade_core::journal::{Arming, Entry, Evidence, Phase, Record, State};
use upgrade_core::plan::Plan;
use upgrade_core::step::StepId;
use upgrade_engine::journal::Journal;
use upgrade_engine::store::{OpenRun, RunResult, RunStore};

const INSTALL: &str = "1/worker-1/install";

fn entries(plan: &Plan) -> Vec<Entry> {
    let started = |step: &str, evidence| Record::Started {
        step: step.parse().expect("a step"),
        attempt: 1,
        evidence: Some(evidence),
    };
    let records = [
        Record::Began,
        started(INSTALL, Evidence::BootId("an old boot".to_owned())),
        started("1/worker-1/cordon", Evidence::WasCordoned(false)),
    ];
    let entry = |record| Entry {
        at: "2026-11-15T00:00:00Z".parse().expect("a time"),
        plan: plan.hash(),
        runner: "test".to_owned(),
        record,
    };
    records.map(entry).into()
}

/// Appends as the driver does: the fold first, then the journal is shown it.
async fn write<J: Journal>(open: &mut OpenRun<J>, entries: &[Entry]) {
    for entry in entries {
        open.state.apply(entry).expect("an entry that fits");
        open.journal.append(entry, &open.state).await.expect("a journal that can be written");
    }
}

fn phase(state: &State, step: &str) -> Phase {
    let step: StepId = step.parse().expect("a step");
    state.step(&step).expect("a step of the plan").phase.clone()
}

/// Plays it on an empty store.
pub(crate) async fn keeps_runs<S: RunStore>(store: &S, first: &Plan, second: &Plan) {
    assert!(store.last().await.expect("readable").is_none());
    assert!(store.resume().await.is_err(), "there is nothing to resume");

    // The next process finds what was written, and its fold.
    let mut open = store.begin(first.clone(), false).await.expect("begun");
    assert_eq!((open.plan.hash(), open.state.last_at()), (first.hash(), None));
    assert!(open.inherited.is_empty());
    let written = entries(first);
    write(&mut open, &written).await;
    drop(open);
    let open = store.resume().await.expect("there");
    assert_eq!((&*open.plan, open.state.plan()), (first, &first.hash()));
    assert_eq!(open.state.last_at(), Some(written[0].at));
    assert!(matches!(phase(&open.state, INSTALL), Phase::Running { .. }));
    drop(open);
    let last = store.last().await.expect("readable").expect("there");
    assert_eq!(last.entries, written);
    assert_eq!(last.result().expect("a fold"), RunResult::Open);

    // Nothing is forgotten: another plan needs a word, and takes over what was left
    // (rules 5 and 7), also if its process dies before its first entry.
    let error = store.begin(second.clone(), false).await.err().expect("it did not end");
    assert!(error.to_string().contains("has not ended"), "{error}");
    drop(store.begin(second.clone(), true).await.expect("replaced"));
    let mut open = store.resume().await.expect("there");
    assert_eq!(open.plan.hash(), second.hash());
    assert_eq!(open.inherited.cordons, ["worker-1".into()].into());
    assert_eq!(open.inherited.armed[&"worker-1".into()].state, Arming::Unheard);
    let completed = Entry { plan: second.hash(), record: Record::Completed, ..written[0].clone() };
    write(&mut open, &[completed]).await;
    drop(open);

    // All are kept, the newest first.
    let runs = store.runs().await.expect("readable");
    let hashes: Vec<_> = runs.iter().map(|run| run.plan.hash()).collect();
    assert_eq!(hashes, [second.hash(), first.hash()]);
    assert_eq!(runs[0].result().expect("a fold"), RunResult::Completed);
    assert_ne!(runs[0].name, runs[1].name);
}
