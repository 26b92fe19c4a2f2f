//! Makes the operator panic in places that only one cluster reaches: a log layer
//! panics when it sees a certain line.

use std::fmt::{Debug, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The cluster whose task panics when it reports that its upgrade started.
pub(crate) const AT_ITS_BEGINNING: &str = "panics-at-its-beginning";

static AT_BEGINNING: AtomicUsize = AtomicUsize::new(0);
static ON_READS: AtomicUsize = AtomicUsize::new(0);
static NODE: Mutex<Option<String>> = Mutex::new(None);

/// A log layer that panics.
pub(crate) struct Sabotage;

impl Sabotage {
    /// It gets only a few lines, so that logging stays fast.
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
        let heard = Targets::new()
            .with_target("upgrade_operator::news", Level::INFO)
            .with_target("talos_client::client", Level::DEBUG);
        Self.with_filter(heard)
    }

    /// From now on a task that cannot reach this endpoint panics.
    pub(crate) fn reads_of(address: &str) {
        *NODE.lock().expect("no panic") = Some(address.to_owned());
    }

    /// Nothing panics any more: another cluster may get this address.
    pub(crate) fn end() {
        *NODE.lock().expect("no panic") = None;
    }

    /// How often a task panicked at the start of its run, and how often one panicked
    /// in the middle of its run.
    pub(crate) fn panics() -> (usize, usize) {
        (AT_BEGINNING.load(Ordering::Relaxed), ON_READS.load(Ordering::Relaxed))
    }

    /// Waits until there was a panic of each kind.
    pub(crate) async fn panicked_in_both_places() {
        while Self::panics().0 == 0 || Self::panics().1 == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Sabotage {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said(String::new());
        event.record(&mut said);
        let Said(said) = said;
        let beginning = said.contains("reason=\"TalosUpgradeStarted\"")
            && said.contains(&format!("cluster=\"{AT_ITS_BEGINNING}\""));
        // Only once: the task is started again, and then it works.
        if beginning {
            let before = AT_BEGINNING.fetch_add(1, Ordering::Relaxed);
            assert!(before > 0, "sabotage at the start of a run");
        }
        let node = NODE.lock().expect("no panic").clone();
        // A node may lack an API and say so in every look; that is no panic.
        let read = said.contains("cannot connect to the endpoint")
            && node.is_some_and(|node| said.contains(&format!("endpoint={node} ")));
        if read {
            ON_READS.fetch_add(1, Ordering::Relaxed);
            panic!("sabotage in the middle of a run");
        }
    }
}

struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
