//! The journal on disk: two runners, torn lines, lost locks, bounded history.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use upgrade_core::journal::{Entry, Record};
use upgrade_core::plan::Plan;
use upgrade_engine::control::Command;
use upgrade_engine::drive;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::journal::{FileError, FileJournal, Folder, Holder, Journal as _};
use upgrade_engine::store::{OpenRun, RunResult};

use crate::common::{World, planned, policy};

fn holder(second: i64) -> Holder {
    let start = "2026-11-15T00:00:00Z".parse::<upgrade_core::jiff::Timestamp>().unwrap();
    Holder::this_process(start + upgrade_core::jiff::SignedDuration::from_secs(second))
}

fn entry(plan: &Plan, record: Record) -> Entry {
    let at = "2026-11-15T00:00:00Z".parse().unwrap();
    Entry { at, plan: plan.hash(), runner: "test".to_owned(), record }
}

async fn finish(world: &Arc<World>, open: OpenRun<FileJournal>) -> End {
    let (events, _events) = mpsc::unbounded_channel();
    let control = watch::Sender::new(Command::Continue);
    let run = Run {
        open,
        io: Arc::clone(world),
        runner: "test".to_owned(),
        events: Arc::new(events),
        control: control.subscribe(),
        resumed_by: None,
    };
    drive(run).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_resumed_from_its_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().join("prod"));
    let world = World::new(3, 1, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let mut opened = folder.begin((*plan).clone(), &holder(0), false).unwrap();
    opened.journal.append(&entry(&plan, Record::Began), &opened.state).await.unwrap();
    drop(opened);
    let opened = folder.resume(&holder(1)).unwrap();
    assert_eq!((opened.state.last_at().is_some(), opened.plan.hash()), (true, plan.hash()));
    assert_eq!(finish(&world, opened).await, End::Done);
    let runs = folder.runs().unwrap();
    let run = runs[0].summary().unwrap();
    assert_eq!(run.result, RunResult::Completed);
    assert_eq!((run.done, run.plan), (run.steps, plan.hash()));
    assert!(runs[0].entries.len() > 20);
}

#[tokio::test(start_paused = true)]
async fn a_second_runner_is_refused_by_name() {
    // Rule 9.
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    let world = World::new(3, 0, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    assert!(folder.holder().unwrap().is_none());
    assert!(matches!(folder.resume(&holder(0)), Err(FileError::NoRun(_))));
    let first = folder.begin((*plan).clone(), &holder(7), false).unwrap();
    assert_eq!(folder.holder().unwrap(), Some(holder(7)));
    let error = folder.resume(&holder(8)).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(error.contains("2026-11-15T00:00:07Z"), "{error}");
    drop(first);
    assert!(folder.holder().unwrap().is_none());
    folder.resume(&holder(9)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_loses_the_lock_writes_no_more() {
    // Rule 9: the fence.
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    let world = World::new(3, 0, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let mut first = folder.begin((*plan).clone(), &holder(0), false).unwrap();
    fs::remove_file(dir.path().join("run.lock")).unwrap();
    let mut second = folder.resume(&holder(1)).unwrap();
    let began = entry(&plan, Record::Began);
    let error = first.journal.append(&began, &first.state).await.unwrap_err().to_string();
    assert!(error.contains("taken away"), "{error}");
    second.journal.append(&began, &second.state).await.unwrap();
    assert_eq!(folder.last().unwrap().unwrap().entries.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_torn_last_line_loses_nothing_and_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    let world = World::new(3, 0, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let mut opened = folder.begin((*plan).clone(), &holder(0), false).unwrap();
    opened.journal.append(&entry(&plan, Record::Began), &opened.state).await.unwrap();
    drop(opened);
    let path = dir.path().join("run.jsonl");
    let whole = fs::read(&path).unwrap();
    for torn in ["{\"at\":\"2026-", "{\"at\":\u{0}\u{0}\u{0}}\n"] {
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(torn.as_bytes()).unwrap();
        assert_eq!(folder.last().unwrap().unwrap().entries.len(), 1);
        assert!(folder.resume(&holder(1)).unwrap().state.last_at().is_some());
        assert_eq!(fs::read(&path).unwrap(), whole, "cut off");
    }
    // A broken line in the middle is another matter.
    let mut broken = whole.clone();
    broken.extend(b"nonsense\n");
    broken.extend(serde_json::to_vec(&entry(&plan, Record::Began)).unwrap());
    broken.push(b'\n');
    fs::write(&path, broken).unwrap();
    let error = folder.resume(&holder(1)).unwrap_err().to_string();
    assert!(error.contains("damaged at line 3"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_did_not_end_is_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    let world = World::new(3, 1, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let mut opened = folder.begin((*plan).clone(), &holder(0), false).unwrap();
    for record in [
        Record::Began,
        Record::Started {
            step: "1/worker-1/install".parse().unwrap(),
            attempt: 1,
            evidence: Some(upgrade_core::journal::Evidence::BootId("an old boot".to_owned())),
        },
        Record::Started {
            step: "1/worker-1/cordon".parse().unwrap(),
            attempt: 1,
            evidence: Some(upgrade_core::journal::Evidence::WasCordoned(false)),
        },
    ] {
        opened.journal.append(&entry(&plan, record), &opened.state).await.unwrap();
    }
    drop(opened);
    world.change(|cluster| {
        let sim = cluster.sim(&"worker-1".into());
        (sim.unschedulable, sim.marked) = (true, true);
    });
    let next = planned(&world, "1.13.8", &policy(1)).await;
    let error = folder.begin((*next).clone(), &holder(1), false).unwrap_err().to_string();
    assert!(error.contains("has not ended"), "{error}");
    // Replaced on purpose, its cordon is still ours to lift (rule 7).
    let opened = folder.begin((*next).clone(), &holder(2), true).unwrap();
    assert_eq!(opened.inherited.cordons, ["worker-1".into()].into());
    // And what its installer may have left is remembered (rule 5).
    let known = opened.inherited.armed[&"worker-1".into()].clone();
    assert_eq!(known.image.tag.as_deref(), Some("v1.13.9"));
    assert_eq!(known.state, upgrade_core::journal::Arming::Unheard);
    // It dies before its first entry, and so does the one that takes its place.
    drop(opened);
    let opened = folder.resume(&holder(3)).unwrap();
    assert_eq!(opened.inherited.cordons, ["worker-1".into()].into());
    drop(opened);
    drop(folder.begin((*next).clone(), &holder(4), false).unwrap());
    let opened = folder.resume(&holder(5)).unwrap();
    assert_eq!(opened.inherited.cordons, ["worker-1".into()].into());
    assert_eq!(opened.inherited.armed, [("worker-1".into(), known)].into());
    assert_eq!(finish(&world, opened).await, End::Done);
    assert!(world.cluster().cordoned().is_empty());
    assert_eq!(folder.runs().unwrap().len(), 3);
    assert_eq!(folder.last().unwrap().unwrap().result().unwrap(), RunResult::Completed);
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_runs_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    let world = World::new(3, 0, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    for second in 0..30 {
        folder.begin((*plan).clone(), &holder(second), false).unwrap();
    }
    let runs = folder.runs().unwrap();
    assert_eq!(runs.len(), 21);
    assert!(runs.windows(2).all(|pair| pair[0].began > pair[1].began));
}
