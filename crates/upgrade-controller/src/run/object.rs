//! A run in its object: read once, then written by this process alone.
//!
//! - **Fenced** (rule 9): every write names the resourceVersion that this
//!   process knows. After a conflict another process wrote it, and this one has lost the
//!   run. A write of our own with a lost answer is recognised by its content.
//! - **Bounded**: a long journal is packed, and moves into [`super::journal_chunks`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, Patch, PatchParams, Request};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;
use thiserror::Error;
use upgrade_api::UpgradeRun;
use upgrade_api::run::{RunPhase, RunSpec, RunStatus, RunVersions, Transition};
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Entry, Record, State};
use upgrade_core::plan::Plan;
use upgrade_core::product::Product;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::journal::Fence;
use upgrade_engine::store::{Inherited, StoredRun};

use super::compress;
use super::journal_chunks::beginning;
use super::progress::{RunProgress, progress};
use crate::api_call::{CallError, within};
use crate::clock::Clock;
use crate::lease::CALL;

/// When the newest entries are packed: what is sent with every entry stays below
/// this many bytes.
const TAIL: usize = 16 * 1024;

/// How many changes of phase are remembered.
const HISTORY: usize = 50;

/// The time between two tries.
pub(super) const AGAIN: Duration = Duration::from_millis(500);

/// Why a run cannot be read or written.
#[derive(Debug, Error)]
pub enum RunObjectError {
    /// Another process wrote it (rule 9).
    #[error("another process wrote the run {0}; this one has lost it")]
    Taken(String),
    /// It is gone.
    #[error("the run {0} was deleted")]
    Gone(String),
    /// Our time was over before it was written.
    #[error("the run {name} could not be written in time: {why}")]
    Late {
        /// Which.
        name: String,
        /// What stood in the way.
        why: String,
    },
    /// The API server refused.
    #[error("the run {name}: {error}")]
    Api {
        /// Its name.
        name: String,
        /// What went wrong.
        error: CallError,
    },
    /// Its content is not valid.
    #[error("the run {name} cannot be read: {why}; delete it to start again")]
    Broken {
        /// Which.
        name: String,
        /// Why not.
        why: String,
    },
}

/// A run that this process drives.
pub struct RunObject {
    pub(super) client: Client,
    pub(super) fence: Arc<dyn Fence>,
    clock: Clock,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    version: String,
    pub(super) spec: RunSpec,
    plan: Arc<Plan>,
    roles: BTreeMap<NodeName, Role>,
    /// Nodes that are done and were too many to list.
    unlisted: usize,
    status: RunStatus,
}

/// Reads a run from its object, and from its parts if it has any.
pub(super) async fn read(client: &Client, run: &UpgradeRun) -> Result<StoredRun, RunObjectError> {
    let name = run.name_any();
    let broken = |why: String| RunObjectError::Broken { name: name.clone(), why };
    let text = compress::decompress(&run.spec.plan)
        .map_err(|error| broken(format!("its plan: {error}")))?;
    let plan: Plan =
        serde_json::from_str(&text).map_err(|error| broken(format!("its plan: {error}")))?;
    if plan.hash().to_string() != run.spec.hash {
        return Err(broken("its plan is not the one that its hash is of".to_owned()));
    }
    let namespace = run.namespace().unwrap_or_default();
    let status = run.status.clone().unwrap_or_default();
    let mut lines = beginning(client, &namespace, &name, &status).await?;
    lines.extend(status.journal);
    let mut entries = Vec::with_capacity(lines.len());
    for line in &lines {
        let entry: Entry = serde_json::from_str(line)
            .map_err(|error| broken(format!("entry {}: {error}", entries.len() + 1)))?;
        entries.push(entry);
    }
    let began = status.started.and_then(|started| started.parse().ok());
    let began = began.unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(StoredRun { name, began, plan: Arc::new(plan), inherited: Inherited::default(), entries })
}

impl RunObject {
    /// Takes up a run with this plan. The fence is that of the cluster's lease.
    pub fn new(
        client: Client,
        run: UpgradeRun,
        plan: Arc<Plan>,
        fence: Arc<dyn Fence>,
        clock: Clock,
    ) -> Self {
        let status = run.status.clone().unwrap_or_default();
        let (roles, unlisted) = roles(&status, &plan);
        Self {
            roles,
            unlisted,
            name: run.name_any(),
            namespace: run.namespace().unwrap_or_default(),
            version: run.resource_version().unwrap_or_default(),
            uid: run.uid().unwrap_or_default(),
            spec: run.spec,
            plan,
            client,
            fence,
            clock,
            status,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it stands.
    pub const fn status(&self) -> &RunStatus {
        &self.status
    }

    /// Where it stands, for people; `state` is the fold of its journal.
    pub fn progress(&self, state: &State) -> RunProgress {
        let what = upgrade(&self.spec.versions);
        progress(&self.plan, state, &what, &self.roles, self.unlisted)
    }

    /// Appends an entry, and shows where the run stands then.
    pub async fn append(
        &mut self,
        entry: &Entry,
        state: &State,
    ) -> Result<RunProgress, RunObjectError> {
        let broken = |why: String| RunObjectError::Broken { name: self.name.clone(), why };
        let line = serde_json::to_string(entry).map_err(|error| broken(error.to_string()))?;
        let mut status = self.status.clone();
        if status.journal.iter().map(String::len).sum::<usize>() + line.len() > TAIL {
            self.rotate(&mut status).await?;
        }
        status.journal.push(line);
        status.runner.clone_from(&entry.runner);
        let drawn = self.progress(state);
        status.progress = drawn.progress();
        status.message.clone_from(&drawn.message);
        status.nodes.clone_from(&drawn.nodes);
        match &entry.record {
            Record::Began => phase(&mut status, RunPhase::Running, "", self.clock),
            Record::Completed => phase(&mut status, RunPhase::Completed, "", self.clock),
            _ => {}
        }
        self.write(status).await?;
        Ok(drawn)
    }

    /// Writes what phase it is in.
    pub async fn set_phase(&mut self, to: RunPhase, message: &str) -> Result<(), RunObjectError> {
        let mut status = self.status.clone();
        phase(&mut status, to, message, self.clock);
        if !message.is_empty() {
            message.clone_into(&mut status.message);
        }
        if status == self.status { Ok(()) } else { self.write(status).await }
    }

    /// Writes the status, exactly once, or not at all.
    async fn write(&mut self, status: RunStatus) -> Result<(), RunObjectError> {
        loop {
            if let Err(lost) = self.fence.holds() {
                return Err(RunObjectError::Late { name: self.name.clone(), why: lost.0 });
            }
            let error = match within(CALL, self.patch(&status)).await {
                Ok(version) => {
                    self.version = version;
                    self.status = status;
                    return Ok(());
                }
                Err(error) if error.code() == Some(404) => {
                    return Err(RunObjectError::Gone(self.name.clone()));
                }
                Err(error) if !may_pass(&error) => {
                    return Err(RunObjectError::Api { name: self.name.clone(), error });
                }
                Err(error) => error,
            };
            tracing::debug!(run = self.name, %error, "retrying a write of the run");
            if self.has_arrived(&status).await? {
                self.status = status;
                return Ok(());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// After a write that may have arrived: true if it did. An error if another process
    /// wrote.
    async fn has_arrived(&mut self, status: &RunStatus) -> Result<bool, RunObjectError> {
        let api: Api<UpgradeRun> = Api::namespaced(self.client.clone(), &self.namespace);
        let Ok(found) = within(CALL, api.get_opt(&self.name)).await else {
            return Ok(false);
        };
        let Some(found) = found.filter(|found| found.uid().as_deref() == Some(&self.uid)) else {
            return Err(RunObjectError::Gone(self.name.clone()));
        };
        let version = found.resource_version().unwrap_or_default();
        if version == self.version {
            return Ok(false);
        }
        match found.status {
            Some(written) if written == *status => {
                self.version = version;
                Ok(true)
            }
            // Only labels or the like changed: the status is still ours.
            Some(before) if before == self.status => {
                self.version = version;
                Ok(false)
            }
            _ => Err(RunObjectError::Taken(self.name.clone())),
        }
    }

    /// Sends a status; only the metadata comes back.
    async fn patch(&self, status: &RunStatus) -> Result<String, kube::Error> {
        let mut sent = json!(status);
        if status.sealed == self.status.sealed
            && let Some(sent) = sent.as_object_mut()
        {
            // It is there already, and large.
            sent.remove("sealed");
        } else {
            sent["sealed"] = json!(status.sealed);
        }
        let body = json!({"metadata": {"resourceVersion": self.version}, "status": sent});
        let request = Request::new(UpgradeRun::url_path(&(), Some(&self.namespace)))
            .patch_subresource("status", &self.name, &PatchParams::default(), &Patch::Merge(body));
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        request.headers_mut().insert("accept", http::HeaderValue::from_static(partial));
        let answer: PartialObjectMeta<UpgradeRun> = self.client.request(request).await?;
        Ok(answer.metadata.resource_version.unwrap_or_default())
    }
}

/// The nodes that the object lists, and how many it has no room for.
fn roles(status: &RunStatus, plan: &Plan) -> (BTreeMap<NodeName, Role>, usize) {
    let listed: BTreeMap<NodeName, Role> = status
        .nodes
        .iter()
        .map(|node| {
            let control_plane = node.role == upgrade_api::label::CONTROL_PLANE;
            let role = if control_plane { Role::ControlPlane } else { Role::Worker };
            (NodeName(node.name.clone()), role)
        })
        .collect();
    let total = status.progress.split_once('/').and_then(|(_, total)| total.parse().ok());
    let known = plan.steps().filter_map(|step| step.node).filter(|node| !listed.contains_key(node));
    let known = listed.len() + known.collect::<BTreeSet<_>>().len();
    (listed, total.unwrap_or(known).saturating_sub(known))
}

/// What a run upgrades.
fn upgrade(versions: &RunVersions) -> String {
    match (&versions.to.talos, &versions.to.kubernetes) {
        (Some(_), None) => Product::Talos.to_string(),
        (None, Some(_)) => Product::Kubernetes.to_string(),
        _ => format!("{} and {}", Product::Talos, Product::Kubernetes),
    }
}

/// Changes the phase, and remembers that it did.
fn phase(status: &mut RunStatus, to: RunPhase, message: &str, clock: Clock) {
    let now = clock.stamp();
    if to == RunPhase::Running && status.started.is_none() {
        status.started = Some(now.clone());
    }
    if to.is_over() && status.ended.is_none() {
        status.ended = Some(now.clone());
    }
    if status.phase == to && !status.history.is_empty() && to != RunPhase::Running {
        return;
    }
    status.phase = to;
    let runner = status.runner.clone();
    status.history.push(Transition { at: now, phase: to, runner, message: message.to_owned() });
    let surplus = status.history.len().saturating_sub(HISTORY);
    status.history.drain(..surplus);
}

/// Whether the same call may succeed later. After a conflict the object is read: the write
/// may be our own, with a lost answer.
pub(super) fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Refused(status) => matches!(status.code, 409 | 429 | 500..),
        CallError::Unusable(_) => false,
        CallError::TimedOut | CallError::Unreachable(_) | CallError::Unauthenticated(_) => true,
    }
}
