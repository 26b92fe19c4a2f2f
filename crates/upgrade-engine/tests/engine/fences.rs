//! A process that lost the run to another one does nothing more, wherever it
//! stands: not even the act that it has just written down (rules 8 and 9).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc};
use upgrade_core::journal::{Entry, State};
use upgrade_engine::drive;
use upgrade_engine::drive::{DriveError, End};
use upgrade_engine::journal::{Fence, Folder, Holder, Journal, JournalError, Lost, MemoryJournal};

use crate::common::{Driver, World, planned, policy, seconds};

/// Whether the run is still this process's.
#[derive(Default)]
struct Taken(AtomicBool);

impl Fence for Taken {
    fn holds(&self) -> Result<(), Lost> {
        let taken = self.0.load(Ordering::Relaxed);
        if taken { Err(Lost("another process took it".to_owned())) } else { Ok(()) }
    }
}

/// A journal whose process is suspended right after an entry, loses the run, and
/// continues when it is woken.
struct Sleeper {
    journal: MemoryJournal,
    fence: Arc<Taken>,
    stops_after: usize,
    stopped: mpsc::UnboundedSender<()>,
    woken: Arc<Notify>,
}

impl Journal for Sleeper {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.journal.append(entry, state).await?;
        if self.journal.entries().len() == self.stops_after {
            self.fence.0.store(true, Ordering::Relaxed);
            self.stopped.send(()).unwrap();
            self.woken.notified().await;
        }
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.fence) as Arc<dyn Fence>
    }
}

async fn driver(from: &str, to: &str) -> Driver {
    let world = World::new(3, 1, from);
    let plan = planned(&world, to, &policy(1)).await;
    Driver::new(&world, &plan)
}

/// How many entries a run has that nothing happens to.
async fn entries(from: &str, to: &str) -> usize {
    let mut calm = driver(from, to).await;
    calm.go().await;
    calm.journal.entries().len()
}

#[tokio::test(start_paused = true)]
async fn stopped_after_any_entry_it_does_not_act_when_it_wakes() {
    for (from, to) in [("1.12.1", "1.12.11"), ("1.13.1", "1.13.9")] {
        // The last entry says that all is done.
        for stops_after in 1..entries(from, to).await {
            let mut second = driver(from, to).await;
            let (stopped, mut stop) = mpsc::unbounded_channel();
            let woken = Arc::new(Notify::new());
            let journal = Sleeper {
                journal: second.journal.clone(),
                fence: Arc::default(),
                stops_after,
                stopped,
                woken: Arc::clone(&woken),
            };
            let (run, _events) = second.run(journal, None);
            let first = tokio::spawn(drive(run));
            stop.recv().await.unwrap();
            // Another process does all that is left.
            let (end, _) = second.go().await;
            assert_eq!(end, End::Done, "{}", second.trace());
            let before = (second.journal.entries(), second.world.cluster().acts.clone());
            woken.notify_one();
            let end = first.await.unwrap();
            assert!(matches!(end, Err(DriveError::Lost(_))), "{end:?}\n{}", second.trace());
            seconds(300).await;
            let after = (second.journal.entries(), second.world.cluster().acts.clone());
            assert_eq!(before, after, "stopped after {stops_after}");
            second.assert_upgraded(to);
        }
    }
}

/// A fence that falls at a moment, as a lease does that is not renewed.
struct Lease {
    world: Arc<World>,
    until: upgrade_core::jiff::Timestamp,
}

impl Fence for Lease {
    fn holds(&self) -> Result<(), Lost> {
        let over = self.world.now() >= self.until;
        if over { Err(Lost("the lease ran out".to_owned())) } else { Ok(()) }
    }
}

struct Leased {
    journal: MemoryJournal,
    fence: Arc<Lease>,
}

impl Journal for Leased {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.journal.append(entry, state).await
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.fence) as Arc<dyn Fence>
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_or_written_after_the_lease() {
    let (from, to) = ("1.13.1", "1.13.9");
    let mut calm = driver(from, to).await;
    let began = calm.world.now();
    calm.go().await;
    let length = calm.world.now().duration_since(began).as_secs();
    for second in (0..length).step_by(7) {
        let mut driver = driver(from, to).await;
        let world = Arc::clone(&driver.world);
        let until = world.now() + upgrade_core::jiff::SignedDuration::from_secs(second);
        let fence = Arc::new(Lease { world: Arc::clone(&world), until });
        let (run, _events) = driver.run(Leased { journal: driver.journal.clone(), fence }, None);
        let first = tokio::spawn(drive(run));
        seconds(u64::try_from(second).unwrap()).await;
        let before = (driver.journal.entries(), world.cluster().acts.clone());
        let end = first.await.unwrap();
        let after = (driver.journal.entries(), world.cluster().acts.clone());
        assert!(matches!(end, Err(DriveError::Lost(_))), "{second}: {end:?}");
        assert_eq!(before, after, "{second}");
        assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
        driver.assert_upgraded(to);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_loses_the_lock_file_ends_where_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    let mut driver = driver("1.13.1", "1.13.9").await;
    let holder = Holder::this_process(driver.world.now());
    let opened = folder.begin((*driver.plan).clone(), &holder, false).unwrap();
    let fence = opened.journal.fence();
    let (run, _events) = driver.run(opened.journal, None);
    let first = tokio::spawn(drive(run));
    while driver.world.acts_of("cordon").is_empty() {
        seconds(1).await;
    }
    assert_eq!(fence.holds(), Ok(()));
    std::fs::remove_file(dir.path().join("run.lock")).unwrap();
    let acts = driver.world.cluster().acts.clone();
    let lost = fence.holds().unwrap_err().to_string();
    assert!(lost.contains("taken away"), "{lost}");
    let end = first.await.unwrap();
    assert!(matches!(end, Err(DriveError::Lost(_))), "{end:?}");
    assert_eq!(driver.world.cluster().acts, acts);
    // The next process finds what was written and continues from there.
    drop(folder.resume(&holder).unwrap());
    for entry in folder.last().unwrap().unwrap().entries {
        let state = driver.state();
        driver.journal.append(&entry, &state).await.unwrap();
    }
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
}

#[tokio::test(start_paused = true)]
async fn a_closed_journal_is_a_lost_one() {
    let dir = tempfile::tempdir().unwrap();
    let driver = driver("1.13.1", "1.13.9").await;
    let holder = Holder::this_process(driver.world.now());
    let folder = Folder::new(dir.path());
    let opened = folder.begin((*driver.plan).clone(), &holder, false).unwrap();
    let fence = opened.journal.fence();
    drop(opened);
    assert!(fence.holds().is_err());
    // A fence that is still in use does not keep the lock.
    folder.resume(&holder).unwrap();
}
