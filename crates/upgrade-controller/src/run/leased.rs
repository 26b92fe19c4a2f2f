//! The runs of one cluster as the engine's run store, for the process that has its lease.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;
use upgrade_api::UpgradeRun;
use upgrade_api::run::{ProductVersions, RunVersions};
use upgrade_core::plan::{Group, Plan, Versions};
use upgrade_core::product::Product;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::journal::Fence;
use upgrade_engine::store::{NotBegun, OpenRun, RunStore, StoredRun, take_over};

use super::journal::RunJournal;
use super::object::{RunObject, RunObjectError};
use super::store::{InheritError, NewRun, UpgradeRuns};
use crate::api_call::{CallError, with_timeout};
use crate::limits::Limiter;

/// The runs of a cluster whose lease this process has.
#[derive(Clone)]
pub struct LeasedRuns {
    /// The runs.
    pub runs: UpgradeRuns,
    /// Whether we still have the lease.
    pub fence: Arc<dyn Fence>,
    /// Who drives.
    pub runner: String,
    /// Who writes to the hub.
    pub writes: Arc<Limiter>,
}

/// Why a run could not be had.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It cannot be read or written.
    #[error(transparent)]
    RunObject(#[from] RunObjectError),
    /// It is not known what earlier runs left.
    #[error(transparent)]
    InheritError(#[from] InheritError),
    /// The last run stands in the way.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// The hub did not do as asked.
    #[error("the runs of {cluster}: {error}")]
    Hub {
        /// Whose runs.
        cluster: String,
        /// What it said.
        error: CallError,
    },
    /// There is none.
    #[error("there is no run of {0}")]
    NoRun(String),
}

impl LeasedRuns {
    /// Opens a run. What runs before left to it is not read here: see
    /// [`UpgradeRuns::inherited`].
    pub async fn open(&self, run: UpgradeRun) -> Result<OpenRun<RunJournal>, RunObjectError> {
        let stored = self.runs.read(&run).await?;
        let state = stored.state().map_err(|error| RunObjectError::Broken {
            name: error.name,
            why: error.source.to_string(),
        })?;
        let StoredRun { plan, inherited, .. } = stored;
        let (client, fence) = (self.runs.client.clone(), Arc::clone(&self.fence));
        let object =
            RunObject::new(client, run, Arc::clone(&plan), Arc::clone(&fence), self.runs.clock);
        let journal = RunJournal::new(object, &state, fence, Arc::clone(&self.writes));
        Ok(OpenRun { plan, state, journal, inherited })
    }

    async fn newest(&self) -> Result<Option<UpgradeRun>, StoreError> {
        with_timeout(self.runs.newest_planned()).await.map_err(|error| self.hub(error))
    }

    fn hub(&self, error: CallError) -> StoreError {
        StoreError::Hub { cluster: self.runs.cluster.name.clone(), error }
    }

    async fn stored(&self, run: &UpgradeRun) -> Result<StoredRun, StoreError> {
        let stored = self.runs.read(run).await?;
        let inherited = self.runs.inherited(stored.plan.parent.clone()).await?;
        Ok(StoredRun { inherited, ..stored })
    }
}

impl RunStore for LeasedRuns {
    type Journal = RunJournal;
    type Error = StoreError;

    async fn last(&self) -> Result<Option<StoredRun>, StoreError> {
        match self.newest().await? {
            Some(run) => Ok(Some(self.stored(&run).await?)),
            None => Ok(None),
        }
    }

    async fn runs(&self) -> Result<Vec<StoredRun>, StoreError> {
        let names = with_timeout(self.runs.names()).await.map_err(|error| self.hub(error))?;
        let mut runs = Vec::with_capacity(names.len());
        for name in names.iter().rev() {
            let run = with_timeout(self.runs.get(name)).await.map_err(|error| self.hub(error))?;
            if let Some(run) = run.filter(|run| self.runs.is_planned(run)) {
                runs.push(self.stored(&run).await?);
            }
        }
        Ok(runs)
    }

    /// What the last run left is found through the plan that this one replaces
    /// ([`Plan::parent`]).
    async fn begin(&self, plan: Plan, replace: bool) -> Result<OpenRun<RunJournal>, StoreError> {
        let inherited = take_over(self.last().await?.as_ref(), replace)?;
        let new = NewRun {
            versions: RunVersions { from: versions(&plan.from), to: wanted(&plan) },
            rollback: plan.rollback,
            plan: Ok(&plan),
            roles: &roles(&plan),
            runner: &self.runner,
        };
        let run = with_timeout(self.runs.create(&new)).await.map_err(|error| self.hub(error))?;
        Ok(OpenRun { inherited, ..self.open(run).await? })
    }

    async fn resume(&self) -> Result<OpenRun<RunJournal>, StoreError> {
        let run = self.newest().await?;
        let run = run.ok_or_else(|| StoreError::NoRun(self.runs.cluster.name.clone()))?;
        let open = self.open(run).await?;
        let inherited = self.runs.inherited(open.plan.parent.clone()).await?;
        Ok(OpenRun { inherited, ..open })
    }
}

/// Versions as an object has them.
fn versions(versions: &Versions) -> ProductVersions {
    let Versions { talos, kubernetes } = versions;
    ProductVersions {
        talos: talos.as_ref().map(ToString::to_string),
        kubernetes: kubernetes.as_ref().map(ToString::to_string),
    }
}

/// What a plan changes.
fn wanted(plan: &Plan) -> ProductVersions {
    let to = versions(&plan.to);
    let moves = |product| plan.hops.iter().any(|hop| hop.change.product() == product);
    ProductVersions {
        talos: to.talos.filter(|_| moves(Product::Talos)),
        kubernetes: to.kubernetes.filter(|_| moves(Product::Kubernetes)),
    }
}

/// The nodes of a plan, by the waves that they are in.
fn roles(plan: &Plan) -> BTreeMap<NodeName, Role> {
    let mut roles = BTreeMap::new();
    for wave in plan.hops.iter().flat_map(|hop| &hop.waves) {
        let role = match wave.group {
            Group::ControlPlane => Role::ControlPlane,
            Group::Workers => Role::Worker,
            Group::Prepare | Group::Cluster => continue,
        };
        roles.extend(wave.lanes.iter().filter_map(|lane| Some((lane.node.clone()?, role))));
    }
    roles
}
