//! Kubernetes Events, as `kubectl describe` shows them. They delay nothing: a queue takes
//! them, and drops what does not fit.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;

use crate::api_call::CallError;
use crate::cluster::ClusterRef;

/// How many may wait to be sent.
const QUEUE: usize = 1024;

/// The longest text that the API takes.
const LONGEST: usize = 1000;

/// Publishes Events.
#[derive(Clone, Debug)]
pub struct EventPublisher(mpsc::Sender<(ObjectReference, ClusterEvent)>);

/// An Event.
#[derive(Clone, Debug)]
pub struct ClusterEvent {
    /// One word.
    pub reason: String,
    /// A sentence.
    pub note: String,
    /// Whether it is a warning.
    pub warning: bool,
}

impl EventPublisher {
    /// Starts to send.
    pub fn new(client: Client, instance: &str) -> Self {
        let (send, mut receive) = mpsc::channel::<(ObjectReference, ClusterEvent)>(QUEUE);
        let reporter = Reporter {
            controller: "talos-operator".to_owned(),
            instance: Some(instance.to_owned()),
        };
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            while let Some((about, item)) = receive.recv().await {
                let ClusterEvent { reason, mut note, warning } = item;
                if note.len() > LONGEST {
                    note = note.chars().take(LONGEST / 4).collect();
                }
                let event = Event {
                    type_: if warning { EventType::Warning } else { EventType::Normal },
                    action: reason.clone(),
                    reason,
                    note: Some(note),
                    secondary: None,
                };
                if let Err(error) = recorder.publish(&event, &about).await {
                    tracing::debug!("an event could not be sent: {}", CallError::from(error));
                }
            }
        });
        Self(send)
    }

    /// Publishes an Event about a cluster, and logs it.
    pub fn publish(&self, cluster: &ClusterRef, event: ClusterEvent) {
        let ClusterEvent { reason, note, warning } = &event;
        let ClusterRef { name, namespace, .. } = cluster;
        if *warning {
            tracing::warn!(cluster = name, namespace, reason, "{note}");
        } else {
            tracing::info!(cluster = name, namespace, reason, "{note}");
        }
        if self.0.try_send((cluster.object_reference(), event)).is_err() {
            tracing::warn!("too many Events; one is dropped");
        }
    }
}
