//! What happened in a run: every attempt with its beginning, its end and its outcome.

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, Outcome, Proof, Record};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::StepId;

use crate::result::RunResult;

/// One attempt at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The step.
    pub step: StepId,
    /// From 1.
    pub number: u32,
    /// The time of its first entry.
    pub began: Timestamp,
    /// The time of its last entry; `None` while it runs, or if its process ended before.
    pub ended: Option<Timestamp>,
    /// The outcome, if it ended.
    pub outcome: Option<Outcome>,
    /// The latest moment at which it can have run: its end, or the start of the next process.
    pub until: Option<Timestamp>,
}

impl Attempt {
    /// Whether it did its work, or found it done.
    pub const fn succeeded(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Done { .. } | Outcome::Skipped { .. }))
    }

    /// Whether it failed. One that was interrupted did neither.
    pub const fn failed(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Failed { .. }))
    }

    /// Its latest possible end, as far as is known at `now`.
    pub fn end(&self, now: Timestamp) -> Timestamp {
        self.ended.or(self.until).unwrap_or(now)
    }

    /// How long it took, as far as is known at `now`.
    pub fn took(&self, now: Timestamp) -> SignedDuration {
        self.end(now).duration_since(self.began).max(SignedDuration::ZERO)
    }
}

/// What happened in a run, over every process that drove it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Every attempt, in the order of their beginnings.
    pub attempts: Vec<Attempt>,
    /// The time of the first entry.
    pub began: Option<Timestamp>,
    /// The time of the last entry.
    pub last: Option<Timestamp>,
    /// How many processes drove it.
    pub processes: usize,
    /// How it ended, or that it has not.
    pub result: RunResult,
}

impl Timeline {
    /// The timeline of a journal.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut timeline = Self::default();
        for entry in entries {
            timeline.push(entry);
        }
        timeline
    }

    /// Adds one more entry.
    pub fn push(&mut self, entry: &Entry) {
        let Entry { at, plan: _, runner: _, record } = entry;
        self.began.get_or_insert(*at);
        self.last = Some(*at);
        self.result.update(record);
        match record {
            Record::Began => {
                self.processes += 1;
                // What the process before left open ended here at the latest.
                for open in self.attempts.iter_mut().filter(|attempt| attempt.ended.is_none()) {
                    open.until.get_or_insert(*at);
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
                let mut newest = self.attempts.iter_mut().rev();
                let open = newest.find(|open| open.step == *step && open.number == *attempt);
                if let Some(open) = open {
                    open.ended = Some(*at);
                    open.until = Some(*at);
                    open.outcome = Some(outcome.clone());
                }
            }
            Record::Inherited { .. }
            | Record::Lifted { .. }
            | Record::Waiting { .. }
            | Record::Paused { .. }
            | Record::Resumed { .. }
            | Record::Halted { .. }
            | Record::Completed => {}
        }
    }

    /// The time from the first entry to the last, waits included.
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

/// The time during which at least one of the attempts ran.
pub fn busy<'a>(attempts: impl Iterator<Item = &'a Attempt>, now: Timestamp) -> SignedDuration {
    let mut spans: Vec<(Timestamp, Timestamp)> =
        attempts.map(|attempt| (attempt.began, attempt.end(now))).collect();
    spans.sort_unstable();
    let mut total = SignedDuration::ZERO;
    let mut covered: Option<Timestamp> = None;
    for (began, ended) in spans {
        let from = covered.map_or(began, |covered| covered.max(began));
        if ended > from {
            total += ended.duration_since(from);
            covered = Some(ended);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use upgrade_core::journal::State;

    use super::*;
    use crate::test_fixtures::{self as fixtures, time};

    #[test]
    fn a_whole_run_has_every_attempt() {
        let plan = fixtures::plan();
        let timeline = Timeline::from_entries(&fixtures::whole(&plan));
        assert_eq!(timeline.result, RunResult::Completed);
        assert_eq!(timeline.processes, 1);
        assert_eq!(timeline.attempts.len(), plan.steps().count());
        assert!(timeline.attempts.iter().all(Attempt::succeeded));
        assert_eq!(timeline.snapshots().count(), 1);
    }

    #[test]
    fn a_killed_process_leaves_an_attempt_open() {
        let plan = fixtures::plan();
        let timeline = Timeline::from_entries(&fixtures::killed(&plan, "1/cp-2/drain"));
        assert_eq!(timeline.result, RunResult::Open);
        assert_eq!(timeline.processes, 2);
        let mut open = timeline.attempts.iter().filter(|attempt| attempt.ended.is_none());
        let attempt = open.next().expect("an open attempt");
        assert!(open.next().is_none());
        assert_eq!(attempt.until, timeline.last);
    }

    #[test]
    fn the_result_is_that_of_the_fold_after_every_entry() {
        let plan = fixtures::plan();
        let by = |by: &str| by.to_owned();
        let mut steered = fixtures::halted(&plan, "1/cp-2/reboot");
        steered.push(fixtures::entry(&plan, 500, Record::Paused { by: by("anna") }));
        steered.push(fixtures::entry(&plan, 501, Record::Resumed { by: by("anna") }));
        steered.push(fixtures::entry(&plan, 502, Record::Paused { by: by("ben") }));
        for entries in [fixtures::whole(&plan), steered] {
            for count in 0..=entries.len() {
                let state = State::fold(&plan, &entries[..count]).unwrap();
                let timeline = Timeline::from_entries(&entries[..count]);
                assert_eq!(timeline.result, RunResult::of(&state), "after {count} entries");
            }
        }
    }

    #[test]
    fn time_spent_in_parallel_counts_once() {
        let attempt = |began, ended| Attempt {
            step: "1/a/pull".parse().unwrap(),
            number: 1,
            began: time(began),
            ended: Some(time(ended)),
            outcome: None,
            until: None,
        };
        let attempts = [attempt(0, 10), attempt(5, 20), attempt(6, 7), attempt(30, 31)];
        assert_eq!(busy(attempts.iter(), time(99)), SignedDuration::from_secs(21));
    }
}
