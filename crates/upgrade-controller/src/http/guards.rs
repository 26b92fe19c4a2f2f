//! Guards that count something for as long as it lasts: whichever way a cluster, a drive or
//! a step ends, a panic included, nothing stays counted.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;
use upgrade_core::event::{Event, EventKind};
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::Outcome;
use upgrade_core::product::{PerProduct, Product};
use upgrade_core::step::StepId;

use super::metrics::{Metrics, RunEnd};

/// A cluster among those with the same status.
#[derive(Debug)]
pub struct StatusGauge {
    metrics: Arc<Metrics>,
    status: PerProduct<Option<&'static str>>,
}

impl StatusGauge {
    /// Not counted yet.
    pub const fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, status: PerProduct { talos: None, kubernetes: None } }
    }

    /// Counts it with this status from now on.
    pub fn set(&mut self, product: Product, status: Option<&'static str>) {
        let before = self.status.of_mut(product);
        if *before != status {
            self.metrics.moved(product, *before, status);
            *before = status;
        }
    }

    /// Another replica counts it.
    pub fn clear(&mut self) {
        for product in Product::ALL {
            self.set(product, None);
        }
    }
}

impl Drop for StatusGauge {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A run that is driven here.
#[derive(Debug)]
pub struct DriveMetrics {
    metrics: Arc<Metrics>,
    product: &'static str,
    began: Instant,
    end: RunEnd,
}

impl DriveMetrics {
    /// From now on.
    pub fn begin(metrics: Arc<Metrics>, product: &'static str) -> Self {
        metrics.run_begun(product);
        Self { metrics, product, began: Instant::now(), end: RunEnd::HandedOver }
    }

    /// Where it is counted.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// It ended this way. Without one, another process continues.
    pub fn end(mut self, end: RunEnd) {
        self.end = end;
    }
}

impl Drop for DriveMetrics {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.metrics.run_ended(self.product, self.end, seconds);
    }
}

/// The steps of a drive.
#[derive(Debug)]
pub struct StepMetrics {
    metrics: Arc<Metrics>,
    began: HashMap<StepId, Timestamp>,
}

impl StepMetrics {
    /// None yet.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, began: HashMap::new() }
    }

    /// Takes in what happened.
    pub fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::StepStarted { step, .. } => {
                self.began.insert(step.clone(), event.at);
            }
            EventKind::StepFinished { step, outcome, .. } => {
                let end = match outcome {
                    Outcome::Done { .. } => "done",
                    Outcome::Skipped { .. } => "skipped",
                    Outcome::Failed { .. } => "failed",
                };
                let began = self.began.remove(step).unwrap_or(event.at);
                let seconds = event.at.duration_since(began).as_secs_f64().max(0.0);
                let id = step.to_string();
                let name = id.rsplit('/').next().unwrap_or_default();
                self.metrics.step_ended(name, end, seconds);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(metrics: &Metrics, line: &str) {
        let text = metrics.render();
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }

    #[test]
    fn what_is_dropped_is_not_counted_any_more() {
        let metrics = Arc::<Metrics>::default();
        let idle = |count: u8| {
            format!("talos_operator_clusters{{product=\"Talos\",status=\"idle\"}} {count}")
        };
        let mut counted = StatusGauge::new(Arc::clone(&metrics));
        counted.set(Product::Talos, Some("idle"));
        counted.set(Product::Talos, Some("idle"));
        has(&metrics, &idle(1));
        drop(counted);
        has(&metrics, &idle(0));
        let ended = |end: &str| {
            format!("talos_operator_runs_ended_total{{product=\"Talos\",end=\"{end}\"}} 1")
        };
        drop(DriveMetrics::begin(Arc::clone(&metrics), "Talos"));
        has(&metrics, &ended("handed-over"));
        DriveMetrics::begin(Arc::clone(&metrics), "Talos").end(RunEnd::Halted);
        has(&metrics, &ended("halted"));
        has(&metrics, "talos_operator_runs_active 0");
    }

    #[test]
    fn steps_are_counted_by_what_they_do() {
        let metrics = Arc::<Metrics>::default();
        let mut steps = StepMetrics::new(Arc::clone(&metrics));
        let event = |at: &str, kind: EventKind| Event {
            at: at.parse().expect("a time"),
            cluster: "prod".to_owned(),
            plan: serde_json::from_str("\"ab\"").expect("a hash"),
            kind,
        };
        let step: StepId = "1/cp-1/drain".parse().expect("a step");
        steps.take(&event(
            "2026-11-15T20:00:00Z",
            EventKind::StepStarted { step: step.clone(), attempt: 1 },
        ));
        let outcome = Outcome::Done { proof: None };
        steps.take(&event(
            "2026-11-15T20:00:20Z",
            EventKind::StepFinished { step, attempt: 1, outcome },
        ));
        has(&metrics, "talos_operator_steps_total{step=\"drain\",end=\"done\"} 1");
        has(&metrics, "talos_operator_step_seconds_bucket{le=\"15.0\",step=\"drain\"} 0");
        has(&metrics, "talos_operator_step_seconds_bucket{le=\"30.0\",step=\"drain\"} 1");
    }
}
