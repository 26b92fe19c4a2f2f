//! The runs of one cluster: created, found, and pruned.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use thiserror::Error;
use upgrade_api::run::{NodeProgress, RunPhase, RunSpec, RunStatus, RunVersions, Transition};
use upgrade_api::{UpgradeRun, label};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::store::{Inherited, StoredRun};

use super::compress;
use super::object::{RunObjectError, read};
use super::progress::role_word;
use crate::api_call::{CallError, with_timeout};
use crate::clock::Clock;
use crate::cluster::ClusterRef;

/// How many runs of a cluster are kept.
pub const KEEP: usize = 10;

/// The annotation that says when a run was made, to the microsecond: Kubernetes
/// keeps seconds, and two runs of one second have to be distinguished.
const MADE: &str = "upgrade.vitistack.io/made";

/// How many runs before a new one may have died before their first entry.
const EARLIER: usize = 8;

/// The runs of one cluster, whatever object it is.
#[derive(Clone)]
pub struct UpgradeRuns {
    pub(super) client: Client,
    api: Api<UpgradeRun>,
    pub(super) cluster: ClusterRef,
    pub(super) clock: Clock,
}

/// Why it is not known what earlier runs left. Nothing may be begun then: an installer on a
/// node that is armed destroys the slot that works (rules 5 and 10).
#[derive(Debug, Error)]
pub enum InheritError {
    /// The hub did not answer; it is asked again.
    #[error("the run before cannot be read: {0}")]
    Unavailable(Box<RunObjectError>),
    /// A run that cannot be read.
    #[error("{0}")]
    Corrupt(String),
}

/// What a run is made of.
pub struct NewRun<'a> {
    /// From where to where.
    pub versions: RunVersions,
    /// Whether it is a rollback.
    pub rollback: bool,
    /// The plan; without one it failed before it began, with this reason.
    pub plan: Result<&'a Plan, &'a str>,
    /// Every node of the cluster.
    pub roles: &'a BTreeMap<NodeName, Role>,
    /// Who makes it.
    pub runner: &'a str,
}

impl UpgradeRuns {
    /// The runs of this cluster.
    pub fn new(client: Client, cluster: ClusterRef, clock: Clock) -> Self {
        Self { api: Api::namespaced(client.clone(), &cluster.namespace), client, cluster, clock }
    }

    /// Whether a run is of this object. One that was created again under an
    /// old name is another.
    fn is_ours(&self, run: &UpgradeRun) -> bool {
        run.owner() == self.cluster.owner()
    }

    /// Whether a run is of this object, and has a plan.
    pub(super) fn is_planned(&self, run: &UpgradeRun) -> bool {
        self.is_ours(run) && !run.spec.hash.is_empty()
    }

    /// The newest run, if there is one, and how many there are. Only names are
    /// listed: a run is large.
    pub async fn newest(&self) -> Result<(Option<UpgradeRun>, usize), kube::Error> {
        let mut names = self.names().await?;
        let count = names.len();
        let Some(name) = names.pop() else {
            return Ok((None, count));
        };
        let run = self.api.get_opt(&name).await?;
        Ok((run.filter(|run| self.is_ours(run)), count))
    }

    /// The newest run that has a plan: one that was refused changed nothing.
    pub async fn newest_planned(&self) -> Result<Option<UpgradeRun>, kube::Error> {
        for name in self.names().await?.iter().rev() {
            let run = self.api.get_opt(name).await?;
            let ours = run.filter(|run| self.is_planned(run));
            if ours.is_some() {
                return Ok(ours);
            }
        }
        Ok(None)
    }

    /// The names of all runs, oldest first.
    pub(super) async fn names(&self) -> Result<Vec<String>, kube::Error> {
        let selector = format!("{}={}", label::RUN_CLUSTER, label_value(&self.cluster.name));
        let listed = self.api.list_metadata(&ListParams::default().labels(&selector)).await?;
        let mut names: Vec<_> = listed
            .into_iter()
            .map(|run| {
                let second = run.creation_timestamp().map(|at| at.0);
                (second, run.annotations().get(MADE).cloned(), run.name_any())
            })
            .collect();
        names.sort();
        Ok(names.into_iter().map(|(.., name)| name).collect())
    }

    /// The run of this plan, the newest if there are several.
    pub async fn of_plan(&self, hash: &str) -> Result<Option<UpgradeRun>, kube::Error> {
        for name in self.names().await?.iter().rev() {
            let run = self.api.get_opt(name).await?;
            if let Some(run) = run.filter(|run| run.spec.hash == hash) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// A run by its name.
    pub async fn get(&self, name: &str) -> Result<Option<UpgradeRun>, kube::Error> {
        self.api.get_opt(name).await
    }

    /// Makes a run.
    pub async fn create(&self, new: &NewRun<'_>) -> Result<UpgradeRun, kube::Error> {
        let (hash, plan) = match new.plan {
            Ok(plan) => {
                let text = serde_json::to_string(plan).map_err(kube::Error::SerdeError)?;
                (plan.hash().to_string(), compress::compress(&text))
            }
            Err(_) => (String::new(), String::new()),
        };
        let now = self.clock.now();
        let at = now.strftime("%Y%m%d-%H%M%S").to_string();
        let mut prefix = self.cluster.name.clone();
        prefix.truncate(200);
        let spec = RunSpec {
            owner: self.cluster.owner(),
            versions: new.versions.clone(),
            rollback: new.rollback,
            hash,
            plan,
        };
        let metadata = ObjectMeta {
            // The server adds letters of its own: two in one second are two.
            generate_name: Some(format!("{prefix}-{at}-")),
            labels: Some(BTreeMap::from([(
                label::RUN_CLUSTER.to_owned(),
                label_value(&self.cluster.name),
            )])),
            annotations: Some(BTreeMap::from([(
                MADE.to_owned(),
                now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            )])),
            owner_references: Some(vec![self.cluster.owner_reference()]),
            ..ObjectMeta::default()
        };
        let made =
            self.api.create(&PostParams::default(), &UpgradeRun::new(metadata, spec)).await?;
        let status = first_status(new, self.clock.stamp());
        // Without a status the nodes of the run would be unknown.
        let body = json!({"status": status});
        let name = made.name_any();
        self.api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&body)).await
    }

    /// Reads a run: its plan, and all that was journaled.
    pub async fn read(&self, run: &UpgradeRun) -> Result<StoredRun, RunObjectError> {
        read(&self.client, run).await
    }

    /// Cordons (rule 7) and armed nodes (rule 5) that the run of this plan left, and those
    /// before it. Runs that were deleted left nothing that could be known.
    pub async fn inherited(&self, mut parent: Option<PlanHash>) -> Result<Inherited, InheritError> {
        let corrupt = |error: &RunObjectError| {
            let text = format!(
                "what an earlier run left armed is not known: {error}, if no node is armed"
            );
            InheritError::Corrupt(text)
        };
        let mut inherited = Inherited::default();
        // One that died before it wrote down what it took over left that of the one
        // before it.
        for _ in 0..EARLIER {
            let Some(hash) = parent else { break };
            let name = hash.to_string();
            let run = with_timeout(self.of_plan(&name)).await.map_err(|error| {
                InheritError::Unavailable(Box::new(RunObjectError::Api { name, error }))
            })?;
            let Some(run) = run else { break };
            let run = self.read(&run).await.map_err(|error| match error {
                RunObjectError::Broken { .. } => corrupt(&error),
                other => InheritError::Unavailable(Box::new(other)),
            })?;
            let state = run.state().map_err(|error| {
                corrupt(&RunObjectError::Broken { name: error.name, why: error.source.to_string() })
            })?;
            inherited.cordons.extend(state.cordons_left(&BTreeSet::new()));
            for (node, known) in state.armed_left(&BTreeMap::new()) {
                // What a later run knows of a node counts.
                inherited.armed.entry(node).or_insert(known);
            }
            let knows = state.completed() || state.has_inherited();
            parent = run.plan.parent.clone().filter(|_| !knows);
        }
        Ok(inherited)
    }

    /// Ends a run that no process drives.
    pub async fn close(
        &self,
        run: &UpgradeRun,
        runner: &str,
        why: &str,
    ) -> Result<(), kube::Error> {
        let status = run.status.clone().unwrap_or_default();
        let now = self.clock.stamp();
        let mut history = status.history;
        history.push(Transition {
            at: now.clone(),
            phase: RunPhase::Cancelled,
            runner: runner.to_owned(),
            message: why.to_owned(),
        });
        let body = json!({
            "metadata": {"resourceVersion": run.resource_version()},
            "status": {"phase": RunPhase::Cancelled, "ended": now, "history": history},
        });
        let name = run.name_any();
        self.api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&body)).await?;
        Ok(())
    }

    /// Marks a run as failed that cannot be driven.
    pub async fn halt(&self, name: &str, runner: &str, why: &str) -> Result<(), kube::Error> {
        let body = json!({"status": {
            "phase": RunPhase::Halted, "message": why, "runner": runner,
        }});
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(&body)).await?;
        Ok(())
    }

    /// Deletes all but the newest.
    pub async fn prune(&self) {
        let names = match self.names().await {
            Ok(names) => names,
            Err(error) => {
                let error = CallError::from(error).to_string();
                tracing::warn!(cluster = self.cluster.name, error, "old runs cannot be listed");
                return;
            }
        };
        for name in names.iter().take(names.len().saturating_sub(KEEP)) {
            if let Err(error) = self.api.delete(name, &DeleteParams::background()).await {
                let error = CallError::from(error).to_string();
                tracing::warn!(run = name, error, "an old run cannot be deleted");
            }
        }
    }
}

fn first_status(new: &NewRun<'_>, now: String) -> RunStatus {
    let (phase, message) = match new.plan {
        Ok(_) => (RunPhase::Pending, ""),
        Err(why) => (RunPhase::Halted, why),
    };
    RunStatus {
        phase,
        message: message.to_owned(),
        progress: format!("0/{}", new.roles.len()),
        runner: new.runner.to_owned(),
        started: Some(now.clone()),
        nodes: new
            .roles
            .iter()
            .map(|(name, role)| NodeProgress {
                name: name.0.clone(),
                role: role_word(*role).to_owned(),
                state: "pending".to_owned(),
                ..NodeProgress::default()
            })
            .collect(),
        history: vec![Transition {
            at: now,
            phase,
            runner: new.runner.to_owned(),
            message: message.to_owned(),
        }],
        ..RunStatus::default()
    }
}

/// A cluster's name as the value of a label, which is shorter than a name.
fn label_value(name: &str) -> String {
    let short: String = name.chars().take(63).collect();
    short.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}
