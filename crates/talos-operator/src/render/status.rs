//! The last run of a cluster: where it stands, and its journal.

use std::fmt::Write as _;

use serde_json::{Value, json};
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Entry, Record, State};
use upgrade_core::plan::Plan;
use upgrade_engine::journal::Holder;
use upgrade_engine::store::Summary;
use upgrade_view::{NodeProgress, RunResult, RunView, Stage};

use super::layout::{self, hang, remark};
use super::plan_json::pretty;
use super::{CARE, HEADING, paint, summary, time, words};

/// What `status` shows.
#[derive(Clone, Debug)]
pub struct Status<'a> {
    /// The summary of the run.
    pub run: Summary,
    /// Its plan.
    pub plan: &'a Plan,
    /// The fold of its journal.
    pub state: &'a State,
    /// The process that drives it, if there is one.
    pub holder: Option<Holder>,
    /// The runs before it, newest first.
    pub earlier: &'a [Summary],
    /// The command that continues it.
    pub resume: String,
}

impl Status<'_> {
    fn view(&self) -> RunView<'_> {
        RunView::new(self.plan, self.state)
    }

    /// How it stands, in a few words.
    fn result(&self) -> String {
        match (&self.run.result, &self.holder) {
            (RunResult::Completed, _) => "done".to_owned(),
            (_, Some(holder)) => {
                let since = time::moment(holder.since);
                format!("in progress: {}, since {since}", words::process(holder))
            }
            (RunResult::Open, None) => "interrupted: no process is driving it".to_owned(),
            (result, None) => result.to_string(),
        }
    }

    /// Steps done, and the hop and wave in progress.
    fn progress(&self) -> String {
        let steps = format!("{} of {} steps", self.run.done, self.run.steps);
        let Some(hop) = self.view().hop() else { return steps };
        let place = words::hop(hop.hop, self.plan.hops.len());
        match hop.wave {
            Some(wave) if hop.hop.waves.len() > 1 => {
                format!("{steps}; {place}, wave {} of {}", wave.number, hop.hop.waves.len())
            }
            _ => format!("{steps}; {place}"),
        }
    }

    fn can_resume(&self) -> bool {
        self.run.result != RunResult::Completed && self.holder.is_none()
    }

    /// For people.
    pub fn text(&self) -> String {
        let Summary { name, cluster, rollback, from, to, began, last, .. } = &self.run;
        let mut out = format!("{} {name}\n\n", paint(HEADING, "Run"));
        let mut line = |key: &str, value: &str| {
            out.push_str(&hang(&format!("  {key:<12}"), 14, value));
        };
        line("Cluster", cluster);
        line(if *rollback { "Rollback" } else { "Upgrade" }, &words::changes(from, to));
        let held = words::list(self.view().held());
        if !held.is_empty() {
            line("Held", &held);
        }
        line("State", &self.result());
        line("Progress", &self.progress());
        line("Started", &time::moment(*began));
        line("Last entry", &time::moment(*last));
        out.push('\n');
        let rows: Vec<Vec<String>> = self.rows().map(|(name, text)| vec![name, text]).collect();
        out.push_str(&layout::table(&["NODE", "STAGE"], &rows, &[]));
        if self.run.result != RunResult::Completed {
            let mut left = summary::next_boots(&self.view().next_boots());
            let cordoned = words::list(self.view().cordons());
            if !cordoned.is_empty() {
                left.push_str(&remark(CARE, "cordoned by this run", &cordoned));
            }
            if !left.is_empty() {
                out.push('\n');
                out.push_str(&left);
            }
        }
        if !self.earlier.is_empty() {
            out.push('\n');
            let rows: Vec<Vec<String>> = self.earlier.iter().map(earlier).collect();
            out.push_str(&layout::table(&["EARLIER RUN", "UPGRADE", "STATE"], &rows, &[]));
        }
        if self.can_resume() {
            out.push('\n');
            out.push_str(&summary::next("Continue with", &self.resume));
        }
        out
    }

    /// Every node and its stage.
    fn rows(&self) -> impl Iterator<Item = (String, String)> {
        let nodes = self.view().nodes().into_iter();
        nodes.map(|node| (words::node(node.node), self.stage(&node)))
    }

    fn stage(&self, node: &NodeProgress<'_>) -> String {
        match (node.stage(), &self.holder) {
            (Stage::Running { step, since }, Some(_)) => {
                format!("{} since {}", step.action, time::of_day(since))
            }
            (Stage::Running { step, since }, None) => {
                format!("{} interrupted, started {}", step.action, time::of_day(since))
            }
            (Stage::Failed { step, failure }, _) => format!("{} failed: {failure}", step.action),
            (Stage::Interrupted { step }, _) => {
                format!("{} interrupted, checked first on resume", step.action)
            }
            (Stage::Queued { done: 0, .. }, _) => "not started".to_owned(),
            (Stage::Queued { done, of }, _) => format!("{done} of {of} steps done"),
            (Stage::Done, _) => "done".to_owned(),
        }
    }

    /// For programs.
    pub fn json(&self) -> String {
        let nodes: Vec<Value> =
            self.rows().map(|(name, stage)| json!({"name": name, "stage": stage})).collect();
        let cordoned: Vec<_> = self.view().cordons().collect();
        let next = self.view().next_boots();
        let armed = |certain: bool| {
            let nodes = next.iter().filter(|(_, state)| state.is_certain() == certain);
            nodes.map(|(node, _)| node).collect::<Vec<_>>()
        };
        pretty(&json!({
            "format": 1,
            "run": self.run,
            "holder": self.holder,
            "nodes": nodes,
            "armed": armed(true),
            "maybeArmed": armed(false),
            "cordoned": cordoned,
            "earlier": self.earlier,
            "next": self.can_resume().then_some(&self.resume),
        }))
    }
}

fn earlier(run: &Summary) -> Vec<String> {
    vec![run.name.clone(), words::changes(&run.from, &run.to), run.result.to_string()]
}

/// The journal, one entry per line.
pub fn history(entries: &[Entry]) -> String {
    let mut runner = "";
    let mut day = None;
    let mut out = String::new();
    for entry in entries {
        let today = entry.at.strftime("%Y-%m-%d").to_string();
        if day.as_ref() != Some(&today) || runner != entry.runner {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{} {}", paint(HEADING, &today), entry.runner);
            day = Some(today);
            runner = &entry.runner;
        }
        out += &line(entry.at, &entry.record);
    }
    out
}

fn line(at: Timestamp, record: &Record) -> String {
    let text = match record {
        Record::Began => "process started driving the run".to_owned(),
        Record::Inherited { cordons, armed } => {
            let mut parts = Vec::new();
            if !cordons.is_empty() {
                parts.push(format!("cordons: {}", words::list(cordons)));
            }
            if !armed.is_empty() {
                parts.push(format!("armed: {}", words::list(armed.keys())));
            }
            format!("inherited from the run before: {}", parts.join("; "))
        }
        Record::Lifted { node } => format!("uncordoned {node}, which the run before had cordoned"),
        Record::Started { step, attempt, evidence: _ } => {
            format!("{step} started{}", words::attempt(*attempt))
        }
        Record::Finished { step, attempt, outcome } => {
            format!("{step} {}{}", words::outcome(outcome, None), words::attempt(*attempt))
        }
        Record::Waiting { key } => format!("waiting: {key}"),
        Record::Paused { by } => format!("paused by {by}"),
        Record::Resumed { by } => format!("resumed by {by}"),
        Record::Halted { why } => format!("halted: {why}"),
        Record::Completed => "all steps are done".to_owned(),
    };
    hang(&format!("  {}  ", time::of_day(at)), 12, &text)
}

#[cfg(test)]
mod tests {
    use upgrade_engine::journal::Folder;

    use super::*;
    use crate::test_fixtures as fixtures;

    fn status(entries: &[Entry], holder: Option<Holder>) -> String {
        let plan = fixtures::plan();
        let state = State::fold(&plan, entries).unwrap();
        let (done, steps) = state.progress();
        let run = Summary {
            name: "20261115T200000Z-0123456789ab".to_owned(),
            cluster: plan.cluster.clone(),
            plan: plan.hash(),
            rollback: false,
            from: plan.from.clone(),
            to: plan.to.clone(),
            began: fixtures::time(0),
            last: entries.last().unwrap().at,
            runner: None,
            result: RunResult::of(&state),
            done,
            steps,
        };
        let earlier = [run.clone()];
        let resume = "talos-operator resume --profile prod.yaml".to_owned();
        let status = Status { run, plan: &plan, state: &state, holder, earlier: &earlier, resume };
        let read: Value = serde_json::from_str(&status.json()).unwrap();
        assert_eq!(read["run"]["done"], done);
        anstream::adapter::strip_str(&status.text()).to_string()
    }

    #[test]
    fn a_run_that_halted() {
        insta::assert_snapshot!(status(&fixtures::halted(&fixtures::plan()), None));
    }

    #[test]
    fn a_run_in_progress_and_an_interrupted_one() {
        let entries = fixtures::killed(&fixtures::plan());
        let entries = &entries[..entries.len() - 1];
        let holder = Holder { host: "desk".to_owned(), pid: 41, since: fixtures::time(0) };
        let text = status(entries, Some(holder));
        assert!(text.contains("in progress: process 41 on desk"), "{text}");
        assert!(!text.contains("resume"), "{text}");
        let text = status(entries, None);
        assert!(text.contains("interrupted: no process is driving it"), "{text}");
        assert!(text.contains(" interrupted, started "), "{text}");
    }

    #[test]
    fn history_is_readable() {
        let text = history(&fixtures::halted(&fixtures::plan()));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
    }

    #[test]
    fn a_folder_without_runs_has_no_last_run() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Folder::new(folder.path()).last().unwrap().is_none());
    }
}
