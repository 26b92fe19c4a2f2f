//! Where the events of a run go: one type, any number of sinks.

use std::sync::Arc;

use tokio::sync::mpsc;
use upgrade_core::event::Event;

/// Receives the events of a run, in order.
pub trait EventSink: Send + Sync {
    /// Receives one event. Never blocks and never fails: a slow reader must not delay a node that
    /// is being upgraded. Put a channel before a sink that writes to something slow.
    fn event(&self, event: Event);
}

/// A channel has no bound, since a run has few events. Without a reader they are dropped.
impl EventSink for mpsc::UnboundedSender<Event> {
    fn event(&self, event: Event) {
        let _ = self.send(event);
    }
}

/// Passes each event to all of its sinks, in their order.
#[derive(Clone, Default)]
pub struct FanOut(Vec<Arc<dyn EventSink>>);

impl FanOut {
    /// A fan-out to these sinks.
    pub fn new(sinks: impl IntoIterator<Item = Arc<dyn EventSink>>) -> Self {
        Self(sinks.into_iter().collect())
    }
}

impl EventSink for FanOut {
    fn event(&self, event: Event) {
        if let Some((last, others)) = self.0.split_last() {
            for sink in others {
                sink.event(event.clone());
            }
            last.event(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::event::EventKind;

    use super::*;

    #[test]
    fn every_sink_gets_every_event_in_order() {
        let (first, mut one) = mpsc::unbounded_channel();
        let (second, mut two) = mpsc::unbounded_channel();
        let (gone, _) = mpsc::unbounded_channel();
        let all =
            FanOut::new([Arc::new(first) as Arc<dyn EventSink>, Arc::new(gone), Arc::new(second)]);
        let event = |kind| Event {
            at: "2026-11-15T20:00:00Z".parse().unwrap(),
            cluster: "prod".to_owned(),
            plan: serde_json::from_str("\"ab\"").unwrap(),
            kind,
        };
        let by = || "Ctrl-C".to_owned();
        let kinds = [EventKind::Paused { by: by() }, EventKind::Resumed { by: by() }];
        for kind in &kinds {
            all.event(event(kind.clone()));
        }
        for reader in [&mut one, &mut two] {
            for kind in &kinds {
                assert_eq!(reader.try_recv().unwrap(), event(kind.clone()));
            }
        }
        FanOut::default().event(event(EventKind::Completed));
    }
}
