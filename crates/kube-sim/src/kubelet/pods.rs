//! Running pods, from binding to termination.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::mirror::is_mirror;
use super::pod_status::{self, Progress};
use super::{Api, Due, Kubelets, RETRY, events};
use crate::controllers::conditions;
use crate::names::PODS;
use crate::object;
use crate::store::Stored;
use crate::time::Time;

/// The longest backoff between two image pulls.
const LONGEST_BACKOFF: Duration = Duration::from_mins(5);
/// The default grace period, in seconds.
const USUAL_GRACE: i64 = 30;

/// The stage of a pod on its kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// The kubelet has not handled it yet.
    New,
    /// Its containers are being created.
    Creating,
    /// An image could not be pulled.
    Pulling,
    /// It runs but is not ready.
    Starting,
    /// It is ready.
    Ready,
    /// It is terminating.
    Stopping,
    /// It has ended.
    Done,
}

/// A pod that is bound to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pod: Stored,
    node: String,
    stage: Stage,
    /// When the next stage is due.
    pub(super) due: Option<Time>,
    restarts: u32,
    /// The number of failed image pulls.
    failures: u32,
    address: String,
    /// Whether the API may show another status than the kubelet's.
    stale: bool,
}

impl Run {
    fn node(&self) -> &str {
        &self.node
    }

    fn set(&mut self, pod: &Arc<Value>) {
        self.pod = Stored::from_value(pod.clone());
    }

    /// The pod has not been used lately. Kubelets do not need its field ownership.
    fn rest(&mut self) {
        self.pod.cool_as(|pod| {
            let mut pod = pod.clone();
            object::remove(&mut pod, &["metadata", "managedFields"]);
            pod.to_string()
        });
    }

    fn grace(&self) -> i64 {
        object::number(self.pod.value(), &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0)
    }

    /// Continues from a status in the API.
    fn new(pod: &Arc<Value>) -> Self {
        let stage = match object::text(pod, &["status", "phase"]) {
            "Succeeded" | "Failed" => Stage::Done,
            "Running" => Stage::Starting,
            _ => Stage::New,
        };
        let restarts = object::list(pod, &["status", "containerStatuses"])
            .iter()
            .filter_map(|container| object::number(container, &["restartCount"]))
            .max()
            .and_then(|restarts| u32::try_from(restarts).ok())
            .unwrap_or(0);
        let address = object::text(pod, &["status", "podIP"]).to_owned();
        let node = object::text(pod, &["spec", "nodeName"]).to_owned();
        let pod = Stored::from_value(pod.clone());
        Self { pod, node, stage, due: None, restarts, failures: 0, address, stale: false }
    }
}

fn key(pod: &Value) -> String {
    format!("{}/{}", object::namespace(pod), object::name(pod))
}

impl Kubelets {
    pub(super) fn observe_pod(&mut self, pod: &Arc<Value>, gone: bool) {
        let node = object::text(pod, &["spec", "nodeName"]);
        if node.is_empty() {
            return;
        }
        if is_mirror(pod) {
            return self.observe_mirror(pod, gone);
        }
        let key = key(pod);
        let known =
            self.pods.get_mut(&key).filter(|run| object::uid(run.pod.value()) == object::uid(pod));
        let node_ready = self.nodes.get(node).is_some_and(|kubelet| kubelet.facts.ready);
        match known {
            _ if gone => {
                self.pods.remove(&key);
                return;
            }
            // The reply to a write arrived before an older watch event.
            Some(run) if object::revision(pod) < object::revision(run.pod.value()) => return,
            Some(run) => {
                let ended =
                    ["Succeeded", "Failed"].contains(&object::text(pod, &["status", "phase"]));
                if ended && run.stage != Stage::Stopping {
                    run.stage = Stage::Done;
                }
                let wants = object::is_deleting(pod)
                    && (run.stage != Stage::Stopping
                        || object::number(pod, &["metadata", "deletionGracePeriodSeconds"])
                            != Some(run.grace()));
                run.set(pod);
                if node_ready && run.stage == Stage::Ready && !conditions::is_true(pod, "Ready") {
                    // The node controller marked it unready; its node is back.
                    run.stale = true;
                } else if !wants {
                    return;
                }
            }
            None => drop(self.pods.insert(key.clone(), Run::new(pod))),
        }
        self.touched.insert(key);
    }

    /// A kubelet has started, perhaps after a reboot of the machine.
    pub(super) fn kubelet_starts(&mut self, node: &str, rebooted: bool) {
        for (key, run) in self.pods.iter_mut().filter(|(_, run)| run.node() == node) {
            if rebooted && [Stage::Starting, Stage::Ready].contains(&run.stage) {
                run.stage = Stage::Creating;
                run.restarts += 1;
                run.due = None;
            }
            run.stale = true;
            self.touched.insert(key.clone());
        }
    }

    /// Handles a pod that has changed or is due.
    pub(super) fn step(&mut self, now: Time, api: &mut dyn Api, key: &str) {
        let Some(run) = self.pods.get(key) else { return };
        let up = self.nodes.get(run.node()).is_some_and(|kubelet| kubelet.facts.kubelet_up);
        if !up {
            return;
        }
        if object::is_deleting(run.pod.value()) {
            return self.stop(now, api, key);
        }
        let waits = run.due.is_some_and(|due| due > now);
        match run.stage {
            Stage::New => {
                let range = self.timings.start;
                self.goes(now, key, Stage::Creating, Some(range));
                let waiting = "ContainerCreating";
                self.tell(
                    now,
                    api,
                    key,
                    &Progress::Waiting { reason: waiting, message: String::new() },
                );
            }
            Stage::Creating | Stage::Pulling if !waits => self.start(now, api, key),
            Stage::Starting if !waits => {
                let work = works(run.pod.value()).then_some(self.timings.work);
                self.goes(now, key, Stage::Ready, work);
                self.tell(now, api, key, &Progress::Ready);
            }
            Stage::Ready if !waits && works(run.pod.value()) && run.due.is_some() => {
                self.goes(now, key, Stage::Done, None);
                self.tell(now, api, key, &Progress::Succeeded);
            }
            Stage::Ready if run.stale => self.tell(now, api, key, &Progress::Ready),
            _ => {}
        }
    }

    /// Starts the containers once their images and volumes are available.
    fn start(&mut self, now: Time, api: &mut dyn Api, key: &str) {
        let Some(run) = self.pods.get(key) else { return };
        let Some(kubelet) = self.nodes.get(run.node()) else { return };
        let missing = object::list(run.pod.value(), &["spec", "containers"])
            .iter()
            .map(|container| object::text(container, &["image"]))
            .find(|image| {
                kubelet.facts.faults.unpullable.iter().any(|prefix| image.starts_with(prefix))
            });
        if let Some(image) = missing {
            let (reason, message) = if run.failures % 2 == 0 {
                let message = format!(
                    "rpc error: code = NotFound desc = failed to pull and unpack image {image:?}: \
                     not found"
                );
                ("ErrImagePull", message)
            } else {
                ("ImagePullBackOff", format!("Back-off pulling image {image:?}"))
            };
            let wait = Duration::from_secs(5 << run.failures.min(6)).min(LONGEST_BACKOFF);
            self.goes(now, key, Stage::Pulling, Some((wait, wait)));
            if let Some(run) = self.pods.get_mut(key) {
                run.failures += 1;
            }
            return self.tell(now, api, key, &Progress::Waiting { reason, message });
        }
        if !self.volumes_are_there(api, key) {
            return self.goes(now, key, Stage::Creating, Some((RETRY, RETRY)));
        }
        self.give_address(key);
        self.goes(now, key, Stage::Starting, Some(self.timings.ready));
        self.tell(now, api, key, &Progress::Running);
    }

    /// Stops a pod, then deletes it from the API.
    fn stop(&mut self, now: Time, api: &mut dyn Api, key: &str) {
        let Some(run) = self.pods.get(key) else { return };
        let grace = Duration::from_secs(u64::try_from(run.grace()).unwrap_or(0));
        let over = match run.stage {
            Stage::Stopping => run.due.is_none_or(|due| due <= now),
            Stage::Starting | Stage::Ready => false,
            _ => true,
        };
        if over || grace.is_zero() {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            let uid = object::uid(run.pod.value()).to_owned();
            match api.delete(&PODS, namespace, name, &uid) {
                Err(status) if ![404, 409].contains(&status.code) => {
                    self.goes(now, key, Stage::Stopping, Some((RETRY, RETRY)));
                }
                _ => drop(self.pods.remove(key)),
            }
            return;
        }
        if run.stage != Stage::Stopping {
            events::stopping(now, api, run.pod.value());
        }
        let lasts = if run.stage == Stage::Stopping {
            // The grace period has been shortened meanwhile.
            run.due.map_or(grace, |due| due.since(now)).min(grace)
        } else {
            let asked = object::number(run.pod.value(), &["spec", "terminationGracePeriodSeconds"]);
            let hook = hook(run.pod.value());
            if asked.is_some_and(|asked| asked > USUAL_GRACE) && hook.is_zero() {
                grace
            } else {
                (self.draw(self.timings.stop) + hook).min(grace)
            }
        };
        self.goes(now, key, Stage::Stopping, Some((lasts, lasts)));
    }

    /// Enters the next stage, and schedules the end of it.
    fn goes(&mut self, now: Time, key: &str, stage: Stage, range: Option<(Duration, Duration)>) {
        let due = range.map(|range| {
            let lasts = self.draw(range);
            self.plan(now.plus(lasts), Due::Pod(key.to_owned()))
        });
        if let Some(run) = self.pods.get_mut(key) {
            run.stage = stage;
            run.due = due;
        }
    }

    /// Reports a pod's status.
    fn tell(&mut self, now: Time, api: &mut dyn Api, key: &str, progress: &Progress) {
        let Some(run) = self.pods.get_mut(key) else { return };
        let Some(kubelet) = self.nodes.get(run.node()) else { return };
        let status = pod_status::of(
            run.pod.value(),
            &kubelet.facts,
            &run.address,
            now,
            run.restarts,
            progress,
        );
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        match api.patch(&PODS, namespace, name, "status", &json!({"status": status})) {
            Ok(pod) => {
                run.set(&pod);
                run.stale = false;
                events::progressed(now, api, &pod, progress);
            }
            Err(status) if status.code == 404 => drop(self.pods.remove(key)),
            Err(_) => {
                run.stale = true;
                if run.due.is_none() {
                    let at = self.plan(now.plus(RETRY), Due::Pod(key.to_owned()));
                    if let Some(run) = self.pods.get_mut(key) {
                        run.due = Some(at);
                    }
                }
            }
        }
    }

    /// The address of the pod in its node's range.
    fn give_address(&mut self, key: &str) {
        let Some(run) = self.pods.get_mut(key) else { return };
        let Some(kubelet) = self.nodes.get_mut(run.node()) else { return };
        if object::flag(run.pod.value(), &["spec", "hostNetwork"]) {
            kubelet.facts.address().clone_into(&mut run.address);
        } else if run.address.is_empty() {
            let (number, host) = (kubelet.number, 2 + kubelet.given % 250);
            kubelet.given += 1;
            run.address = format!("10.{}.{}.{host}", 244 + (number >> 8), number & 255);
        }
    }

    /// The pod, for other parts of the kubelet.
    pub(super) fn pod(&self, key: &str) -> Option<&Arc<Value>> {
        self.pods.get(key).map(|run| run.pod.value())
    }

    /// Compresses the pods that have not been used lately.
    pub(super) fn rest_pods(&mut self) {
        self.pods.values_mut().for_each(Run::rest);
    }
}

/// Whether a pod ends when its work is done, as pods of jobs do.
fn works(pod: &Value) -> bool {
    object::list(pod, &["metadata", "ownerReferences"])
        .iter()
        .any(|owner| object::text(owner, &["kind"]) == "Job")
}

/// The duration of the longest `preStop` sleep.
fn hook(pod: &Value) -> Duration {
    let seconds = object::list(pod, &["spec", "containers"])
        .iter()
        .filter_map(|container| {
            object::number(container, &["lifecycle", "preStop", "sleep", "seconds"])
        })
        .max();
    Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0))
}
