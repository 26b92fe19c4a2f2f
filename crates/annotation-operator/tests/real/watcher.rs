//! Sees every state of a cluster's object, and knows which state may follow which.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::{PATIENCE, Tenant, annotation};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Which status may follow which. A new cluster has none.
const STATUS: &[(&str, &[&str])] = &[
    ("", &["idle", "in-progress", "blocked", "failed"]),
    ("idle", &["in-progress", "blocked", "failed", "completed"]),
    // The run ends, or the user removes the target.
    ("in-progress", &["completed", "failed", "idle", "blocked"]),
    ("completed", &["idle", "in-progress", "blocked", "failed"]),
    ("failed", &["idle", "in-progress", "blocked", "completed"]),
    ("blocked", &["in-progress", "idle", "failed"]),
];

/// The same for the phase.
const PHASE: &[(&str, &[&str])] = &[
    ("", &["Ready"]),
    ("Ready", &["UpgradingTalos", "UpgradingKubernetes", "UpgradeFailed"]),
    ("UpgradingTalos", &["Ready", "UpgradeFailed", "UpgradingKubernetes"]),
    ("UpgradingKubernetes", &["Ready", "UpgradeFailed", "UpgradingTalos"]),
    ("UpgradeFailed", &["Ready", "UpgradingTalos", "UpgradingKubernetes"]),
];

/// What the object showed; each change is here once.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) talos: Vec<String>,
    pub(crate) kubernetes: Vec<String>,
    pub(crate) phase: Vec<String>,
    pub(crate) progress: Vec<String>,
    pub(crate) messages: Vec<String>,
    /// What was not legal.
    pub(crate) wrong: Vec<String>,
}

impl Observed {
    fn take(&mut self, object: &Value) {
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        next(&mut self.talos, annotation(object, "talos-status"), STATUS, &mut self.wrong);
        next(
            &mut self.kubernetes,
            annotation(object, "kubernetes-status"),
            STATUS,
            &mut self.wrong,
        );
        next(&mut self.phase, phase, PHASE, &mut self.wrong);
        let note = |list: &mut Vec<String>, text: &str| {
            if list.last().is_none_or(|last| last != text) {
                list.push(text.to_owned());
            }
        };
        note(&mut self.progress, annotation(object, "talos-progress"));
        note(&mut self.messages, annotation(object, "talos-message"));
        // A run under way has a phase: the phase is written before the status, and
        // stays until after it.
        let under_way = ["talos-status", "kubernetes-status"]
            .iter()
            .any(|name| annotation(object, name) == "in-progress");
        if under_way && phase.is_empty() {
            self.wrong.push("in progress without a phase".to_owned());
        }
    }
}

fn next(list: &mut Vec<String>, now: &str, legal: &[(&str, &[&str])], wrong: &mut Vec<String>) {
    let before = list.last().map_or("", String::as_str);
    if before == now {
        return;
    }
    let known = legal.iter().find(|(from, _)| *from == before);
    if !known.is_some_and(|(_, to)| to.contains(&now)) {
        wrong.push(format!("{before:?} became {now:?}"));
    }
    list.push(now.to_owned());
}

/// A watch of one object.
pub(crate) struct Watcher {
    what: String,
    seen: Arc<Mutex<Observed>>,
    /// The resourceVersion that was seen last.
    version: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Watches a cluster's object from now on.
    pub(crate) async fn start(tenant: &Tenant, name: &str) -> Self {
        let what = format!("kubernetescluster {name}");
        let mut objects = tenant.watch(&what);
        let mut object = objects.next().await;
        let seen = Arc::new(Mutex::new(Observed::default()));
        let (tell, version) = watch::channel(0);
        let taking = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                taking.lock().expect("no panic").take(&object);
                tell.send_replace(version_of(&object));
                object = objects.next().await;
            }
        });
        Self { what, seen, version, task }
    }

    /// Everything that the object showed until now; all of it was legal.
    pub(crate) async fn finish(mut self, tenant: &Tenant) -> Observed {
        let last = version_of(&tenant.get(&self.what).await);
        let caught_up = self.version.wait_for(|version| *version >= last);
        let caught_up = tokio::time::timeout(PATIENCE, caught_up).await;
        caught_up.expect("the watch catches up").expect("it runs");
        let seen = std::mem::take(&mut *self.seen.lock().expect("no panic"));
        assert!(seen.wrong.is_empty(), "{seen:#?}");
        seen
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|it| it.parse().ok()).expect("a resourceVersion")
}
