//! The run's memory as processes share it: its journal, and the lease that says
//! who may write and act (rule 9).
//!
//! It is what a journal on a shared disk or in an API server is: entries are
//! fenced by the lease, the lease by time. A process that could not renew it for
//! `RENEWED_WITHIN` does nothing any more; another one takes it over after
//! `TAKEN_AFTER`, which is later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, State};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_engine::io::Clock as _;
use upgrade_engine::journal::{Fence, Journal, JournalError, Lost, MemoryJournal, MemoryStore};
use upgrade_engine::store::OpenRun;

use crate::crash::Point;
use crate::trace::{ProcessId, TraceKind};
use crate::world::SharedWorld;
use crate::world::process_io::Process;

/// How old a lease may be for its holder to act.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// How old it is when another process may take it.
pub const TAKEN_AFTER: SignedDuration = SignedDuration::from_secs(15);

/// How often it is renewed.
pub const RENEWED_EVERY: SignedDuration = SignedDuration::from_secs(4);

/// The memory of a cluster's runs.
pub struct JournalStore {
    inner: Mutex<Inner>,
    shared: Arc<SharedWorld>,
}

struct Inner {
    runs: MemoryStore,
    /// The hash of the newest run's plan.
    hash: Option<PlanHash>,
    holder: Option<(ProcessId, Timestamp)>,
    /// Renewals fail before this moment.
    renewals_lost_until: Timestamp,
}

impl JournalStore {
    /// Nothing was done yet.
    pub fn new(shared: &Arc<SharedWorld>) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                runs: MemoryStore::default(),
                hash: None,
                holder: None,
                renewals_lost_until: Timestamp::MIN,
            }),
            shared: Arc::clone(shared),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.shared.clock().now()
    }

    /// Takes the lease, if no process has it.
    pub fn take(&self, runner: ProcessId) -> bool {
        let now = self.now();
        let mut inner = self.lock();
        let free = inner
            .holder
            .is_none_or(|(holder, at)| holder == runner || now.duration_since(at) > TAKEN_AFTER);
        if free {
            inner.holder = Some((runner, now));
        }
        free
    }

    /// Renews it; without effect if another process has it, or while renewals are lost.
    pub fn renew(&self, runner: ProcessId) {
        let now = self.now();
        let mut inner = self.lock();
        let lost = now < inner.renewals_lost_until;
        if let Some((holder, at)) = &mut inner.holder
            && *holder == runner
            && !lost
        {
            *at = now;
        }
    }

    /// Gives it up.
    pub fn release(&self, runner: ProcessId) {
        let mut inner = self.lock();
        if inner.holder.is_some_and(|(holder, _)| holder == runner) {
            inner.holder = None;
        }
    }

    /// Renewals are lost for a while.
    pub fn lose_renewals(&self, until: Timestamp) {
        self.lock().renewals_lost_until = until;
    }

    /// Begins a run in place of the one before, whose cordons are inherited.
    pub fn begin(&self, plan: Plan) {
        let mut inner = self.lock();
        inner.hash = Some(plan.hash());
        inner.runs.begin_now(plan, true).expect("entries that the engine wrote fit their plan");
    }

    /// Opens the newest run for a process.
    pub fn open(self: &Arc<Self>, process: &Arc<Process>) -> Option<OpenRun<SharedJournal>> {
        let OpenRun { plan, state, journal, inherited } = self.lock().runs.resume_now().ok()?;
        let (store, process) = (Arc::clone(self), Arc::clone(process));
        let journal = SharedJournal { store, process, journal };
        Some(OpenRun { plan, state, journal, inherited })
    }

    /// All plans so far, the newest last.
    pub fn plans(&self) -> Vec<Arc<Plan>> {
        self.lock().runs.plans()
    }

    fn holds(&self, runner: ProcessId) -> Result<(), String> {
        let now = self.now();
        match self.lock().holder {
            Some((holder, at)) if holder == runner => {
                let age = now.duration_since(at);
                if age > RENEWED_WITHIN {
                    return Err(format!("the lease was not renewed for {age:#}"));
                }
                Ok(())
            }
            Some((other, _)) => Err(format!("process {other} has it")),
            None => Err("nobody has it".to_owned()),
        }
    }
}

/// The journal, as one process has it.
pub struct SharedJournal {
    store: Arc<JournalStore>,
    process: Arc<Process>,
    journal: MemoryJournal,
}

impl Journal for SharedJournal {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.process.passes(Point::BeforeWrite).await;
        let runner = self.process.runner();
        {
            let now = self.store.now();
            let inner = self.store.lock();
            let ours = inner.holder.is_some_and(|(holder, at)| {
                holder == runner && now.duration_since(at) <= TAKEN_AFTER
            });
            // The same run as when it was opened: another plan is another journal.
            let same = inner.hash.as_ref() == Some(&entry.plan);
            if !(ours && same) {
                return Err(JournalError("another process has the run".to_owned()));
            }
        }
        self.journal.append(entry, state).await?;
        self.store.shared.at(|inside| {
            inside.show(TraceKind::Wrote { runner, entry: Box::new(entry.clone()) });
        });
        self.process.passes(Point::AfterWrite).await;
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        let (store, runner) = (Arc::clone(&self.store), self.process.runner());
        Arc::new(Lease { store, runner })
    }
}

struct Lease {
    store: Arc<JournalStore>,
    runner: ProcessId,
}

impl Fence for Lease {
    fn holds(&self) -> Result<(), Lost> {
        self.store.holds(self.runner).map_err(Lost)
    }
}
