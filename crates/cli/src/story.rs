//! What a journal tells: a run from its beginning to where it stands, over
//! every process that had it. Pure; tables, pages and `status` are made of it.

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Outcome, Proof, Record};
use upgrade_core::plan::{Change, Group, Plan, Target};
use upgrade_core::product::Product;
use upgrade_core::reason::HaltReason;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};

/// One attempt at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Which step.
    pub step: StepId,
    /// From 1.
    pub number: u32,
    /// When it began.
    pub began: Timestamp,
    /// When it ended; `None` if its process did not live to say so, or lives.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The latest it can have gone on: its end, or the next process's beginning.
    pub until: Option<Timestamp>,
}

impl Attempt {
    /// Whether it did its work, or found it done.
    pub const fn went_well(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Done { .. } | Outcome::Skipped { .. }))
    }

    /// Whether it failed.
    pub const fn failed(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Failed { .. }))
    }

    /// How long it took, as far as is known at `now`.
    pub fn took(&self, now: Timestamp) -> SignedDuration {
        let end = self.ended.or(self.until).unwrap_or(now);
        end.duration_since(self.began).max(SignedDuration::ZERO)
    }
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing happened yet.
    Planned,
    /// Under way, or its process died: the journal cannot tell.
    Begun,
    /// A person paused it.
    Paused(String),
    /// It needs a person.
    Halted(Box<HaltReason>),
    /// Everything is done.
    Completed,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Every attempt, in the order of their beginnings.
    pub attempts: Vec<Attempt>,
    /// When it began.
    pub began: Option<Timestamp>,
    /// When the last thing was written.
    pub last: Option<Timestamp>,
    /// How many processes had it.
    pub processes: usize,
    /// The last of them.
    pub runner: Option<String>,
    /// Where it stands.
    pub standing: Standing,
}

impl Story {
    /// Reads the entries of one plan.
    pub fn tell<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut story = Self {
            attempts: Vec::new(),
            began: None,
            last: None,
            processes: 0,
            runner: None,
            standing: Standing::Planned,
        };
        for entry in entries {
            story.take(entry);
        }
        story
    }

    /// Takes one more entry in.
    pub fn take(&mut self, entry: &Entry) {
        let Entry { at, plan: _, runner, record } = entry;
        self.began.get_or_insert(*at);
        self.last = Some(*at);
        self.runner = Some(runner.clone());
        match record {
            Record::Began => {
                self.processes += 1;
                // What the former process left open ended here at the latest.
                for open in self.attempts.iter_mut().filter(|attempt| attempt.ended.is_none()) {
                    open.until.get_or_insert(*at);
                }
                if self.standing == Standing::Planned {
                    self.standing = Standing::Begun;
                }
            }
            Record::Started { step, attempt, evidence: _ } => {
                self.attempts.push(Attempt {
                    step: step.clone(),
                    number: *attempt,
                    began: *at,
                    ended: None,
                    outcome: None,
                    until: None,
                });
            }
            Record::Finished { step, attempt, outcome } => {
                let open = self.attempts.iter_mut().rev();
                let mut open = open.filter(|open| open.step == *step && open.number == *attempt);
                if let Some(open) = open.next() {
                    open.ended = Some(*at);
                    open.until = Some(*at);
                    open.outcome = Some(outcome.clone());
                }
            }
            Record::Inherited { .. } | Record::Lifted { .. } | Record::Waiting { .. } => {}
            Record::Paused { by } => self.standing = Standing::Paused(by.clone()),
            Record::Resumed { .. } => self.standing = Standing::Begun,
            Record::Halted { why } => self.standing = Standing::Halted(Box::new(why.clone())),
            Record::Completed => self.standing = Standing::Completed,
        }
    }

    /// How long it has taken from beginning to end, waiting included.
    pub fn took(&self) -> SignedDuration {
        match (self.began, self.last) {
            (Some(began), Some(last)) => last.duration_since(began),
            _ => SignedDuration::ZERO,
        }
    }

    /// The attempts at the steps of one node, or of the cluster.
    pub fn of<'a>(&'a self, node: Option<&'a NodeName>) -> impl Iterator<Item = &'a Attempt> {
        self.attempts.iter().filter(move |attempt| attempt.step.node.as_ref() == node)
    }

    /// The etcd snapshots that were taken, oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = &Proof> {
        self.attempts.iter().filter_map(|attempt| match &attempt.outcome {
            Some(Outcome::Done { proof: Some(proof @ Proof::EtcdSnapshot { .. }) }) => Some(proof),
            _ => None,
        })
    }
}

/// The nodes of a plan in the order in which they come up for change, those
/// that only pull last.
pub fn nodes(plan: &Plan) -> Vec<NodeName> {
    let lanes = || plan.lanes().map(|(_, lane)| lane);
    let changing = lanes().filter(|lane| !matches!(lane.target, Target::Pulled { .. }));
    let mut nodes: Vec<NodeName> = Vec::new();
    for node in changing.chain(lanes()).filter_map(|lane| lane.node.as_ref()) {
        if !nodes.contains(node) {
            nodes.push(node.clone());
        }
    }
    nodes
}

/// What became of one node: one line of the table at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The node; `None` for the cluster as a whole.
    pub node: Option<NodeName>,
    /// What happened.
    pub happened: String,
    /// The time spent on it.
    pub took: SignedDuration,
    /// What was verified afterwards.
    pub verified: String,
}

/// The table of a run: every node that something was done to, then the cluster.
pub fn rows(plan: &Plan, story: &Story, now: Timestamp) -> Vec<Row> {
    let nodes = nodes(plan);
    let mut rows: Vec<Row> = nodes.iter().map(|node| row(plan, story, node, now)).collect();
    rows.retain(|row| !row.happened.is_empty());
    if let Some(cluster) = cluster(plan, story, now) {
        rows.push(cluster);
    }
    rows
}

fn done(story: &Story, hop: u32, node: Option<&NodeName>, action: Action) -> Option<bool> {
    let step = StepId { hop, node: node.cloned(), action };
    let mut attempts = story.attempts.iter().filter(|attempt| attempt.step == step).peekable();
    attempts.peek()?;
    Some(attempts.any(Attempt::went_well))
}

/// What may be verified, in the order in which it is told.
const VERIFIED: [&str; 7] =
    ["boot", "version", "schematic", "extensions", "images", "etcd", "Ready"];

/// A failure is told in full below the table; in it, this much will do.
const CUT: usize = 60;

fn row(plan: &Plan, story: &Story, node: &NodeName, now: Timestamp) -> Row {
    let mut happened = Vec::new();
    let mut verified: Vec<&str> = Vec::new();
    // From the first version to the last of each product, hop by hop.
    let mut moved: Vec<(Product, String, String)> = Vec::new();
    for hop in &plan.hops {
        let lanes =
            hop.waves.iter().flat_map(|wave| wave.lanes.iter().map(move |lane| (wave, lane)));
        let mut whole = None;
        for (wave, lane) in lanes.filter(|(_, lane)| lane.node.as_ref() == Some(node)) {
            let proving: Vec<Action> = match &lane.target {
                Target::Talos(_) => vec![Action::Verify],
                Target::Kubernetes { .. } => {
                    lane.steps.iter().copied().filter(|step| step.component().is_some()).collect()
                }
                Target::Cluster | Target::Etcd { .. } | Target::Pulled { .. } => continue,
            };
            for action in proving {
                let this = done(story, hop.number, Some(node), action).unwrap_or(false);
                whole = Some(whole.unwrap_or(true) && this);
            }
            if matches!(&lane.target, Target::Talos(_)) && whole == Some(true) {
                verified.extend(["boot", "version", "schematic", "extensions"]);
                if wave.group == Group::ControlPlane {
                    verified.push("etcd");
                }
                verified.push("Ready");
            }
        }
        match whole {
            Some(true) => {
                let (from, to) = (hop.change.from().to_string(), hop.change.to().to_string());
                let product = hop.change.product();
                match moved.iter_mut().find(|(known, ..)| *known == product) {
                    Some((_, _, last)) => *last = to,
                    None => moved.push((product, from, to)),
                }
                if matches!(hop.change, Change::Kubernetes { .. }) {
                    verified.extend(["images", "Ready"]);
                }
            }
            Some(false) => happened.extend(unfinished(story, hop.number, node)),
            None => {}
        }
    }
    let mut words: Vec<String> =
        moved.into_iter().map(|(product, from, to)| words_of(product, &from, &to)).collect();
    words.append(&mut happened);
    let once: Vec<&str> = VERIFIED.into_iter().filter(|word| verified.contains(word)).collect();
    Row {
        node: Some(node.clone()),
        happened: words.join(", "),
        took: busy(story.of(Some(node)), now),
        verified: if once.is_empty() { "-".to_owned() } else { once.join(", ") },
    }
}

/// How far a node got in a hop that it did not finish: what failed in it, or
/// what came last.
fn unfinished(story: &Story, hop: u32, node: &NodeName) -> Option<String> {
    let attempts: Vec<&Attempt> =
        story.of(Some(node)).filter(|attempt| attempt.step.hop == hop).collect();
    let mended = |failed: &Attempt| {
        attempts.iter().any(|other| other.step == failed.step && other.went_well())
    };
    let failed = attempts.iter().rev().find(|attempt| attempt.failed() && !mended(attempt));
    let last = failed.or(attempts.last())?;
    let action = last.step.action;
    Some(match &last.outcome {
        Some(Outcome::Failed { failure }) => format!("{action} failed: {}", cut(failure.text())),
        Some(_) => format!("stopped after {action}"),
        None => format!("{action} was cut off"),
    })
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CUT {
        return text.to_owned();
    }
    text.chars().take(CUT - 1).chain(['…']).collect()
}

fn cluster(plan: &Plan, story: &Story, now: Timestamp) -> Option<Row> {
    let mut happened = Vec::new();
    let snapshots = story.snapshots().count();
    match snapshots {
        0 => {}
        1 => happened.push("1 etcd snapshot".to_owned()),
        count => happened.push(format!("{count} etcd snapshots")),
    }
    let synced = |hop: &u32| done(story, *hop, None, Action::SyncManifests) == Some(true);
    let synced = plan.hops.iter().map(|hop| hop.number).filter(synced).count();
    if synced > 0 {
        happened.push("manifests applied".to_owned());
    }
    if happened.is_empty() {
        return None;
    }
    let mut verified = Vec::new();
    if snapshots > 0 {
        verified.push("snapshot hash");
    }
    if synced > 0 {
        verified.push("roll-outs");
    }
    Some(Row {
        node: None,
        happened: happened.join(", "),
        took: busy(story.of(None), now),
        verified: verified.join(", "),
    })
}

/// The time during which at least one of the attempts was under way.
pub fn busy<'a>(attempts: impl Iterator<Item = &'a Attempt>, now: Timestamp) -> SignedDuration {
    let mut spans: Vec<(Timestamp, Timestamp)> = attempts
        .map(|attempt| (attempt.began, attempt.ended.or(attempt.until).unwrap_or(now)))
        .collect();
    spans.sort_unstable();
    let mut total = SignedDuration::ZERO;
    let mut seen: Option<Timestamp> = None;
    for (began, ended) in spans {
        let from = seen.map_or(began, |seen| seen.max(began));
        if ended > from {
            total += ended.duration_since(from);
            seen = Some(ended);
        }
    }
    total
}

/// What a node moved by.
fn words_of(product: Product, from: &str, to: &str) -> String {
    if from == to {
        format!("{product} {to}, another schematic")
    } else {
        format!("{product} {from} → {to}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_whole_run_is_told() {
        let plan = sample::plan();
        let story = Story::tell(&sample::whole(&plan));
        assert_eq!(story.standing, Standing::Completed);
        assert_eq!(story.processes, 1);
        assert_eq!(story.attempts.len(), plan.steps().count());
        assert!(story.attempts.iter().all(Attempt::went_well));
        let rows = rows(&plan, &story, sample::time(10_000));
        let names: Vec<_> =
            rows.iter().map(|row| row.node.as_ref().map_or("*", |node| node.0.as_str())).collect();
        assert_eq!(names, ["cp-2", "cp-3", "cp-1", "worker-1", "*"]);
        assert_eq!(rows[0].happened, "Talos 1.12.11 → 1.13.9, Kubernetes 1.35.2 → 1.36.3");
        assert!(rows[0].verified.contains("etcd"), "{rows:?}");
        assert!(!rows[3].verified.contains("etcd"), "{rows:?}");
        assert_eq!(rows[4].verified, "snapshot hash, roll-outs");
    }

    #[test]
    fn a_killed_process_leaves_a_step_open() {
        let plan = sample::plan();
        let entries = sample::killed(&plan);
        let story = Story::tell(&entries);
        assert_eq!(story.standing, Standing::Begun);
        assert_eq!(story.processes, 2);
        let open: Vec<_> =
            story.attempts.iter().filter(|attempt| attempt.ended.is_none()).collect();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].until, story.last);
    }

    #[test]
    fn what_ran_side_by_side_is_counted_once() {
        let attempt = |began, ended| Attempt {
            step: "1/a/pull".parse().unwrap(),
            number: 1,
            began: sample::time(began),
            ended: Some(sample::time(ended)),
            outcome: None,
            until: None,
        };
        let attempts = [attempt(0, 10), attempt(5, 20), attempt(6, 7), attempt(30, 31)];
        assert_eq!(busy(attempts.iter(), sample::time(99)), SignedDuration::from_secs(21));
    }
}
