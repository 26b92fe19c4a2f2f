//! The metrics of a process, one method for each thing that happens.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use upgrade_core::product::Product;

use super::process;

/// Seconds of a step or a run: from a pull that was there already to a long roll-out.
const SPANS: [f64; 11] = [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0];

/// Seconds of a reconcile, which should be short.
const MOMENTS: [f64; 7] = [0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    product: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TransitionLabels {
    product: &'static str,
    from: &'static str,
    to: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    product: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunEndLabels {
    product: &'static str,
    end: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepEndLabels {
    step: String,
    end: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: &'static str,
    result: &'static str,
}

/// A family of histograms with these buckets.
type Spans<L> = Family<L, Histogram, fn() -> Histogram>;

/// How a drive of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Everything planned is done.
    Completed,
    /// It failed.
    Halted,
    /// A user asked for a pause.
    Paused,
    /// The target was removed.
    Cancelled,
    /// Another replica continues it.
    HandedOver,
}

impl RunEnd {
    const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Halted => "halted",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::HandedOver => "handed-over",
        }
    }
}

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    clusters: Family<StatusLabels, Gauge>,
    transitions: Family<TransitionLabels, Counter>,
    runs_begun: Family<RunLabels, Counter>,
    runs_ended: Family<RunEndLabels, Counter>,
    runs_active: Gauge,
    run_seconds: Spans<RunEndLabels>,
    steps: Family<StepEndLabels, Counter>,
    step_seconds: Spans<StepLabels>,
    reconciles: Family<ResultLabels, Counter>,
    reconcile_seconds: Histogram,
    leases_lost: Counter,
    refreshes: Family<SourceLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let spans: fn() -> Histogram = || Histogram::new(SPANS);
        let mut metrics = Self {
            registry: Registry::default(),
            clusters: Family::default(),
            transitions: Family::default(),
            runs_begun: Family::default(),
            runs_ended: Family::default(),
            runs_active: Gauge::default(),
            run_seconds: Family::new_with_constructor(spans),
            steps: Family::default(),
            step_seconds: Family::new_with_constructor(spans),
            reconciles: Family::default(),
            reconcile_seconds: Histogram::new(MOMENTS),
            leases_lost: Counter::default(),
            refreshes: Family::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    /// The encoder adds `_total` to the names of counters, and a full stop to each text.
    fn register(&mut self) {
        let mut registry = Registry::default();
        let operator = registry.sub_registry_with_prefix("talos_operator");
        operator.register(
            "clusters",
            "Clusters by the status that their annotations show",
            self.clusters.clone(),
        );
        operator.register(
            "transitions",
            "Changes of the status annotations of all clusters",
            self.transitions.clone(),
        );
        operator.register(
            "runs_begun",
            "Runs that this replica began or took over",
            self.runs_begun.clone(),
        );
        operator.register(
            "runs_ended",
            "Runs that this replica stopped driving, by how they ended",
            self.runs_ended.clone(),
        );
        operator.register(
            "runs_active",
            "Runs that this replica drives now",
            self.runs_active.clone(),
        );
        operator.register(
            "run_seconds",
            "How long this replica drove runs",
            self.run_seconds.clone(),
        );
        operator.register("steps", "Steps of runs, by how they ended", self.steps.clone());
        operator.register("step_seconds", "How long steps took", self.step_seconds.clone());
        operator.register(
            "reconciles",
            "Reconciles of a cluster's object, by result",
            self.reconciles.clone(),
        );
        operator.register(
            "reconcile_seconds",
            "How long reconciles of a cluster's object took",
            self.reconcile_seconds.clone(),
        );
        operator.register(
            "leases_lost",
            "Leases that another replica took while this one drove",
            self.leases_lost.clone(),
        );
        operator.register(
            "version_refreshes",
            "Requests to the sources of available versions",
            self.refreshes.clone(),
        );
        registry.register_collector(Box::new(Process));
        self.registry = registry;
    }

    /// This replica changed the status that a cluster shows.
    pub fn transition(&self, product: Product, from: Option<&'static str>, to: &'static str) {
        let from = from.unwrap_or("none");
        let labels = TransitionLabels { product: product.as_str(), from, to };
        self.transitions.get_or_create(&labels).inc();
    }

    /// A cluster of this replica changed its status; `None` is no status, or another
    /// replica's cluster.
    pub(super) fn moved(
        &self,
        product: Product,
        from: Option<&'static str>,
        to: Option<&'static str>,
    ) {
        let of = |status| StatusLabels { product: product.as_str(), status };
        if let Some(status) = from {
            self.clusters.get_or_create(&of(status)).dec();
        }
        if let Some(status) = to {
            self.clusters.get_or_create(&of(status)).inc();
        }
    }

    /// A run is driven from now on.
    pub(super) fn run_begun(&self, product: &'static str) {
        self.runs_begun.get_or_create(&RunLabels { product }).inc();
        self.runs_active.inc();
    }

    /// A run is no longer driven.
    pub(super) fn run_ended(&self, product: &'static str, end: RunEnd, seconds: f64) {
        let labels = RunEndLabels { product, end: end.name() };
        self.runs_ended.get_or_create(&labels).inc();
        self.runs_active.dec();
        self.run_seconds.get_or_create(&labels).observe(seconds);
    }

    /// A step ended: `done`, `skipped` or `failed`.
    pub(super) fn step_ended(&self, step: &str, end: &'static str, seconds: f64) {
        let step = step.to_owned();
        self.step_seconds.get_or_create(&StepLabels { step: step.clone() }).observe(seconds);
        self.steps.get_or_create(&StepEndLabels { step, end }).inc();
    }

    /// One round of a reconciler.
    pub fn reconciled(&self, ok: bool, seconds: f64) {
        self.reconciles.get_or_create(&ResultLabels { result: result(ok) }).inc();
        self.reconcile_seconds.observe(seconds);
    }

    /// Another replica may have taken the lease of a run.
    pub fn lease_lost(&self) {
        self.leases_lost.inc();
    }

    /// A source of versions was asked.
    pub fn refreshed(&self, source: &'static str, ok: bool) {
        let labels = SourceLabels { source, result: result(ok) };
        self.refreshes.get_or_create(&labels).inc();
    }

    /// All of them, in the text format of `OpenMetrics`.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let encoded = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        encoded.expect("writing to memory does not fail");
        text
    }
}

const fn result(ok: bool) -> &'static str {
    if ok { "ok" } else { "error" }
}

/// Reads the metrics of the process when it is asked for them.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(bytes) = process::resident_memory() {
            let memory = ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
            let (name, help) = ("process_resident_memory_bytes", "Memory that this process holds.");
            memory.encode(encoder.encode_descriptor(name, help, None, memory.metric_type())?)?;
        }
        if let Some(seconds) = process::processor_seconds() {
            let processor = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu_seconds", "Processor time that this process used.");
            let encoder = encoder.encode_descriptor(name, help, None, processor.metric_type())?;
            processor.encode(encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_move_from_one_status_to_the_next() {
        let metrics = Metrics::default();
        metrics.moved(Product::Talos, None, Some("idle"));
        metrics.moved(Product::Talos, Some("idle"), Some("in-progress"));
        metrics.transition(Product::Talos, Some("idle"), "in-progress");
        let text = metrics.render();
        for line in [
            "talos_operator_clusters{product=\"Talos\",status=\"idle\"} 0",
            "talos_operator_clusters{product=\"Talos\",status=\"in-progress\"} 1",
            "talos_operator_transitions_total{product=\"Talos\",from=\"idle\",to=\"in-progress\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn every_metric_is_listed_once_and_documented() {
        let metrics = Metrics::default();
        // A family without a sample is not listed.
        metrics.moved(Product::Talos, None, Some("idle"));
        metrics.transition(Product::Talos, None, "idle");
        metrics.run_begun("Talos");
        metrics.run_ended("Talos", RunEnd::Completed, 1.0);
        metrics.step_ended("drain", "done", 1.0);
        metrics.reconciled(true, 0.1);
        metrics.lease_lost();
        metrics.refreshed("factory", true);
        let text = metrics.render();
        let document = include_str!("../../../../docs/operator.md");
        let types: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(types.len(), 14, "{text}");
        for line in types {
            let (name, kind) = line.split_once(' ').expect("a name and a type");
            assert_eq!(text.matches(&format!("# HELP {name} ")).count(), 1, "{name}");
            let sample = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            assert!(document.contains(&sample), "{sample} is not documented");
        }
        for line in text.lines().filter(|line| line.starts_with("# HELP")) {
            assert!(line.ends_with('.') && !line.ends_with(".."), "{line}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn runs_that_end_are_not_active_any_more() {
        let metrics = Metrics::default();
        metrics.run_begun("Kubernetes");
        assert!(metrics.render().contains("\ntalos_operator_runs_active 1\n"));
        metrics.run_ended("Kubernetes", RunEnd::HandedOver, 61.0);
        let text = metrics.render();
        assert!(text.contains("\ntalos_operator_runs_active 0\n"));
        let bucket = |end: &str, count: u8| {
            format!(
                "talos_operator_run_seconds_bucket{{le=\"{end}\",product=\"Kubernetes\",\
                 end=\"handed-over\"}} {count}\n"
            )
        };
        assert!(text.contains(&bucket("60.0", 0)), "{text}");
        assert!(text.contains(&bucket("120.0", 1)), "{text}");
    }
}
