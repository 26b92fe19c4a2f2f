//! What the operator counts, one method for each thing that happens.

use upgrade_core::product::Product;
use vitistack_api::status::Status;

use super::process;
use super::registry::{Kind, Metric, Registry};

/// Seconds of a step or a run: from a pull that was there already to a long
/// roll-out.
const SPANS: &[f64] = &[1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0];

/// Seconds of a reconciliation, which should be a moment.
const MOMENTS: &[f64] = &[0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0];

const CLUSTERS: Metric = Metric {
    name: "talos_operator_clusters",
    help: "Clusters by the status that their annotations show.",
    kind: Kind::Gauge,
    labels: &["product", "status"],
};
const TRANSITIONS: Metric = Metric {
    name: "talos_operator_transitions_total",
    help: "Changes of the status annotations of all clusters.",
    kind: Kind::Counter,
    labels: &["product", "from", "to"],
};
const RUNS_BEGUN: Metric = Metric {
    name: "talos_operator_runs_begun_total",
    help: "Runs that this replica began or took over.",
    kind: Kind::Counter,
    labels: &["product"],
};
const RUNS_ENDED: Metric = Metric {
    name: "talos_operator_runs_ended_total",
    help: "Runs that this replica let go of, by how they ended.",
    kind: Kind::Counter,
    labels: &["product", "end"],
};
const RUNS_ACTIVE: Metric = Metric {
    name: "talos_operator_runs_active",
    help: "Runs that this replica drives now.",
    kind: Kind::Gauge,
    labels: &[],
};
const RUN_SECONDS: Metric = Metric {
    name: "talos_operator_run_seconds",
    help: "How long runs took in this replica's hands.",
    kind: Kind::Histogram(SPANS),
    labels: &["product", "end"],
};
const STEPS: Metric = Metric {
    name: "talos_operator_steps_total",
    help: "StepMetrics of runs, by how they ended.",
    kind: Kind::Counter,
    labels: &["step", "end"],
};
const STEP_SECONDS: Metric = Metric {
    name: "talos_operator_step_seconds",
    help: "How long steps took.",
    kind: Kind::Histogram(SPANS),
    labels: &["step"],
};
const RECONCILES: Metric = Metric {
    name: "talos_operator_reconciles_total",
    help: "Looks at a cluster's object, by result.",
    kind: Kind::Counter,
    labels: &["result"],
};
const RECONCILE_SECONDS: Metric = Metric {
    name: "talos_operator_reconcile_seconds",
    help: "How long looks at a cluster's object took.",
    kind: Kind::Histogram(MOMENTS),
    labels: &[],
};
const LEASES_LOST: Metric = Metric {
    name: "talos_operator_leases_lost_total",
    help: "Leases that another replica took while this one drove.",
    kind: Kind::Counter,
    labels: &[],
};
const REFRESHES: Metric = Metric {
    name: "talos_operator_version_refreshes_total",
    help: "Questions to the sources of available versions.",
    kind: Kind::Counter,
    labels: &["source", "result"],
};
const MEMORY: Metric = Metric {
    name: "process_resident_memory_bytes",
    help: "Memory that this process holds.",
    kind: Kind::Gauge,
    labels: &[],
};
const PROCESSOR: Metric = Metric {
    name: "process_cpu_seconds_total",
    help: "Processor time that this process used.",
    kind: Kind::Counter,
    labels: &[],
};

const ALL: &[Metric] = &[
    CLUSTERS,
    TRANSITIONS,
    RUNS_BEGUN,
    RUNS_ENDED,
    RUNS_ACTIVE,
    RUN_SECONDS,
    STEPS,
    STEP_SECONDS,
    RECONCILES,
    RECONCILE_SECONDS,
    LEASES_LOST,
    REFRESHES,
    MEMORY,
    PROCESSOR,
];

/// How a run left this replica's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Everything planned is done.
    Completed,
    /// It failed.
    Halted,
    /// A person asked for a pause.
    Paused,
    /// The target was taken away.
    Cancelled,
    /// Another replica goes on with it.
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

/// Everything counted.
#[derive(Debug)]
pub struct Metrics(Registry);

impl Default for Metrics {
    fn default() -> Self {
        Self(Registry::new(ALL))
    }
}

impl Metrics {
    /// This replica changed the status annotation of a cluster.
    pub fn transition(&self, product: Product, from: Option<Status>, to: Status) {
        let from = from.map_or("none", Status::as_str);
        self.0.add(&TRANSITIONS, &[product.as_str(), from, to.as_str()], 1.0);
    }

    /// A cluster of this replica is counted elsewhere than before; `None` is
    /// no status, or another replica's cluster.
    pub fn moved(&self, product: Product, from: Option<Status>, to: Option<Status>) {
        for (status, by) in [(from, -1.0), (to, 1.0)] {
            if let Some(status) = status {
                self.0.add(&CLUSTERS, &[product.as_str(), status.as_str()], by);
            }
        }
    }

    /// A run is driven from now on.
    pub fn run_begun(&self, product: Product) {
        self.0.add(&RUNS_BEGUN, &[product.as_str()], 1.0);
        self.0.add(&RUNS_ACTIVE, &[], 1.0);
    }

    /// A run is not driven any more.
    pub fn run_ended(&self, product: Product, end: RunEnd, seconds: f64) {
        self.0.add(&RUNS_ENDED, &[product.as_str(), end.name()], 1.0);
        self.0.add(&RUNS_ACTIVE, &[], -1.0);
        self.0.observe(&RUN_SECONDS, &[product.as_str(), end.name()], seconds);
    }

    /// A step ended: `done`, `skipped` or `failed`.
    pub fn step_ended(&self, step: &str, end: &str, seconds: f64) {
        self.0.add(&STEPS, &[step, end], 1.0);
        self.0.observe(&STEP_SECONDS, &[step], seconds);
    }

    /// An object was looked at.
    pub fn reconciled(&self, well: bool, seconds: f64) {
        self.0.add(&RECONCILES, &[result(well)], 1.0);
        self.0.observe(&RECONCILE_SECONDS, &[], seconds);
    }

    /// Another replica took the lease of a run.
    pub fn lease_lost(&self) {
        self.0.add(&LEASES_LOST, &[], 1.0);
    }

    /// A source of versions was asked.
    pub fn refreshed(&self, source: &str, well: bool) {
        self.0.add(&REFRESHES, &[source, result(well)], 1.0);
    }

    /// Everything, as text.
    pub fn render(&self) -> String {
        if let Some(bytes) = process::resident_memory() {
            #[expect(clippy::cast_precision_loss, reason = "a page more or less does not matter")]
            self.0.set(&MEMORY, &[], bytes as f64);
        }
        if let Some(seconds) = process::processor_seconds() {
            self.0.set(&PROCESSOR, &[], seconds);
        }
        self.0.render()
    }
}

const fn result(well: bool) -> &'static str {
    if well { "ok" } else { "error" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_move_from_one_status_to_the_next() {
        let metrics = Metrics::default();
        metrics.moved(Product::Talos, None, Some(Status::Idle));
        metrics.moved(Product::Talos, Some(Status::Idle), Some(Status::InProgress));
        metrics.transition(Product::Talos, Some(Status::Idle), Status::InProgress);
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
    fn every_metric_is_listed_once_and_has_a_sentence() {
        let text = Metrics::default().render();
        for metric in ALL {
            assert_eq!(text.matches(&format!("# HELP {} ", metric.name)).count(), 1);
            assert!(metric.help.ends_with('.'));
            let document = include_str!("../../../../docs/operator.md");
            assert!(document.contains(metric.name), "{} is not documented", metric.name);
        }
    }

    #[test]
    fn runs_that_end_are_not_active_any_more() {
        let metrics = Metrics::default();
        metrics.run_begun(Product::Kubernetes);
        assert!(metrics.render().contains("\ntalos_operator_runs_active 1\n"));
        metrics.run_ended(Product::Kubernetes, RunEnd::HandedOver, 61.0);
        let text = metrics.render();
        assert!(text.contains("\ntalos_operator_runs_active 0\n"));
        assert!(text.contains("end=\"handed-over\",le=\"60\"} 0\n"), "{text}");
        assert!(text.contains("end=\"handed-over\",le=\"120\"} 1\n"), "{text}");
    }
}
