//! The seam between the controller and a front end.
//!
//! A front end says what is desired for a cluster, decides purely what happens next, and
//! shows its users what came of it, in its own words. The controller does the rest: leases,
//! observations, plans, runs and the engine. Nothing here knows a kind of a front end.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;
use upgrade_api::UpgradeRun;
use upgrade_api::run::{RunPhase, RunVersions};
use upgrade_core::advice::Advice;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::Policy;
use upgrade_core::product::PerProduct;
use upgrade_core::snapshot::NodeName;
use upgrade_planner::report::Warning;

use crate::api_call::CallError;
use crate::cluster::{ClusterAccess, ClusterRef};
use crate::connect::AccessError;
use crate::observe::ObserveError;
use crate::plan::PlanError;
use crate::run::InheritError;
use crate::versions_observed::ObservedVersions;

/// What an object asks for, before anything is known of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// The cluster.
    pub cluster: ClusterRef,
    /// The wanted versions as they were written. Another text is judged on a new
    /// observation.
    pub targets: PerProduct<Option<String>>,
    /// Nodes that are not machines of the cluster (rule 10).
    pub foreign_nodes: BTreeSet<NodeName>,
    /// The user keeps the controller away from the object.
    pub hands_off: bool,
    /// The status that the object shows for each product, for metrics.
    pub shown: PerProduct<Option<&'static str>>,
    /// Whether the object shows any status. The first one is written before anything is done.
    pub has_status: bool,
}

impl Desired {
    /// Whether a version is wanted.
    pub fn has_target(&self) -> bool {
        self.targets.talos.is_some() || self.targets.kubernetes.is_some()
    }
}

/// The newest run of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// The name of its object.
    pub name: String,
    /// The hash of its plan; empty if it has none.
    pub hash: String,
    /// Which versions it changes.
    pub versions: RunVersions,
    /// Whether it is a rollback.
    pub rollback: bool,
    /// Its phase.
    pub phase: RunPhase,
    /// The same in a sentence.
    pub message: String,
    /// Nodes done.
    pub done: usize,
    /// Nodes in all.
    pub total: usize,
    /// Its target was removed since it ended, if only for a moment.
    pub withdrawn: bool,
}

impl RunView {
    /// Reads it from its object.
    pub fn of(run: &UpgradeRun) -> Self {
        let status = run.status.clone().unwrap_or_default();
        let (done, total) = status.progress.split_once('/').unwrap_or(("0", "0"));
        Self {
            name: run.metadata.name.clone().unwrap_or_default(),
            hash: run.spec.hash.clone(),
            versions: run.spec.versions.clone(),
            rollback: run.spec.rollback,
            phase: status.phase,
            message: status.message,
            done: done.parse().unwrap_or(0),
            total: total.parse().unwrap_or(0),
            withdrawn: false,
        }
    }

    /// What it upgrades, as the label of a metric.
    pub fn product(&self) -> &'static str {
        let to = &self.versions.to;
        match (&to.talos, &to.kubernetes) {
            (Some(_), Some(_)) => "both",
            (None, Some(_)) => "Kubernetes",
            (_, None) => "Talos",
        }
    }
}

/// Known releases.
#[derive(Clone, Copy, Debug)]
pub struct Releases<'a> {
    /// Which versions support each other.
    pub matrix: &'a Matrix,
    /// The known releases.
    pub catalogue: &'a Catalogue,
}

/// What a front end decides on, beside its object.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The versions that run; `None` before the first observation.
    pub versions: Option<Result<&'a ObservedVersions, &'a ObserveError>>,
    /// The newest run.
    pub run: Option<&'a RunView>,
    /// Known releases.
    pub releases: Releases<'a>,
}

/// What to do next with a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Nothing until something changes.
    Idle,
    /// Observe the cluster, then decide again.
    Observe,
    /// Plan, and start a run.
    Begin(Box<Start>),
    /// Continue the run.
    Drive,
    /// Let the run reach a safe state and stay there (rule 12).
    Pause {
        /// Who asked for it.
        by: String,
    },
    /// Let the run reach a safe state, then end it (rule 12).
    Cancel,
    /// The run is over; decide again without it.
    Close,
}

/// A run to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// What is wanted.
    pub intent: Intent,
    /// How it may be done; an error, in the words of the front end, makes a refused run.
    pub policy: Result<Policy, String>,
}

/// What a front end decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<U> {
    /// What to show; `None` leaves the object alone.
    pub update: Option<U>,
    /// What to do afterwards.
    pub next: NextAction,
}

/// Why a run was refused before it started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The cluster could not be observed.
    #[error("the cluster cannot be observed: {0}")]
    Observe(#[from] ObserveError),
    /// It is not known what earlier runs left (rules 5 and 10).
    #[error(transparent)]
    Inherit(#[from] InheritError),
    /// The user's policy is not valid.
    #[error("{0}")]
    Policy(String),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// A front end.
///
/// The functions without a future are pure: they read no clock and send no request.
pub trait FrontEnd: Send + Sync + 'static {
    /// What users write, as the front end keeps it.
    type Object: Send + Sync + 'static;
    /// What they are shown.
    type Update: Send + Sync;

    /// The node label that names the pool of a worker; policies of this front end have the
    /// same.
    const POOL_LABEL: &'static str;

    /// Who resumes a run that was paused, for its journal.
    const RESUMED_BY: &'static str;

    /// What the object asks for.
    fn desired(&self, object: &Self::Object) -> Desired;

    /// Whether an object that this process wrote is newer than the one that the watch
    /// brought.
    fn is_newer(&self, written: &Self::Object, watched: &Self::Object) -> bool;

    /// Whether both objects ask for the same, policy included: a plan for the one is still
    /// wanted by the other (rule 12).
    fn asks_the_same(&self, one: &Self::Object, other: &Self::Object) -> bool;

    /// How often the watch has seen that the target of this run was not wanted.
    fn withdrawals(&self, object: &Self::Object, run: &RunView) -> u64;

    /// What happens next, and what is shown.
    fn decide(&self, object: &Self::Object, facts: &Facts<'_>) -> Decision<Self::Update>;

    /// Why a run was refused and what to do about it, for the users of this front end.
    fn refusal(&self, start: &Start, error: &StartError) -> String;

    /// What to do about a run that halted, for the users of this front end.
    fn advice(&self, advice: &Advice, run: &RunView) -> String;

    /// How the cluster is reached. Nothing secret is in the error (rule 14).
    fn access(
        &self,
        object: &Self::Object,
    ) -> impl Future<Output = Result<ClusterAccess, AccessError>> + Send;

    /// The object as the hub has it now; `None` if it is gone. A watch may be behind.
    fn read(
        &self,
        object: &Self::Object,
    ) -> impl Future<Output = Result<Option<Self::Object>, CallError>> + Send;

    /// Shows an update, and replaces the object by what was written. False if another
    /// process wrote in between: the watch brings that.
    fn show(
        &self,
        object: &mut Arc<Self::Object>,
        update: &Self::Update,
    ) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// Whether the target of a run was removed, if only for a moment, since the run ended
    /// and before this process watched. What is not known did not happen (rule 5).
    fn was_withdrawn(
        &self,
        object: &Self::Object,
        run: &UpgradeRun,
    ) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// Tells users what they should know of a plan before it is driven.
    fn warn(&self, cluster: &ClusterRef, start: &Start, warnings: &[Warning]);
}
