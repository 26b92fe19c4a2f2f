//! Where runs are kept: one interface for all stores.
//!
//! [`Folder`](crate::journal::Folder) keeps runs on disk, `UpgradeRun` objects in a cluster,
//! [`MemoryStore`](crate::journal::MemoryStore) in memory. A store opens a run with its journal
//! folded once ([`OpenRun`]); from then on [`drive()`](crate::drive()) has the only fold, and
//! passes it to the journal with each entry.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use upgrade_core::jiff;
use upgrade_core::journal::{Armed, Entry, FoldError, State};
use upgrade_core::plan::{Plan, PlanHash, Versions};
use upgrade_core::snapshot::NodeName;

use crate::journal::Journal;

pub use upgrade_view::RunResult;

/// The runs of one cluster, for the process that has its lock or lease (rule 9).
pub trait RunStore: Send + Sync {
    /// Where the entries of a run go.
    type Journal: Journal;
    /// Why a run could not be read or written.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The newest run that has a plan.
    fn last(&self) -> impl Future<Output = Result<Option<StoredRun>, Self::Error>> + Send;

    /// Every run that has a plan, the newest first.
    fn runs(&self) -> impl Future<Output = Result<Vec<StoredRun>, Self::Error>> + Send;

    /// Stores a new run, and opens it. A run that has not ended is replaced on request only
    /// ([`take_over`]).
    fn begin(
        &self,
        plan: Plan,
        replace: bool,
    ) -> impl Future<Output = Result<OpenRun<Self::Journal>, Self::Error>> + Send;

    /// Opens the newest run.
    fn resume(&self) -> impl Future<Output = Result<OpenRun<Self::Journal>, Self::Error>> + Send;
}

/// What earlier runs left to this one, as it was known when this one began. Stores keep it: a
/// process may die before its first entry, which says that it took it over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// Nodes that they cordoned and did not uncordon: these cordons are ours to lift (rule 7).
    #[serde(rename = "inherited_cordons", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub cordons: BTreeSet<NodeName>,
    /// Nodes that they left armed, or may have: no installer runs on them (rule 5).
    #[serde(rename = "inherited_armed", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub armed: BTreeMap<NodeName, Armed>,
}

impl Inherited {
    /// Whether they left nothing.
    pub fn is_empty(&self) -> bool {
        let Self { cordons, armed } = self;
        cordons.is_empty() && armed.is_empty()
    }
}

/// A run that this process holds, and may drive.
#[derive(Debug)]
pub struct OpenRun<J> {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The fold of its journal.
    pub state: State,
    /// Where its next entries go.
    pub journal: J,
    /// What earlier runs left to it.
    pub inherited: Inherited,
}

impl<J> OpenRun<J> {
    /// A run in which nothing was done yet.
    pub fn new(plan: Arc<Plan>, inherited: Inherited, journal: J) -> Self {
        Self { state: State::new(&plan), plan, journal, inherited }
    }

    /// A run as it was stored.
    pub fn of(run: StoredRun, journal: J) -> Result<Self, Unfit> {
        let state = run.state()?;
        let StoredRun { plan, inherited, .. } = run;
        Ok(Self { plan, state, journal, inherited })
    }
}

/// A run as it is stored.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Its name among the cluster's runs.
    pub name: String,
    /// When it was stored.
    pub began: Timestamp,
    /// Its plan.
    pub plan: Arc<Plan>,
    /// What earlier runs left to it.
    pub inherited: Inherited,
    /// All entries.
    pub entries: Vec<Entry>,
}

/// A journal whose entries do not fit their plan.
#[derive(Debug, Error)]
#[error("the journal of the run {name} does not fit its plan")]
pub struct Unfit {
    /// The run.
    pub name: String,
    /// Why not.
    pub source: Box<FoldError>,
}

impl StoredRun {
    /// The fold of its entries.
    pub fn state(&self) -> Result<State, Unfit> {
        State::fold(&self.plan, &self.entries)
            .map_err(|source| Unfit { name: self.name.clone(), source: Box::new(source) })
    }

    /// Its result so far.
    pub fn result(&self) -> Result<RunResult, Unfit> {
        Ok(RunResult::of(&self.state()?))
    }

    /// What it leaves to the next run.
    pub fn left(&self) -> Result<Inherited, Unfit> {
        let state = self.state()?;
        Ok(Inherited {
            cordons: state.cordons_left(&self.inherited.cordons),
            armed: state.armed_left(&self.inherited.armed),
        })
    }

    /// Its summary.
    pub fn summary(&self) -> Result<Summary, Unfit> {
        let state = self.state()?;
        let (done, steps) = state.progress();
        let last = self.entries.last();
        Ok(Summary {
            name: self.name.clone(),
            cluster: self.plan.cluster.clone(),
            plan: state.plan().clone(),
            rollback: self.plan.rollback,
            from: self.plan.from.clone(),
            to: self.plan.to.clone(),
            began: self.began,
            last: last.map_or(self.began, |entry| entry.at),
            runner: last.map(|entry| entry.runner.clone()),
            result: RunResult::of(&state),
            done,
            steps,
        })
    }
}

/// Why a run may not begin.
#[derive(Debug, Error)]
pub enum NotBegun {
    /// The last run has not ended, and another plan would forget it.
    #[error("the run of plan {} has not ended ({ended})", plan.short())]
    Unfinished {
        /// Its plan.
        plan: PlanHash,
        /// Its result so far.
        ended: Box<RunResult>,
    },
    /// Its entries do not fit its plan, so what it left is unknown.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

/// What a new run takes over from the last one. A run that acted and has not ended is replaced on
/// request only: what it left behind would be forgotten.
pub fn take_over(last: Option<&StoredRun>, replace: bool) -> Result<Inherited, NotBegun> {
    let Some(last) = last else { return Ok(Inherited::default()) };
    let state = last.state()?;
    let touched = state.steps().iter().any(|step| step.attempts > 0);
    if touched && !state.completed() && !replace {
        let ended = Box::new(RunResult::of(&state));
        return Err(NotBegun::Unfinished { plan: state.plan().clone(), ended });
    }
    Ok(last.left()?)
}

/// The summary of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Its name among the cluster's runs.
    pub name: String,
    /// The cluster.
    pub cluster: String,
    /// Its plan.
    pub plan: PlanHash,
    /// Whether it was an explicit rollback.
    pub rollback: bool,
    /// What ran before.
    pub from: Versions,
    /// What it leads to.
    pub to: Versions,
    /// When it began.
    pub began: Timestamp,
    /// When the last entry was written.
    pub last: Timestamp,
    /// Who wrote it.
    pub runner: Option<String>,
    /// Its result so far.
    #[serde(flatten)]
    pub result: RunResult,
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub steps: usize,
}
