//! The hub in memory: the API server of `kube-sim` with the shipped definitions, and what its
//! watches send.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kube_sim::{ApiServer, Caller, Item, Method, Output, Reply, Request, StreamId, Time};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::Clock as _;

/// The namespace of the operator, of its clusters and of their runs.
pub const NAMESPACE: &str = "hub";

/// The name of the cluster, and its identifier on the platform, which its Secret is named after.
pub const CLUSTER: &str = "prod";

/// Where the objects of clusters are.
const CLUSTERS: &str = "/apis/vitistack.io/v1alpha1/namespaces/hub/kubernetesclusters";

/// Where runs are.
const RUNS: &str = "/apis/upgrade.vitistack.io/v1alpha1/namespaces/hub/upgraderuns";

/// The shipped definitions.
const DEFINITIONS: &str = include_str!("../../../deploy/10-crds.yaml");

/// The hub.
pub struct Hub {
    inner: Mutex<Inner>,
    /// The credentials that the cluster accepts.
    credentials: Mutex<Credentials>,
    clock: SystemClock,
    /// A request may have made the next event due earlier.
    sooner: Notify,
}

/// A talosconfig, and whether the cluster has stopped accepting it.
#[derive(Default)]
struct Credentials {
    talosconfig: String,
    revoked: Arc<AtomicBool>,
}

struct Inner {
    api: ApiServer,
    streams: HashMap<StreamId, mpsc::UnboundedSender<Bytes>>,
}

/// The answer to a request.
pub enum Answer {
    /// A complete response.
    Whole {
        /// The HTTP status.
        status: u16,
        /// The `Content-Type` header.
        content_type: &'static str,
        /// The body.
        body: Bytes,
        /// What it changed of a run.
        change: Option<Box<RunChange>>,
    },
    /// A watch; the stream ends with its sender.
    Watch {
        /// The `Content-Type` header.
        content_type: &'static str,
        /// The items.
        items: mpsc::UnboundedReceiver<Bytes>,
    },
}

/// A change of a run's object.
#[derive(Clone, Debug)]
pub struct RunChange {
    /// As it was; `None` if it was created.
    pub before: Option<Value>,
    /// As it is.
    pub after: Value,
}

impl Hub {
    /// A hub with one cluster in it.
    pub fn new(clock: SystemClock, seed: u64) -> Arc<Self> {
        let api = ApiServer::without_controllers(seed, time(clock.now()));
        let inner = Mutex::new(Inner { api, streams: HashMap::new() });
        let credentials = Mutex::default();
        let hub = Arc::new(Self { inner, credentials, clock, sooner: Notify::new() });
        let definitions: Vec<Value> =
            serde_saphyr::from_multiple(DEFINITIONS).expect("the shipped definitions are YAML");
        for definition in definitions {
            hub.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
        }
        hub.create("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}}));
        hub.rotate_credentials(0);
        hub.create(CLUSTERS, &testkit::kubernetes_cluster(CLUSTER));
        hub
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request.
    pub fn request(&self, request: &Request) -> Answer {
        let now = time(self.clock.now());
        let mut inner = self.lock();
        let run = changed_run(request);
        let before = run.as_ref().and_then(|path| inner.read(now, path));
        let reply = inner.api.request(now, &Caller::admin(), request);
        let answer = match reply {
            Reply::Response { status, content_type, body, .. } => {
                let created = (request.method == Method::Post && request.path == RUNS)
                    .then(|| serde_json::from_slice::<Value>(&body).ok());
                let after = run.and_then(|path| inner.read(now, &path)).or(created.flatten());
                let change = after.filter(|_| status < 300);
                let change = change.map(|after| Box::new(RunChange { before, after }));
                Answer::Whole { status, content_type, body, change }
            }
            Reply::Watch { stream, content_type } => {
                let (sender, items) = mpsc::unbounded_channel();
                inner.streams.insert(stream, sender);
                Answer::Watch { content_type, items }
            }
        };
        inner.deliver();
        drop(inner);
        self.sooner.notify_one();
        answer
    }

    /// Advances the time of the API server, so that it sends bookmarks and ends watches.
    pub async fn run(self: Arc<Self>) {
        loop {
            let next = self.lock().api.next_event();
            let left = next.map(|at| at.to_jiff().duration_since(self.clock.now()));
            let left = left.unwrap_or(SignedDuration::from_hours(1));
            let left = Duration::try_from(left).unwrap_or_default().max(Duration::from_millis(20));
            tokio::select! {
                biased;
                () = self.sooner.notified() => {}
                () = tokio::time::sleep(left) => {
                    let now = time(self.clock.now());
                    let mut inner = self.lock();
                    inner.api.advance(now);
                    inner.deliver();
                }
            }
        }
    }

    /// Sets annotations of the cluster, or removes them.
    pub fn annotate(&self, annotations: &[(&str, Option<&str>)]) {
        let annotations: Value =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let path = format!("{CLUSTERS}/{CLUSTER}");
        let request = Request::new(Method::Patch, &path)
            .with_json(&json!({"metadata": {"annotations": annotations}}))
            .with_content_type("application/merge-patch+json");
        self.must(&request);
    }

    /// An annotation of the cluster.
    pub fn annotation(&self, key: &str) -> Option<String> {
        let cluster = self.get(&format!("{CLUSTERS}/{CLUSTER}"))?;
        cluster["metadata"]["annotations"][key].as_str().map(ToOwned::to_owned)
    }

    /// All runs.
    pub fn runs(&self) -> Vec<Value> {
        let list = self.get(RUNS).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The holders of the leases that drivers of clusters have.
    pub fn drivers(&self) -> Vec<String> {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        let list = self.get(&leases).unwrap_or_default();
        let leases = list["items"].as_array().into_iter().flatten();
        let of_cluster = |lease: &&Value| {
            lease["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("upgrade-"))
        };
        let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().map(str::to_owned);
        leases.filter(of_cluster).filter_map(holder).collect()
    }

    fn credentials(&self) -> MutexGuard<'_, Credentials> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these credentials are revoked, now or later.
    pub fn revocation(&self, talosconfig: &[u8]) -> Arc<AtomicBool> {
        let credentials = self.credentials();
        if credentials.talosconfig.as_bytes() == talosconfig {
            Arc::clone(&credentials.revoked)
        } else {
            Arc::new(AtomicBool::new(true))
        }
    }

    /// Writes other credentials into the cluster's Secret. The cluster accepts only these from
    /// now on, as after `talosctl rotate-ca`.
    pub fn rotate_credentials(&self, number: u32) {
        let talosconfig = format!("talosconfig {number}");
        let revoked = Arc::default();
        let next = Credentials { talosconfig: talosconfig.clone(), revoked };
        let before = std::mem::replace(&mut *self.credentials(), next);
        before.revoked.store(true, Ordering::SeqCst);
        let name = vitistack_api::secret::name("", CLUSTER);
        let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
        let body = json!({
            "metadata": {"name": name},
            "stringData": {(vitistack_api::secret::TALOSCONFIG): talosconfig},
        });
        if number == 0 {
            self.create(&secrets, &body);
        } else {
            let request = Request::new(Method::Patch, &format!("{secrets}/{name}"))
                .with_json(&body)
                .with_content_type("application/merge-patch+json");
            self.must(&request);
        }
    }

    fn create(&self, path: &str, object: &Value) {
        self.must(&Request::new(Method::Post, path).with_json(object));
    }

    fn get(&self, path: &str) -> Option<Value> {
        self.lock().read(time(self.clock.now()), path)
    }

    /// Sends a request of the scenario itself, which must succeed.
    fn must(&self, request: &Request) {
        if let Answer::Whole { status, body, .. } = self.request(request) {
            let text = String::from_utf8_lossy(&body);
            assert!(status < 300, "{} {}: {status} {text}", request.method, request.path);
        }
    }
}

impl Inner {
    fn read(&mut self, now: Time, path: &str) -> Option<Value> {
        match self.api.request(now, &Caller::admin(), &Request::get(path)) {
            Reply::Response { status: 200, body, .. } => serde_json::from_slice(&body).ok(),
            _ => None,
        }
    }

    fn deliver(&mut self) {
        for Output { stream, item } in self.api.outputs() {
            let open = match item {
                Item::Event(event) => {
                    self.streams.get(&stream).is_some_and(|sender| sender.send(event).is_ok())
                }
                Item::End => false,
            };
            if !open && self.streams.remove(&stream).is_some() {
                self.api.close(stream);
            }
        }
    }
}

/// The path of the run that a request changes, if it changes one that exists.
fn changed_run(request: &Request) -> Option<String> {
    let changes = matches!(request.method, Method::Patch | Method::Put);
    let path = request.path.strip_suffix("/status").unwrap_or(&request.path);
    (changes && path.starts_with(RUNS)).then(|| path.to_owned())
}

fn time(at: Timestamp) -> Time {
    Time::from_nanos(u64::try_from(at.as_nanosecond()).unwrap_or(0))
}
