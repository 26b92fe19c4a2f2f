//! How long planning and deciding take, and how they grow with the cluster.
//!
//! Every number is the median of several rounds of this very run; the ratios say
//! how much longer ten times the nodes take.

#[path = "../tests/planner/common/clusters.rs"]
mod clusters;

use std::time::{Duration, Instant};

use upgrade_core::amount::Amount;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Entry, Outcome, Phase, Proof, Record, State};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_core::step::Action;
use upgrade_planner::decide::{Decision, Tried, decide};
use upgrade_planner::{Request, check, plan};

const ROUNDS: usize = 9;

#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
fn median<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(work());
            began.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

/// The state in the middle of the roll: prepared, control planes done, half of
/// the workers done, and as many away as may be.
fn halfway(plan: &Plan, snapshot: &mut Snapshot) -> State {
    let mut state = State::new(plan);
    let mut now = snapshot.taken_at;
    let mut write = |state: &mut State, record: Record| {
        now += SignedDuration::from_millis(1);
        let entry = Entry { at: now, plan: state.plan().clone(), runner: String::new(), record };
        state.apply(&entry).expect("a sound journal");
        now
    };
    write(&mut state, Record::Began);
    let steps: Vec<_> = plan.steps().collect();
    let half = steps.len() / 2;
    for step in steps.into_iter().take(half) {
        write(&mut state, Record::Started { step: step.clone(), attempt: 1, evidence: None });
        let proof = (step.action == Action::SnapshotEtcd).then(|| Proof::EtcdSnapshot {
            location: "etcd.snapshot".to_owned(),
            sha256: String::new(),
            bytes: 1,
        });
        if step.action == Action::Verify {
            let node = &step.node.as_ref().expect("a node").0;
            let to = plan.hops[step.hop as usize - 1].change.to().clone();
            let node = snapshot.nodes.get_mut(&node.as_str().into()).expect("a node");
            clusters::known(&mut node.talos).version = to;
        }
        write(&mut state, Record::Finished { step, attempt: 1, outcome: Outcome::Done { proof } });
    }
    snapshot.taken_at = write(&mut state, Record::Began) + SignedDuration::from_millis(1);
    state
}

struct Row {
    nodes: usize,
    plan: Duration,
    hash: Duration,
    check: Duration,
    decide: Duration,
    starts: usize,
}

fn measure(nodes: usize) -> Row {
    let (matrix, catalogue) = (Matrix::builtin(), Catalogue::builtin());
    let mut snapshot = clusters::cluster(3, nodes - 3, "1.13.1", "1.34.2");
    let intent = clusters::intent(Some("1.13.9"), None);
    let mut policy = Policy::default();
    policy.workers.max_unavailable = Amount::Percent(10);
    let request = Request {
        snapshot: &snapshot,
        intent: &intent,
        policy: &policy,
        matrix: &matrix,
        catalogue: &catalogue,
        workloads: &Fact::Unasked,
        manifests: &Fact::Unasked,
        external_upgrader: false,
    };
    let planned = plan(&request).expect("a healthy cluster").plan;
    let row = Row {
        nodes,
        plan: median(|| plan(&request)),
        hash: median(|| planned.hash()),
        check: median(|| check(&planned, &snapshot, &matrix)),
        decide: Duration::ZERO,
        starts: 0,
    };
    let state = halfway(&planned, &mut snapshot);
    let now = snapshot.taken_at;
    let starts = match decide(&planned, &state, &Tried::default(), &snapshot, now) {
        Decision::Run(starts) => starts.len(),
        other => panic!("halfway there is something to do: {other:?}"),
    };
    assert!(state.steps().iter().any(|step| step.phase == Phase::Pending));
    let decide = median(|| decide(&planned, &state, &Tried::default(), &snapshot, now));
    Row { decide, starts, ..row }
}

fn ratio(row: Duration, before: Option<Duration>) -> String {
    before.map_or_else(String::new, |before| {
        format!("x{:.1}", row.as_secs_f64() / before.as_secs_f64().max(1e-9))
    })
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    println!("one operating system hop, 3 control planes, 10% of the workers at a time");
    println!("median of {ROUNDS} rounds; `x` is the growth over the row above\n");
    println!(
        "{:>6}  {:>10} {:>6}  {:>10} {:>6}  {:>10} {:>6}  {:>10} {:>6}  {:>6}",
        "nodes", "plan", "", "hash", "", "check", "", "decide", "", "starts"
    );
    let mut before: Option<Row> = None;
    for nodes in [10, 100, 1_000, 10_000] {
        let row = measure(nodes);
        let last = before.as_ref();
        println!(
            "{:>6}  {:>10.2?} {:>6}  {:>10.2?} {:>6}  {:>10.2?} {:>6}  {:>10.2?} {:>6}  {:>6}",
            row.nodes,
            row.plan,
            ratio(row.plan, last.map(|row| row.plan)),
            row.hash,
            ratio(row.hash, last.map(|row| row.hash)),
            row.check,
            ratio(row.check, last.map(|row| row.check)),
            row.decide,
            ratio(row.decide, last.map(|row| row.decide)),
            row.starts,
        );
        let verdict = |what: &str, took: Duration, limit: Duration| {
            let part = took.as_secs_f64() / limit.as_secs_f64();
            println!("        {what}: {part:.2} of the {limit:?} allowed");
        };
        if nodes == 1_000 {
            verdict("decide", row.decide, Duration::from_millis(1));
        }
        if nodes == 10_000 {
            verdict("plan and hash", row.plan + row.hash, Duration::from_millis(100));
        }
        before = Some(row);
    }
}
