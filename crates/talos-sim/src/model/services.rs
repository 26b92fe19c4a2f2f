//! The services of a node: states, health and recent events.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use talos_proto::machine;

use super::World;
use super::api::NodeIndex;
use super::events::Note;
use super::spec::NodeRole;
use super::time::{self, Time};

/// How many events of a service are kept. A node keeps 64; a stable service
/// has a handful.
const KEPT: usize = 16;

/// State of a service, with the numbers of the event that announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    Preparing = 1,
    Waiting = 2,
    Running = 3,
    Stopping = 4,
    Finished = 5,
    Failed = 6,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Preparing => "Preparing",
            Self::Waiting => "Waiting",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Finished => "Finished",
            Self::Failed => "Failed",
        }
    }
}

/// A change of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Notice {
    pub(super) state: State,
    pub(super) message: Cow<'static, str>,
    /// `None` if the service has no health check, or it has not run yet.
    pub(super) healthy: Option<bool>,
    pub(super) at: Time,
}

impl Notice {
    pub(super) fn health(&self) -> machine::ServiceHealth {
        machine::ServiceHealth {
            unknown: self.healthy.is_none(),
            healthy: self.healthy == Some(true),
            last_message: String::new(),
            last_change: Some(time::to_proto(self.at)),
        }
    }
}

/// A service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Service {
    pub(super) id: Cow<'static, str>,
    pub(super) state: State,
    pub(super) healthy: Option<bool>,
    changed: Time,
    history: Vec<Notice>,
}

impl Service {
    fn info(&self) -> machine::ServiceInfo {
        machine::ServiceInfo {
            id: self.id.to_string(),
            state: self.state.name().to_owned(),
            events: Some(machine::ServiceEvents {
                events: self
                    .history
                    .iter()
                    .map(|notice| machine::ServiceEvent {
                        msg: notice.message.to_string(),
                        state: notice.state.name().to_owned(),
                        ts: Some(time::to_proto(notice.at)),
                    })
                    .collect(),
            }),
            health: Some(machine::ServiceHealth {
                unknown: self.healthy.is_none(),
                healthy: self.healthy == Some(true),
                last_message: String::new(),
                last_change: Some(time::to_proto(self.changed)),
            }),
        }
    }
}

/// Services that run before the configuration is loaded.
pub(super) const EARLY: &[&str] =
    &["apid", "auditd", "containerd", "dashboard", "machined", "syslogd", "udevd"];

/// Services that the boot sequence starts, beside the early ones.
pub(super) fn late(role: NodeRole) -> &'static [&'static str] {
    match role {
        NodeRole::ControlPlane => &["cri", "etcd", "kubelet", "trustd"],
        NodeRole::Worker => &["cri", "kubelet"],
    }
}

/// Services that stop before the ephemeral volume is unmounted.
pub(super) const EPHEMERAL: &[&str] = &["cri", "etcd", "kubelet", "trustd"];

fn has_health_check(service: &str) -> bool {
    service != "dashboard"
}

/// Services of a node that has been running since `since`.
pub(super) fn running(role: NodeRole, since: Time) -> Vec<Service> {
    let mut services: Vec<Service> = EARLY
        .iter()
        .chain(late(role))
        .map(|id| {
            let healthy = has_health_check(id).then_some(true);
            let notice = |state, message, healthy| Notice {
                state,
                message: Cow::Borrowed(message),
                healthy,
                at: since,
            };
            let mut history = vec![
                notice(State::Preparing, "Running pre state", None),
                notice(State::Running, "Started task", None),
            ];
            if healthy.is_some() {
                history.push(notice(State::Running, "Health check successful", healthy));
            }
            Service {
                id: Cow::Borrowed(id),
                state: State::Running,
                healthy,
                changed: since,
                history,
            }
        })
        .collect();
    services.sort_by(|one, other| one.id.cmp(&other.id));
    services
}

impl World {
    /// Changes the state of a service, and publishes it.
    pub(super) fn set_service(
        &mut self,
        node: NodeIndex,
        id: &str,
        state: State,
        healthy: Option<bool>,
        message: impl Into<Cow<'static, str>>,
    ) {
        let at = self.node_time(node);
        let services = &mut self.nodes[node.0].services;
        let place = match services.binary_search_by(|service| service.id.as_ref().cmp(id)) {
            Ok(place) => place,
            Err(place) => {
                services.insert(
                    place,
                    Service {
                        id: Cow::Owned(id.to_owned()),
                        state: State::Waiting,
                        healthy: None,
                        changed: at,
                        history: Vec::new(),
                    },
                );
                place
            }
        };
        let service = &mut services[place];
        if service.state == state && service.healthy == healthy {
            return;
        }
        if service.healthy != healthy {
            service.changed = at;
        }
        service.state = state;
        service.healthy = healthy;
        let notice = Notice { state, message: message.into(), healthy, at };
        if service.history.len() == KEPT {
            service.history.remove(0);
        }
        service.history.push(notice.clone());
        let id = service.id.clone();
        self.publish(node, "", Note::Service(id, notice));
    }

    /// Starts a service; its health is still unknown.
    pub(super) fn start_service(&mut self, node: NodeIndex, id: &str) {
        self.set_service(node, id, State::Preparing, None, "Running pre state");
        self.set_service(
            node,
            id,
            State::Running,
            None,
            format!("Started task {id} for container {id}"),
        );
    }

    /// A running service passes or fails its health check.
    pub(super) fn set_health(&mut self, node: NodeIndex, id: &str, healthy: bool) {
        if !has_health_check(id) || !self.nodes[node.0].service_runs(id) {
            return;
        }
        let message = if healthy {
            "Health check successful"
        } else {
            "Health check failed: context deadline exceeded"
        };
        self.set_service(node, id, State::Running, Some(healthy), message);
    }

    /// Stops a running service.
    pub(super) fn stop_service(&mut self, node: NodeIndex, id: &str) {
        if self.nodes[node.0].service_runs(id) {
            self.set_service(
                node,
                id,
                State::Stopping,
                None,
                format!("Sending SIGTERM to task {id}"),
            );
        }
        if self.nodes[node.0].service(id).is_some() {
            self.set_service(node, id, State::Finished, None, "Service finished successfully");
        }
    }

    pub(super) fn service_list(&self, node: NodeIndex) -> machine::ServiceListResponse {
        machine::ServiceListResponse {
            messages: vec![machine::ServiceList {
                metadata: None,
                services: self.nodes[node.0].services.iter().map(Service::info).collect(),
            }],
        }
    }
}
