//! What happens to an operator: its user, its machines, and others.

use std::sync::Arc;
use std::time::Duration;

use kube_sim::object;
use serde_json::json;
use simulation_tests::network::NetworkConditions;
use simulation_tests::trace::{ExternalAction, TraceKind};
use talos_sim::model::NodeIndex;
use upgrade_core::snapshot::NodeName;
use vitistack_api::annotation;

use crate::play::Stage;
use crate::scenario::{BOOT_BACK, EventKind, Target};

/// A connection that is cut.
const CUT: NetworkConditions =
    NetworkConditions { refused: 500, lost: 500, unanswered: 0, late: 0, doubled: 0 };

/// What the user wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The target.
    pub(crate) target: Option<Target>,
    /// A pause.
    pub(crate) paused: bool,
}

/// The annotation of a target, and its value.
fn written(target: &Target) -> (&'static str, String) {
    match target {
        Target::Talos(version) => (annotation::TALOS_TARGET, version.to_string()),
        Target::Kubernetes(version) => (annotation::KUBERNETES_TARGET, version.to_string()),
    }
}

impl Stage {
    /// The user sets a target.
    pub(crate) fn set_target(&self, target: &Target) {
        let (key, value) = written(target);
        self.judge.note(&format!("the user sets {key}: {value}"));
        let before = self.wanted().target.replace(target.clone());
        let other = before.as_ref().map(|before| written(before).0).filter(|other| *other != key);
        let mut changes = vec![(key, Some(value.as_str()))];
        changes.extend(other.map(|other| (other, None)));
        self.hub.annotate(&changes);
        self.judge.target_set(before.is_some_and(|before| before != *target));
    }

    /// The user removes a target and sets it again: the way to retry a run that failed.
    pub(crate) fn set_again(&self, target: &Target) {
        self.remove_target();
        self.set_target(target);
    }

    fn remove_target(&self) -> Option<Target> {
        let target = self.wanted().target.take()?;
        let (key, _) = written(&target);
        self.judge.note(&format!("the user removes {key}"));
        self.hub.annotate(&[(key, None)]);
        self.judge.quiet();
        Some(target)
    }

    fn pause(&self, paused: bool) {
        self.judge.note(if paused { "the user pauses" } else { "the user resumes" });
        self.wanted().paused = paused;
        self.hub.annotate(&[(annotation::PAUSE, paused.then_some("true"))]);
        match paused {
            true => self.judge.quiet(),
            false if self.wanted().target.is_some() => self.judge.resumed(),
            false => {}
        }
    }

    fn others(
        &self,
        deed: ExternalAction,
        done: impl FnOnce(&mut simulation_tests::world::Inside),
    ) {
        self.judge.note(&format!("{deed:?}"));
        self.shared.at(|inside| {
            inside.show(TraceKind::Others { deed });
            done(inside);
        });
    }

    fn node(&self, number: usize) -> NodeName {
        let name = |inside: &mut simulation_tests::world::Inside| {
            inside.world.truth(NodeIndex(number)).map(|truth| truth.hostname().to_owned())
        };
        NodeName(self.shared.at(name).unwrap_or_default())
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Lets an event happen, to its end.
pub(crate) async fn happen(stage: &Arc<Stage>, kind: &EventKind) {
    match kind {
        EventKind::Kill { replica, lasts } => {
            if let Some(replica) = stage.take(*replica) {
                stage.judge.note(&format!("{} is killed", replica.name));
                replica.process.die();
                seconds(*lasts).await;
            }
            stage.start();
        }
        EventKind::Restart { replica, lasts } => {
            if let Some(replica) = stage.take(*replica) {
                stage.judge.note(&format!("{} is stopped", replica.name));
                replica.stop();
                seconds(*lasts).await;
                // The rest of its time is over.
                replica.process.die();
            }
            stage.start();
        }
        EventKind::Still { replica, lasts } => {
            let Some(process) = stage.process(*replica) else { return };
            stage.judge.note(&format!("replica {replica} stands still"));
            process.still.send_replace(true);
            seconds(*lasts).await;
            stage.judge.note(&format!("replica {replica} continues"));
            process.still.send_replace(false);
        }
        EventKind::Cut { replica, lasts } => {
            stage.judge.note(&format!("replica {replica} does not reach the hub"));
            stage.network(Some(*replica), CUT);
            seconds(*lasts).await;
            stage.judge.note(&format!("replica {replica} reaches the hub"));
            stage.network(Some(*replica), NetworkConditions::default());
        }
        EventKind::Rough { conditions, lasts } => {
            stage.judge.note("messages to the hub get lost");
            stage.network(None, *conditions);
            seconds(*lasts).await;
            stage.judge.note("messages to the hub arrive");
            stage.network(None, NetworkConditions::default());
        }
        EventKind::Join => stage.start(),
        EventKind::Pause { lasts } => {
            stage.pause(true);
            seconds(*lasts).await;
            stage.pause(false);
        }
        EventKind::Remove { lasts } => {
            let Some(target) = stage.remove_target() else { return };
            if let Some(lasts) = lasts {
                seconds(*lasts).await;
                if stage.wanted().target.is_none() {
                    stage.set_target(&target);
                }
            }
        }
        EventKind::Retarget => {
            let second = stage.scenario.second.clone();
            stage.set_target(&second);
        }
        EventKind::Rotate => {
            stage.judge.note("other credentials");
            let number = stage.judge.number();
            stage.hub.rotate_credentials(number);
        }
        EventKind::Cordon { node, lasts } => {
            let name = stage.node(*node);
            cordon(stage, &name, true);
            if let Some(lasts) = lasts {
                seconds(*lasts).await;
                cordon(stage, &name, false);
            }
        }
        EventKind::BootBack { node } => {
            let (name, fault) = (stage.node(*node), BOOT_BACK);
            let deed = ExternalAction::Breaks { node: name, fault: "boot-back".to_owned() };
            stage.others(deed, |inside| {
                let now = inside.world.now();
                inside.world.inject(now, Some(NodeIndex(*node)), &fault);
            });
        }
    }
}

fn cordon(stage: &Stage, node: &NodeName, on: bool) {
    stage.others(ExternalAction::Cordon { node: node.clone(), on }, |inside| {
        let write = kube_sim::Write::by("somebody");
        let store = inside.kubernetes.api_mut().store_mut();
        let path = ["spec", "unschedulable"];
        let _ = store.modify(&write, &kube_sim::names::NODES, "", &node.0, |node| {
            if on {
                object::set(node, &path, json!(true));
            } else {
                object::remove(node, &path);
            }
        });
    });
}
