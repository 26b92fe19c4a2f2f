//! The annotation front end, as the controller sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use upgrade_api::UpgradeRun;
use upgrade_controller::api_call::{CallError, with_timeout};
use upgrade_controller::clock::Clock;
use upgrade_controller::cluster::{ClusterAccess, ClusterRef, LiveSnapshots};
use upgrade_controller::connect::AccessError;
use upgrade_controller::events::EventPublisher;
use upgrade_controller::front_end::{self as neutral, Desired, FrontEnd, Start, StartError};
use upgrade_controller::http::Metrics;
use upgrade_core::advice::Advice;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::policy::Policy;
use upgrade_core::product::{PerProduct, Product};
use upgrade_core::secret::scrub;
use upgrade_core::version::Version;
use upgrade_planner::report::Warning;
use vitistack_api::status::Status;
use vitistack_api::{KubernetesCluster, label, secret};

use crate::annotations::UpgradeRequest;
use crate::decide::{Facts, NextAction, RunView, decide};
use crate::machines::Machines;
use crate::status::StatusUpdate;
use crate::{advice, events, keys, messages, missed_changes, status};

/// The newest state of an object, and how often each target was seen to be absent.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The object.
    pub cluster: KubernetesCluster,
    /// For each product. A target that was removed and set again at once was removed.
    pub removals: PerProduct<u64>,
}

/// The front end.
pub struct Annotations {
    /// The hub.
    pub client: Client,
    /// What the names of the clusters' Secrets begin with.
    pub secret_prefix: String,
    /// The time.
    pub clock: Clock,
    /// Where etcd snapshots go, with a folder or prefix for each cluster.
    pub snapshots: LiveSnapshots,
    /// The machines of the platform.
    pub machines: Arc<Machines>,
    /// The policy that annotations change.
    pub policy: Policy,
    /// Publishes Events.
    pub events: EventPublisher,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

impl FrontEnd for Annotations {
    type Object = Watched;
    type Update = StatusUpdate;

    const POOL_LABEL: &'static str = label::NODE_POOL;
    const RESUMED_BY: &'static str = "the annotations";

    fn desired(&self, Watched { cluster, .. }: &Watched) -> Desired {
        let request = UpgradeRequest::from_annotations(cluster.annotations());
        let shown = |product| reported(cluster, product).map(Status::as_str);
        Desired {
            cluster: ClusterRef::of(cluster),
            foreign_nodes: request.foreign(&self.policy),
            hands_off: request.do_not_reconcile,
            targets: PerProduct { talos: request.talos, kubernetes: request.kubernetes },
            shown: PerProduct {
                talos: shown(Product::Talos),
                kubernetes: shown(Product::Kubernetes),
            },
            has_status: !cluster.phase().is_empty(),
        }
    }

    fn is_newer(&self, written: &Watched, watched: &Watched) -> bool {
        let version = |object: &Watched| {
            let version = object.cluster.resource_version();
            version.and_then(|version| version.parse::<u64>().ok()).unwrap_or(0)
        };
        version(written) > version(watched) && written.cluster.uid() == watched.cluster.uid()
    }

    fn asks_the_same(&self, one: &Watched, other: &Watched) -> bool {
        let request = |it: &Watched| UpgradeRequest::from_annotations(it.cluster.annotations());
        request(one) == request(other)
    }

    fn withdrawals(&self, object: &Watched, run: &neutral::RunView) -> u64 {
        let product = RunView::of(run).map(|run| run.product);
        product.map_or(0, |product| *object.removals.of(product))
    }

    fn decide(
        &self,
        Watched { cluster, .. }: &Watched,
        facts: &neutral::Facts<'_>,
    ) -> neutral::Decision<StatusUpdate> {
        let request = UpgradeRequest::from_annotations(cluster.annotations());
        let run = facts.run.and_then(RunView::of);
        let unknown = facts.versions.and_then(Result::err).map(messages::observe_error);
        let observed = facts
            .versions
            .map(|versions| versions.map_err(|_| unknown.as_deref().unwrap_or_default()));
        let decision = decide(&Facts {
            request: &request,
            talos_reported: reported(cluster, Product::Talos),
            kubernetes_reported: reported(cluster, Product::Kubernetes),
            phase: cluster.phase(),
            observed,
            run: run.as_ref(),
            releases: facts.releases,
        });
        neutral::Decision { update: decision.update, next: self.next(&request, decision.next) }
    }

    fn refusal(&self, start: &Start, error: &StartError) -> String {
        messages::refusal(start, error)
    }

    fn advice(&self, advice: &Advice, run: &neutral::RunView) -> String {
        let product = RunView::of(run).map_or(Product::Talos, |run| run.product);
        advice::text(advice, product)
    }

    async fn access(
        &self,
        Watched { cluster, .. }: &Watched,
    ) -> Result<ClusterAccess, AccessError> {
        let namespace = cluster.namespace().unwrap_or_default();
        let id = cluster.cluster_id();
        if id.is_empty() {
            let problem = "the cluster has no spec.data.clusterId".to_owned();
            return Err(AccessError::Incomplete(problem));
        }
        let name = secret::name(&self.secret_prefix, id);
        let mut data = self.secret(&namespace, &name).await?;
        let talosconfig = data
            .remove(secret::TALOSCONFIG)
            .ok_or_else(|| AccessError::NoKey { name, key: secret::TALOSCONFIG.to_owned() })?;
        Ok(ClusterAccess {
            talosconfig,
            kubeconfig: data.remove(secret::KUBECONFIG),
            inventory: self.machines.of(&namespace, id)?,
            snapshots: self.snapshots.join(&namespace).join(&cluster.name_any()),
        })
    }

    async fn read(
        &self,
        Watched { cluster, removals }: &Watched,
    ) -> Result<Option<Watched>, CallError> {
        let namespace = cluster.namespace().unwrap_or_default();
        let api: Api<KubernetesCluster> = Api::namespaced(self.client.clone(), &namespace);
        let read = with_timeout(api.get_opt(&cluster.name_any())).await?;
        // An object that was created again is another cluster.
        let same = read.filter(|read| read.uid() == cluster.uid());
        Ok(same.map(|read| Watched { cluster: trimmed(read), removals: *removals }))
    }

    async fn show(
        &self,
        object: &mut Arc<Watched>,
        update: &StatusUpdate,
    ) -> Result<bool, CallError> {
        let namespace = object.cluster.namespace().unwrap_or_default();
        let api: Api<KubernetesCluster> = Api::namespaced(self.client.clone(), &namespace);
        let name = object.cluster.name_any();
        let params = PatchParams {
            field_manager: Some("talos-operator".to_owned()),
            ..PatchParams::default()
        };
        // The status goes first: users who wait for an annotation find the phase in place.
        if let Some(patch) = status::status_patch(&object.cluster, update, &self.clock.stamp()) {
            let patch = Patch::Merge(&patch);
            match patched(api.patch_status(&name, &params, &patch)).await? {
                Some(written) => *object = with(object, written),
                None => return Ok(false),
            }
        }
        if let Some(patch) = status::annotation_patch(&object.cluster, update) {
            let before = Arc::clone(object);
            match patched(api.patch(&name, &params, &Patch::Merge(&patch))).await? {
                Some(written) => *object = with(object, written),
                None => return Ok(false),
            }
            self.publish(&before.cluster, update);
        }
        Ok(true)
    }

    async fn was_withdrawn(
        &self,
        Watched { cluster, .. }: &Watched,
        run: &UpgradeRun,
    ) -> Result<bool, CallError> {
        missed_changes::target_was_removed(self.client.clone(), cluster, run).await
    }

    fn warn(&self, cluster: &ClusterRef, start: &Start, warnings: &[Warning]) {
        let Some((product, _)) = messages::target(&start.intent) else { return };
        for warning in warnings {
            let advice = warning.advice().map(|it| format!(" ({})", advice::brief(&it, product)));
            let text = format!("{warning}{}", advice.unwrap_or_default());
            self.events.publish(cluster, events::plan_warning(product, &text));
        }
    }
}

impl Annotations {
    fn next(&self, request: &UpgradeRequest, next: NextAction) -> neutral::NextAction {
        match next {
            NextAction::Idle => neutral::NextAction::Idle,
            NextAction::Observe => neutral::NextAction::Observe,
            NextAction::Begin { product, target } => {
                neutral::NextAction::Begin(Box::new(self.start(request, product, target)))
            }
            NextAction::Drive => neutral::NextAction::Drive,
            NextAction::Pause { by } => neutral::NextAction::Pause { by },
            NextAction::Cancel => neutral::NextAction::Cancel,
            NextAction::Close => neutral::NextAction::Close,
        }
    }

    /// A run to a target, as the annotations want it.
    fn start(&self, request: &UpgradeRequest, product: Product, target: Version) -> Start {
        let rollback = request.steering.rollback;
        let mut intent = Intent { rollback, prefer: Preference::TalosFirst, ..Intent::default() };
        match product {
            Product::Talos => intent.talos = Some(target),
            Product::Kubernetes => intent.kubernetes = Some(target),
        }
        let policy = request.policy(&self.policy).map_err(|error| error.to_string());
        Start { intent, policy }
    }

    /// The data of a cluster's Secret, read when it is needed and forgotten: there is no
    /// cache of Secrets, and rotated credentials are used with the next connection.
    async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, AccessError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found = with_timeout(api.get_opt(name)).await;
        let found = found.map_err(|error| AccessError::Secret {
            name: name.to_owned(),
            error: scrubbed(error),
        })?;
        let secret = found.ok_or_else(|| AccessError::NoSecret(name.to_owned()))?;
        let data = secret.data.unwrap_or_default().into_iter();
        Ok(data.map(|(key, bytes)| (key, bytes.0)).collect())
    }

    /// Publishes what changed.
    fn publish(&self, before: &KubernetesCluster, update: &StatusUpdate) {
        for product in keys::PRODUCTS {
            let shown = reported(before, product);
            let now = update.of(product);
            if shown != Some(now.status) {
                self.metrics.transition(product, shown.map(Status::as_str), now.status.as_str());
            }
            if let Some(status) = status::transition(before, update, product) {
                let event = events::transition(product, status, &now.message);
                self.events.publish(&ClusterRef::of(before), event);
            }
        }
    }
}

/// The status of a product that an object shows.
fn reported(cluster: &KubernetesCluster, product: Product) -> Option<Status> {
    cluster.annotation(keys::status(product)).and_then(Status::parse)
}

/// An object after a write. What the watch counted stays.
fn with(before: &Watched, written: KubernetesCluster) -> Arc<Watched> {
    Arc::new(Watched { cluster: trimmed(written), removals: before.removals })
}

/// Rule 14: what the API server says about a Secret may quote it.
fn scrubbed(error: CallError) -> CallError {
    match error {
        CallError::Refused(mut status) => {
            status.message = scrub(&status.message).into_owned();
            CallError::Refused(status)
        }
        other => other,
    }
}

/// What a patch led to; `None` if another process wrote in between.
async fn patched(
    patch: impl Future<Output = Result<KubernetesCluster, kube::Error>>,
) -> Result<Option<KubernetesCluster>, CallError> {
    match with_timeout(patch).await {
        Ok(written) => Ok(Some(written)),
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An object without the parts that nothing here reads, which may be large.
pub fn trimmed(mut object: KubernetesCluster) -> KubernetesCluster {
    object.metadata.managed_fields = None;
    object.metadata.labels = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.retain(|key, _| {
            key.starts_with(vitistack_api::annotation::PREFIX)
                || vitistack_api::annotation::DO_NOT_RECONCILE.contains(&key.as_str())
        });
    }
    if let Some(state) = object.status.as_mut().and_then(|status| status.state.as_mut()) {
        // Only whether it exists counts.
        *state = serde_json::Value::Bool(true);
    }
    object
}
