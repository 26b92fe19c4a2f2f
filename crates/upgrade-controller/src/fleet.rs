//! The reconcilers of all clusters: a task for each object, started again after a panic.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use crate::connect::{Connector, LiveConnector};
use crate::front_end::FrontEnd;
use crate::reconciler::{Context, Latest, Reconciler};

/// The pause before a reconciler that panicked is started again: the cause is still there.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// How long reconcilers may take to hand over when the process ends.
const HAND_OVER: Duration = Duration::from_secs(4);

/// The reconcilers of all clusters.
pub struct Fleet<F: FrontEnd, C: Connector = LiveConnector> {
    context: Arc<Context<F, C>>,
    clusters: BTreeMap<String, watch::Sender<Latest<F>>>,
    tasks: JoinSet<()>,
    keys: HashMap<Id, String>,
}

impl<F: FrontEnd, C: Connector> Fleet<F, C> {
    /// Without any cluster yet.
    pub fn new(context: Arc<Context<F, C>>) -> Self {
        Self { context, clusters: BTreeMap::new(), tasks: JoinSet::new(), keys: HashMap::new() }
    }

    /// What the reconcilers share.
    pub fn context(&self) -> &Arc<Context<F, C>> {
        &self.context
    }

    /// The newest object of a cluster, as its reconciler has it.
    pub fn object(&self, key: &str) -> Option<Arc<F::Object>> {
        self.clusters.get(key)?.borrow().clone()
    }

    /// The keys of all clusters.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.clusters.keys()
    }

    /// An object was created or changed.
    pub fn apply(&mut self, key: String, object: Arc<F::Object>) {
        if let Some(sender) = self.clusters.get(&key) {
            sender.send_replace(Some(object));
            return;
        }
        let (sender, receiver) = watch::channel(Some(object));
        self.clusters.insert(key.clone(), sender);
        self.spawn(key, receiver, Duration::ZERO);
    }

    /// An object is gone.
    pub fn delete(&mut self, key: &str) {
        if let Some(sender) = self.clusters.remove(key) {
            sender.send_replace(None);
        }
    }

    fn spawn(&mut self, key: String, latest: watch::Receiver<Latest<F>>, after: Duration) {
        let reconciler = Reconciler::new(Arc::clone(&self.context), key.clone(), latest);
        let handle = self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            // Boxed: tasks are many, and most of them wait.
            Box::pin(reconciler.run()).await;
        });
        self.keys.insert(handle.id(), key);
    }

    /// Waits until a reconciler ends, and starts it again after a panic; forever if there
    /// is none.
    pub async fn supervise(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.ended(&ended),
            None => std::future::pending().await,
        }
    }

    fn ended(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(key) = self.keys.remove(&id) else { return };
        if !panicked {
            return;
        }
        tracing::error!(cluster = key, "the reconciler panicked; restarting it");
        if let Some(sender) = self.clusters.get(&key) {
            let receiver = sender.subscribe();
            self.spawn(key, receiver, AFTER_PANIC);
        }
    }

    /// Waits until every reconciler has handed over, for a while at most.
    pub async fn end(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(HAND_OVER, all).await.is_err() {
            tracing::warn!("some clusters were not handed over; their leases run out");
        }
    }
}
