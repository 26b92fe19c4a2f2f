//! Makes the operator panic, at places that only one cluster comes to: whoever
//! hears what the program logs may break it there.

use std::fmt::{Debug, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The cluster whose task panics when it tells that its upgrade has begun.
pub(crate) const AT_ITS_BEGINNING: &str = "panics-at-its-beginning";

static AT_BEGINNING: AtomicUsize = AtomicUsize::new(0);
static ON_READS: AtomicUsize = AtomicUsize::new(0);
static NODE: Mutex<Option<String>> = Mutex::new(None);

/// Listens to what is logged.
pub(crate) struct Sabotage;

impl Sabotage {
    /// Hears little, so that the rest stays as quick as it is.
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
        let heard = Targets::new()
            .with_target("upgrade_operator::news", Level::INFO)
            .with_target("talos_client::client", Level::DEBUG);
        Self.with_filter(heard)
    }

    /// From now on whoever cannot talk to this endpoint panics.
    pub(crate) fn reads_of(address: &str) {
        *NODE.lock().expect("no panic") = Some(address.to_owned());
    }

    /// Nobody panics any more: an address may be another cluster's next.
    pub(crate) fn end() {
        *NODE.lock().expect("no panic") = None;
    }

    /// How often a task panicked at the beginning of its run, and how often a
    /// read inside of a run did.
    pub(crate) fn panics() -> (usize, usize) {
        (AT_BEGINNING.load(Ordering::Relaxed), ON_READS.load(Ordering::Relaxed))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Sabotage {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said(String::new());
        event.record(&mut said);
        let Said(said) = said;
        let beginning = said.contains("reason=\"TalosUpgradeStarted\"")
            && said.contains(&format!("cluster=\"{AT_ITS_BEGINNING}\""));
        // Only once: it is begun anew, and then nobody disturbs it.
        if beginning {
            let before = AT_BEGINNING.fetch_add(1, Ordering::Relaxed);
            assert!(before > 0, "sabotage at the beginning of a run");
        }
        let node = NODE.lock().expect("no panic").clone();
        // What a node does not have is not found in every look; nobody panics then.
        let read = said.contains("the endpoint could not be talked to")
            && node.is_some_and(|node| said.contains(&format!("endpoint={node} ")));
        if read {
            ON_READS.fetch_add(1, Ordering::Relaxed);
            panic!("sabotage inside of a run");
        }
    }
}

struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
