//! Measures one size.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Measure;
use crate::fleet::Fleet;
use crate::host::{load, note, now, open_files};
use crate::hub::Hub;
use crate::operator::Operator;

/// What all of them are to become.
const TARGET: &str = "1.13.9";

/// How often the operator is asked how far it is.
const TICK: Duration = Duration::from_millis(250);

/// Nothing takes this long on a machine that does not stand still.
const PATIENCE: Duration = Duration::from_mins(30);

/// What was measured of one size.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) clusters: usize,
    /// From its start until every cluster was observed and reported, in seconds.
    pub(crate) reported: f64,
    /// Memory after the quiet time, in MiB.
    pub(crate) memory: f64,
    /// Of a core in the quiet time, in percent.
    pub(crate) processor: f64,
    /// Requests to the hub a minute in the quiet time.
    pub(crate) requests: f64,
    /// From the first target set until the last run began, in seconds.
    pub(crate) begun: f64,
    /// Processor time that this took, in seconds.
    pub(crate) begun_processor: f64,
    /// Processor time of the hub and of the clusters meanwhile, in seconds: they
    /// share the machine.
    pub(crate) begun_others: (f64, f64),
    /// Requests to the hub that this took.
    pub(crate) begun_requests: f64,
    /// The most memory up to then, in MiB.
    pub(crate) most: f64,
    /// Files and sockets that were open then.
    pub(crate) open: usize,
    /// Runs that there were.
    pub(crate) runs: usize,
    /// How long it took to hand all of them over, in seconds.
    pub(crate) handed_over: f64,
    /// How busy the machine was before.
    pub(crate) load: String,
}

/// What was counted, at some moment.
struct Count {
    at: Instant,
    processor: f64,
    requests: f64,
}

impl Count {
    async fn now(operator: &Operator, hub: &Hub) -> Self {
        Self { at: now(), processor: operator.processor(), requests: hub.requests().await }
    }

    /// Seconds, processor time and requests from then until now.
    async fn since(&self, operator: &Operator, hub: &Hub) -> (f64, f64, f64) {
        let seconds = self.at.elapsed().as_secs_f64();
        let Self { processor, requests, .. } = Self::now(operator, hub).await;
        (seconds, processor - self.processor, requests - self.requests)
    }
}

/// Measures with this many clusters.
pub(crate) async fn measure(measure: &Measure, clusters: usize, stop: &Arc<AtomicBool>) -> Row {
    let load = load();
    note(&format!("{clusters} clusters: the hub"));
    let hub = Hub::start(stop).await;
    let (fleet, names) = start(&hub, clusters).await;

    let started = now();
    let operator = Operator::start(measure, &hub);
    let idle = r#"talos_operator_clusters{product="Talos",status="idle"}"#;
    until("told of", &operator, clusters, || operator.number(idle)).await;
    let reported = started.elapsed().as_secs_f64();
    note(&format!("{clusters} clusters: told of after {reported:.1} s; quiet now"));

    let before = Count::now(&operator, &hub).await;
    tokio::time::sleep(Duration::from_secs(measure.quiet)).await;
    let (seconds, processor, requests) = before.since(&operator, &hub).await;
    let (processor, requests) = (processor / seconds * 100.0, requests / seconds * 60.0);
    let (memory, _) = operator.memory();
    note(&format!(
        "{clusters} clusters: {memory:.0} MiB, {processor:.2} % of a core, {requests:.0} requests \
         a minute"
    ));

    let before = Count::now(&operator, &hub).await;
    let others = (hub.processor(), fleet.processor());
    let runs = r#"talos_operator_runs_begun_total{product="Talos"}"#;
    let failed = r#"talos_operator_clusters{product="Talos",status="failed"}"#;
    let all = || operator.number(runs) + operator.number(failed);
    tokio::join!(hub.set_targets(&names, TARGET), until("begun", &operator, clusters, all));
    let (begun, begun_processor, begun_requests) = before.since(&operator, &hub).await;
    let begun_others = (hub.processor() - others.0, fleet.processor() - others.1);
    let (_, most) = operator.memory();
    let open = open_files(operator.pid);
    let runs = hub.runs().await;
    note(&format!("{clusters} clusters: {runs} runs began within {begun:.1} s; ending"));
    let handed_over = operator.end();
    drop(fleet);
    Row {
        clusters,
        reported,
        memory,
        processor,
        requests,
        begun,
        begun_processor,
        begun_others,
        begun_requests,
        most,
        open,
        runs,
        handed_over,
        load,
    }
}

/// Starts the clusters, and makes their objects.
async fn start(hub: &Hub, clusters: usize) -> (Fleet, Vec<String>) {
    let started = now();
    let (fleet, mut started_clusters) = Fleet::start(clusters);
    let (mut all, width) = (JoinSet::new(), Hub::width());
    let mut names = Vec::new();
    while names.len() < clusters {
        let cluster = started_clusters.recv().await.expect("every cluster starts");
        names.push(cluster.name.clone());
        hub.register(cluster, &mut all, &width);
        if names.len().is_multiple_of(100) {
            note(&format!("{clusters} clusters: {} started", names.len()));
        }
    }
    all.join_all().await;
    note(&format!("{clusters} clusters: there after {:.0?}", started.elapsed()));
    (fleet, names)
}

/// Waits until it is so of all clusters, and tells how far it is.
async fn until(what: &str, operator: &Operator, all: usize, count: impl Fn() -> usize) {
    let started = now();
    let mut noted = now();
    loop {
        let so_far = count();
        if so_far >= all {
            return;
        }
        // It says so itself if it is gone.
        let _ = operator.memory();
        assert!(started.elapsed() < PATIENCE, "{so_far} of {all} clusters {what}");
        if noted.elapsed() > Duration::from_secs(10) {
            noted = now();
            note(&format!("{all} clusters: {so_far} {what}"));
        }
        tokio::time::sleep(TICK).await;
    }
}
