//! The events of a scenario: what the user, other actors and failures do.

use std::sync::Arc;
use std::time::Duration;

use kube_sim::object;
use serde_json::json;
use simulation_tests::network::NetworkConditions;
use simulation_tests::trace::{ExternalAction, TraceKind};
use talos_sim::model::NodeIndex;
use upgrade_core::snapshot::NodeName;
use vitistack_api::annotation;

use crate::play::Simulation;
use crate::scenario::{BOOT_BACK, EventKind, Target};

/// No message arrives.
const CUT: NetworkConditions =
    NetworkConditions { refused: 500, lost: 500, unanswered: 0, late: 0, doubled: 0 };

/// The user's target and pause.
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

impl Simulation {
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

    fn external(
        &self,
        action: ExternalAction,
        done: impl FnOnce(&mut simulation_tests::world::Inside),
    ) {
        self.judge.note(&format!("{action:?}"));
        self.shared.at(|inside| {
            inside.show(TraceKind::External { action });
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

/// Applies an event, and returns when it is over.
pub(crate) async fn apply(simulation: &Arc<Simulation>, kind: &EventKind) {
    match kind {
        EventKind::Kill { replica, lasts } => {
            if let Some(replica) = simulation.take(*replica) {
                simulation.judge.note(&format!("{} is killed", replica.name));
                replica.process.die();
                seconds(*lasts).await;
            }
            simulation.start();
        }
        EventKind::Restart { replica, lasts } => {
            if let Some(replica) = simulation.take(*replica) {
                simulation.judge.note(&format!("{} is stopped", replica.name));
                replica.stop();
                seconds(*lasts).await;
                // Its grace period is over.
                replica.process.die();
            }
            simulation.start();
        }
        EventKind::Suspend { replica, lasts } => {
            let Some(process) = simulation.process(*replica) else { return };
            simulation.judge.note(&format!("replica {replica} is suspended"));
            process.still.send_replace(true);
            seconds(*lasts).await;
            simulation.judge.note(&format!("replica {replica} continues"));
            process.still.send_replace(false);
        }
        EventKind::Disconnect { replica, lasts } => {
            simulation.judge.note(&format!("replica {replica} loses the hub"));
            simulation.network(Some(*replica), CUT);
            seconds(*lasts).await;
            simulation.judge.note(&format!("replica {replica} has the hub back"));
            simulation.network(Some(*replica), NetworkConditions::default());
        }
        EventKind::LoseMessages { conditions, lasts } => {
            simulation.judge.note("messages to the hub get lost");
            simulation.network(None, *conditions);
            seconds(*lasts).await;
            simulation.judge.note("messages to the hub arrive");
            simulation.network(None, NetworkConditions::default());
        }
        EventKind::AddReplica => simulation.start(),
        EventKind::Pause { lasts } => {
            simulation.pause(true);
            seconds(*lasts).await;
            simulation.pause(false);
        }
        EventKind::Remove { lasts } => {
            let Some(target) = simulation.remove_target() else { return };
            if let Some(lasts) = lasts {
                seconds(*lasts).await;
                if simulation.wanted().target.is_none() {
                    simulation.set_target(&target);
                }
            }
        }
        EventKind::Retarget => {
            let second = simulation.scenario.second.clone();
            simulation.set_target(&second);
        }
        EventKind::RotateCredentials => {
            simulation.judge.note("the credentials are rotated");
            let number = simulation.judge.number();
            simulation.hub.rotate_credentials(number);
        }
        EventKind::Cordon { node, lasts } => {
            let name = simulation.node(*node);
            cordon(simulation, &name, true);
            if let Some(lasts) = lasts {
                seconds(*lasts).await;
                cordon(simulation, &name, false);
            }
        }
        EventKind::BootBack { node } => {
            let (name, fault) = (simulation.node(*node), BOOT_BACK);
            let action = ExternalAction::Breaks { node: name, fault: "boot-back".to_owned() };
            simulation.external(action, |inside| {
                let now = inside.world.now();
                inside.world.inject(now, Some(NodeIndex(*node)), &fault);
            });
        }
    }
}

fn cordon(simulation: &Simulation, node: &NodeName, on: bool) {
    simulation.external(ExternalAction::Cordon { node: node.clone(), on }, |inside| {
        let write = kube_sim::Write::by("another-user");
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
