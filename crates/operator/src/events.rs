//! Kubernetes Events, for whoever runs `kubectl describe`. They never hold up
//! what they tell of: a queue takes them, and drops what is too much.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use tokio::sync::mpsc;
use upgrade_core::product::Product;
use vitistack_api::KubernetesCluster;
use vitistack_api::status::Status;

use crate::api_call::describe;

/// How many may wait to be sent.
const QUEUE: usize = 1024;

/// The longest text that the API takes.
const LONGEST: usize = 1000;

/// Where news go.
#[derive(Clone, Debug)]
pub struct EventPublisher(mpsc::Sender<(ObjectReference, ClusterEvent)>);

/// Something that happened.
#[derive(Clone, Debug)]
pub struct ClusterEvent {
    /// One word.
    pub reason: String,
    /// A sentence.
    pub note: String,
    /// Whether somebody should look.
    pub warning: bool,
}

impl ClusterEvent {
    /// A change of a product's status.
    pub fn status(product: Product, status: Status, message: &str) -> Self {
        let (word, warning) = match status {
            Status::Idle => ("Idle", false),
            Status::InProgress => ("Started", false),
            Status::Completed => ("Completed", false),
            Status::Failed => ("Failed", true),
            Status::Blocked => ("Blocked", true),
        };
        Self { reason: format!("{product}Upgrade{word}"), note: message.to_owned(), warning }
    }

    /// What a plan's user should know before it is driven.
    pub fn warning(product: Product, text: &str) -> Self {
        let reason = format!("{product}UpgradePlanWarning");
        Self { reason, note: text.to_owned(), warning: true }
    }
}

impl EventPublisher {
    /// Begins to send.
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
                    tracing::debug!("an event could not be sent: {}", describe(&error));
                }
            }
        });
        Self(send)
    }

    /// Tells of a cluster.
    pub fn publish(&self, cluster: &KubernetesCluster, item: ClusterEvent) {
        let ClusterEvent { reason, note, warning } = &item;
        let (name, namespace) = (&cluster.metadata.name, &cluster.metadata.namespace);
        if *warning {
            tracing::warn!(cluster = name, namespace, reason, "{note}");
        } else {
            tracing::info!(cluster = name, namespace, reason, "{note}");
        }
        if self.0.try_send((cluster.object_ref(&()), item)).is_err() {
            tracing::warn!("too many events; one is dropped");
        }
    }
}
