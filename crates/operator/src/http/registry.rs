//! Counters, gauges and histograms, in Prometheus' text format. Small enough to
//! read in one go, and all that is needed here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How values of a metric go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size; the upper ends of the buckets, smallest first.
    Histogram(&'static [f64]),
}

/// Something that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// How values go together.
    pub kind: Kind,
    /// What its series differ by.
    pub labels: &'static [&'static str],
}

#[derive(Debug, Default)]
struct Series {
    /// The value, or the sum of what was observed.
    value: f64,
    /// For a histogram: how many fell into each bucket, without smaller ones.
    buckets: Vec<u64>,
    /// For a histogram: how many in all.
    count: u64,
}

/// The values of a set of metrics.
#[derive(Debug)]
pub struct Registry {
    metrics: &'static [Metric],
    series: Mutex<BTreeMap<(&'static str, Vec<String>), Series>>,
}

impl Registry {
    /// Of these metrics. Those without labels begin at nought, so that they are
    /// seen before anything happens.
    pub fn new(metrics: &'static [Metric]) -> Self {
        let registry = Self { metrics, series: Mutex::default() };
        for metric in metrics.iter().filter(|metric| metric.labels.is_empty()) {
            registry.at(metric, &[], |_| {});
        }
        registry
    }

    /// Adds to a counter or a gauge.
    pub fn add(&self, metric: &Metric, labels: &[&str], by: f64) {
        self.at(metric, labels, |series| series.value += by);
    }

    /// Sets a gauge.
    pub fn set(&self, metric: &Metric, labels: &[&str], value: f64) {
        self.at(metric, labels, |series| series.value = value);
    }

    /// Puts a value into a histogram.
    pub fn observe(&self, metric: &Metric, labels: &[&str], value: f64) {
        let Kind::Histogram(ends) = metric.kind else {
            debug_assert!(false, "{} is no histogram", metric.name);
            return;
        };
        self.at(metric, labels, |series| {
            series.buckets.resize(ends.len(), 0);
            series.value += value;
            series.count += 1;
            if let Some(bucket) = ends.iter().position(|end| value <= *end) {
                series.buckets[bucket] += 1;
            }
        });
    }

    fn at(&self, metric: &Metric, labels: &[&str], change: impl FnOnce(&mut Series)) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        change(self.lock().entry((metric.name, labels)).or_default());
    }

    /// A panic elsewhere leaves numbers that are still numbers.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(&'static str, Vec<String>), Series>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything, as text.
    pub fn render(&self) -> String {
        let series = self.lock();
        let mut text = String::new();
        for metric in self.metrics {
            let Metric { name, help, kind, labels: names } = *metric;
            let kind_name = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram(_) => "histogram",
            };
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind_name}");
            for ((_, values), series) in series.iter().filter(|((of, _), _)| *of == name) {
                let pairs: Vec<(&str, &str)> =
                    names.iter().copied().zip(values.iter().map(String::as_str)).collect();
                let Kind::Histogram(ends) = kind else {
                    line(&mut text, name, "", &pairs, None, series.value);
                    continue;
                };
                let mut so_far = 0;
                for (end, count) in ends.iter().zip(&series.buckets) {
                    so_far += count;
                    line(&mut text, name, "_bucket", &pairs, Some(&end.to_string()), so_far);
                }
                line(&mut text, name, "_bucket", &pairs, Some("+Inf"), series.count);
                line(&mut text, name, "_sum", &pairs, None, series.value);
                line(&mut text, name, "_count", &pairs, None, series.count);
            }
        }
        text
    }
}

fn line(
    text: &mut String,
    name: &str,
    part: &str,
    labels: &[(&str, &str)],
    end: Option<&str>,
    value: impl std::fmt::Display,
) {
    let pairs = labels.iter().copied().chain(end.map(|end| ("le", end)));
    let pairs: Vec<String> =
        pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
    let _ = writeln!(text, "{name}{part}{labels} {value}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Metric =
        Metric { name: "runs_total", help: "Runs.", kind: Kind::Counter, labels: &["end"] };
    const BUSY: Metric = Metric { name: "busy", help: "Busy.", kind: Kind::Gauge, labels: &[] };
    const TIME: Metric = Metric {
        name: "seconds",
        help: "Seconds.",
        kind: Kind::Histogram(&[0.5, 2.0]),
        labels: &["step"],
    };
    const ALL: &[Metric] = &[RUNS, BUSY, TIME];

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let registry = Registry::new(ALL);
        registry.add(&RUNS, &["done"], 1.0);
        registry.add(&RUNS, &["done"], 1.0);
        registry.add(&RUNS, &["a \"b\"\\\n"], 1.0);
        for seconds in [0.5, 1.0, 3.0] {
            registry.observe(&TIME, &["reboot"], seconds);
        }
        let expected = "\
# HELP runs_total Runs.
# TYPE runs_total counter
runs_total{end=\"a \\\"b\\\"\\\\\\n\"} 1
runs_total{end=\"done\"} 2
# HELP busy Busy.
# TYPE busy gauge
busy 0
# HELP seconds Seconds.
# TYPE seconds histogram
seconds_bucket{step=\"reboot\",le=\"0.5\"} 1
seconds_bucket{step=\"reboot\",le=\"2\"} 2
seconds_bucket{step=\"reboot\",le=\"+Inf\"} 3
seconds_sum{step=\"reboot\"} 4.5
seconds_count{step=\"reboot\"} 3
";
        assert_eq!(registry.render(), expected);
        registry.add(&BUSY, &[], 2.0);
        registry.add(&BUSY, &[], -1.0);
        assert!(registry.render().contains("\nbusy 1\n"));
        registry.set(&BUSY, &[], 0.25);
        assert!(registry.render().contains("\nbusy 0.25\n"));
    }
}
