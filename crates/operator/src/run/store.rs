//! The runs of one cluster: made, found, and let go of.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;
use upgrade_core::plan::Plan;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_core::version::Version;
use vitistack_api::run::{
    ClusterReference, NodeProgress, Product, RunPhase, RunSpec, RunStatus, Transition,
};
use vitistack_api::{KubernetesCluster, UpgradeRun, label};

use super::pack;
use super::picture::role_word;
use crate::clock;
use crate::hub::said;

/// How many runs of a cluster are kept.
pub const KEEP: usize = 10;

/// The annotation that says when a run was made, to the microsecond: Kubernetes
/// keeps seconds, and two runs of one second have to be told apart.
const MADE: &str = "upgrade.vitistack.io/made";

/// The runs of one cluster.
#[derive(Clone)]
pub struct RunStore {
    api: Api<UpgradeRun>,
    cluster: String,
    uid: String,
}

/// What a run is made of.
pub struct NewRun<'a> {
    /// What is upgraded.
    pub product: Product,
    /// The version that runs.
    pub from: Option<&'a Version>,
    /// The version that is wanted.
    pub to: &'a Version,
    /// Whether it is a way back.
    pub rollback: bool,
    /// The plan; without one it failed before it began, with this reason.
    pub plan: Result<&'a Plan, &'a str>,
    /// Every node of the cluster.
    pub cast: &'a BTreeMap<NodeName, Role>,
    /// Who makes it.
    pub runner: &'a str,
}

impl RunStore {
    /// The runs of this cluster.
    pub fn new(client: Client, cluster: &KubernetesCluster) -> Self {
        let namespace = cluster.namespace().unwrap_or_default();
        Self {
            api: Api::namespaced(client, &namespace),
            cluster: cluster.name_any(),
            uid: cluster.uid().unwrap_or_default(),
        }
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
        // A cluster made anew under an old name is another one.
        Ok((run.filter(|run| run.spec.cluster.uid == self.uid), count))
    }

    /// The newest run that has a plan: one that was refused changed nothing.
    pub async fn newest_planned(&self) -> Result<Option<UpgradeRun>, kube::Error> {
        for name in self.names().await?.iter().rev() {
            let run = self.api.get_opt(name).await?;
            let ours = run.filter(|run| run.spec.cluster.uid == self.uid);
            if ours.as_ref().is_some_and(|run| !run.spec.hash.is_empty()) {
                return Ok(ours);
            }
        }
        Ok(None)
    }

    /// The names of all runs, oldest first.
    async fn names(&self) -> Result<Vec<String>, kube::Error> {
        let selector = format!("{}={}", label::RUN_CLUSTER, label_value(&self.cluster));
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
                (plan.hash().to_string(), pack::pack(&text))
            }
            Err(_) => (String::new(), String::new()),
        };
        let now = clock::now();
        let at = now.strftime("%Y%m%d-%H%M%S").to_string();
        let mut prefix = self.cluster.clone();
        prefix.truncate(200);
        let spec = RunSpec {
            cluster: ClusterReference { name: self.cluster.clone(), uid: self.uid.clone() },
            product: new.product,
            from: new.from.map(ToString::to_string).unwrap_or_default(),
            to: new.to.to_string(),
            rollback: new.rollback,
            hash,
            plan,
        };
        let metadata = ObjectMeta {
            // The server adds letters of its own: two in one second are two.
            generate_name: Some(format!("{prefix}-{at}-")),
            labels: Some(BTreeMap::from([(
                label::RUN_CLUSTER.to_owned(),
                label_value(&self.cluster),
            )])),
            annotations: Some(BTreeMap::from([(
                MADE.to_owned(),
                now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            )])),
            owner_references: Some(vec![reference(&self.cluster, &self.uid)]),
            ..ObjectMeta::default()
        };
        let made =
            self.api.create(&PostParams::default(), &UpgradeRun::new(metadata, spec)).await?;
        let status = first_status(new);
        // Without a status it would be a run that nobody knows the nodes of.
        let body = json!({"status": status});
        let name = made.name_any();
        self.api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&body)).await
    }

    /// Ends a run that nobody drives.
    pub async fn close(
        &self,
        run: &UpgradeRun,
        runner: &str,
        why: &str,
    ) -> Result<(), kube::Error> {
        let status = run.status.clone().unwrap_or_default();
        let now = clock::stamp();
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

    /// Marks a run as failed that nobody can drive.
    pub async fn halt(&self, name: &str, runner: &str, why: &str) -> Result<(), kube::Error> {
        let body = json!({"status": {
            "phase": RunPhase::Halted, "message": why, "runner": runner,
        }});
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(&body)).await?;
        Ok(())
    }

    /// Lets go of all but the newest.
    pub async fn prune(&self) {
        let names = match self.names().await {
            Ok(names) => names,
            Err(error) => {
                let error = said(&error);
                tracing::warn!(cluster = self.cluster, error, "old runs cannot be listed");
                return;
            }
        };
        for name in names.iter().take(names.len().saturating_sub(KEEP)) {
            if let Err(error) = self.api.delete(name, &DeleteParams::background()).await {
                let error = said(&error);
                tracing::warn!(run = name, error, "an old run cannot be deleted");
            }
        }
    }
}

fn reference(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: KubernetesCluster::api_version(&()).into_owned(),
        kind: KubernetesCluster::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

fn first_status(new: &NewRun<'_>) -> RunStatus {
    let (phase, message) = match new.plan {
        Ok(_) => (RunPhase::Pending, ""),
        Err(why) => (RunPhase::Halted, why),
    };
    let now = clock::stamp();
    RunStatus {
        phase,
        message: message.to_owned(),
        progress: format!("0/{}", new.cast.len()),
        runner: new.runner.to_owned(),
        started: Some(now.clone()),
        nodes: new
            .cast
            .iter()
            .map(|(name, role)| NodeProgress {
                name: name.0.clone(),
                role: role_word(*role).to_owned(),
                state: "pending".to_owned(),
                step: String::new(),
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
