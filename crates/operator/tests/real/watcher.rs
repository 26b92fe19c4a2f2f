//! Sees every state that a cluster's object goes through, and knows which may
//! follow which.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::world::annotation;

/// Which status may follow which. A cluster begins without one.
const STATUS: &[(&str, &[&str])] = &[
    ("", &["idle", "in-progress", "blocked", "failed"]),
    ("idle", &["in-progress", "blocked", "failed", "completed"]),
    // It ends, or its user takes it back.
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

/// What the object showed, every change of it once.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) talos: Vec<String>,
    pub(crate) kubernetes: Vec<String>,
    pub(crate) phase: Vec<String>,
    pub(crate) progress: Vec<String>,
    pub(crate) messages: Vec<String>,
    /// What was not legal.
    pub(crate) wrong: Vec<String>,
}

impl Seen {
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
        // What is told goes together: a run that is under way shows its phase
        // before its status, and keeps it until after.
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

/// A watch of one object, by the real kubectl.
pub(crate) struct Watcher {
    child: Child,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches from now on.
    pub(crate) fn start(mut kubectl: Command, name: &str) -> Self {
        let mut child = kubectl
            .args(["get", "kubernetescluster", name, "--watch", "-o", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl starts");
        let stdout = child.stdout.take().expect("a pipe");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let taking = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let bytes = std::io::BufReader::new(stdout);
            let objects = serde_json::Deserializer::from_reader(bytes).into_iter::<Value>();
            for object in objects {
                // Half an object is what is left when kubectl is ended.
                let Ok(object) = object else { break };
                taking.lock().expect("no panic").take(&object);
            }
        });
        Self { child, seen, thread: Some(thread) }
    }

    /// Everything that was seen, all of it legal.
    pub(crate) fn finish(mut self) -> Seen {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
        let seen = std::mem::take(&mut *self.seen.lock().expect("no panic"));
        assert!(seen.wrong.is_empty(), "{seen:#?}");
        seen
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
