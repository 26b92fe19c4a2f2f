//! Where the last run of a cluster stands, and what happened in it.

use std::fmt::Write as _;

use serde_json::{Value, json};
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Entry, Outcome, Phase, Record, State};
use upgrade_core::plan::Plan;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::StepId;
use upgrade_engine::journal::Holder;
use upgrade_engine::store::{RunResult, Summary};

use super::layout::{self, hang, remark};
use super::plan_json::pretty;
use super::{CARE, HEADING, paint, summary, time};
use crate::progress::moves;
use crate::story::nodes;

/// All that `status` knows.
#[derive(Clone, Debug)]
pub struct Status<'a> {
    /// The run in a line.
    pub run: Summary,
    /// Its plan.
    pub plan: &'a Plan,
    /// The fold of its journal.
    pub state: &'a State,
    /// Who drives it now, if anybody does.
    pub holder: Option<Holder>,
    /// The runs before it, newest first.
    pub earlier: &'a [Summary],
    /// The command that goes on with it.
    pub resume: String,
}

impl Status<'_> {
    /// Where it stands, in a few words.
    fn stands(&self) -> String {
        match (&self.run.result, &self.holder) {
            (RunResult::Completed, _) => "done".to_owned(),
            (_, Some(holder)) => format!("under way: {holder}"),
            (RunResult::Open, None) => "cut off: no process has it".to_owned(),
            (result, None) => result.to_string(),
        }
    }

    /// The nodes that the plan leaves as they are, since the user wants it so.
    fn held(&self) -> impl Iterator<Item = &NodeName> {
        self.plan.nodes.iter().filter(|(_, own)| own.hold).map(|(name, _)| name)
    }

    fn can_go_on(&self) -> bool {
        self.run.result != RunResult::Completed && self.holder.is_none()
    }

    /// For people.
    pub fn text(&self) -> String {
        let Summary { name, cluster, rollback, from, to, began, last, done, steps, .. } = &self.run;
        let mut out = format!("{} {name}\n\n", paint(HEADING, "Run"));
        let mut line = |key: &str, value: &str| {
            out.push_str(&hang(&format!("  {key:<12}"), 14, value));
        };
        line("Cluster", cluster);
        line(if *rollback { "Goes back" } else { "Moves" }, &moves(from, to));
        let held: Vec<String> = self.held().map(ToString::to_string).collect();
        if !held.is_empty() {
            line("Held", &held.join(", "));
        }
        line("Stands", &self.stands());
        line("Progress", &format!("{done} of {steps} steps"));
        line("Began", &time::moment(*began));
        line("Last entry", &time::moment(*last));
        out.push('\n');
        let rows: Vec<Vec<String>> = self.rows().map(|(name, text)| vec![name, text]).collect();
        out.push_str(&layout::table(&["NODE", "STAGE"], &rows, &[]));
        if self.run.result != RunResult::Completed {
            let names = |nodes: Vec<&NodeName>| {
                nodes.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            };
            out.push_str(&summary::next_boots(&self.state.next_boots()));
            let cordoned: Vec<_> = self.state.our_cordons().collect();
            if !cordoned.is_empty() {
                out.push_str(&remark(CARE, "cordoned by this run", &names(cordoned)));
            }
        }
        if !self.earlier.is_empty() {
            out.push('\n');
            let rows: Vec<Vec<String>> = self.earlier.iter().map(earlier).collect();
            out.push_str(&layout::table(&["EARLIER", "MOVED", "ENDED"], &rows, &[]));
        }
        if self.can_go_on() {
            out.push('\n');
            out.push_str(&summary::go_on("to go on", &self.resume));
        }
        out
    }

    /// What is known of every lane.
    fn rows(&self) -> impl Iterator<Item = (String, String)> {
        let lanes = nodes(self.plan).into_iter().map(Some).chain([None]);
        lanes.filter_map(|node| {
            let steps: Vec<StepId> = self.plan.steps().filter(|step| step.node == node).collect();
            if steps.is_empty() {
                return None;
            }
            let name = node.map_or_else(|| "cluster".to_owned(), |node| node.0);
            Some((name, self.stage(&steps)))
        })
    }

    fn stage(&self, steps: &[StepId]) -> String {
        let phase = |step: &StepId| self.state.step(step).map(|known| known.phase.clone());
        for step in steps {
            match phase(step) {
                Some(Phase::Failed { failure, .. }) => {
                    return format!("{} failed: {failure}", step.action);
                }
                Some(Phase::Running { since }) => {
                    let since = time::of_day(since);
                    return match self.holder {
                        Some(_) => format!("{} since {since}", step.action),
                        None => format!("{} was cut off, begun {since}", step.action),
                    };
                }
                Some(Phase::InDoubt) => return format!("{} in doubt", step.action),
                _ => {}
            }
        }
        let done = steps.iter().filter(|step| phase(step) == Some(Phase::Done)).count();
        match steps.len() - done {
            0 => "done".to_owned(),
            _ if done == 0 => "not begun".to_owned(),
            left => format!("{left} of {} steps left", steps.len()),
        }
    }

    /// For programs.
    pub fn json(&self) -> String {
        let nodes: Vec<Value> =
            self.rows().map(|(name, stage)| json!({"name": name, "stage": stage})).collect();
        let cordoned: Vec<_> = self.state.our_cordons().collect();
        let next = self.state.next_boots();
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
            "next": self.can_go_on().then_some(&self.resume),
        }))
    }
}

fn earlier(run: &Summary) -> Vec<String> {
    vec![run.name.clone(), moves(&run.from, &run.to), run.result.to_string()]
}

/// The journal, an entry a line.
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
    let again = |attempt: &u32| match attempt {
        1 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let text = match record {
        Record::Began => "took the run".to_owned(),
        Record::Inherited { cordons, armed } => {
            let list = |nodes: Vec<&NodeName>| {
                nodes.iter().map(|node| node.0.as_str()).collect::<Vec<_>>().join(", ")
            };
            let mut parts = Vec::new();
            if !cordons.is_empty() {
                parts.push(format!("cordons: {}", list(cordons.iter().collect())));
            }
            if !armed.is_empty() {
                parts.push(format!("armed: {}", list(armed.keys().collect())));
            }
            format!("took over from the run before: {}", parts.join("; "))
        }
        Record::Lifted { node } => format!("gave {node} back: its cordon was of the run before"),
        Record::Started { step, attempt, evidence: _ } => {
            format!("{step} started{}", again(attempt))
        }
        Record::Finished { step, attempt, outcome } => {
            let how = match outcome {
                Outcome::Done { .. } => "done".to_owned(),
                Outcome::Skipped { why } => format!("nothing to do: {why}"),
                Outcome::Failed { failure } => format!("failed: {failure}"),
            };
            format!("{step} {how}{}", again(attempt))
        }
        Record::Waiting { key } => format!("waits: {key}"),
        Record::Paused { by } => format!("paused by {by}"),
        Record::Resumed { by } => format!("resumed by {by}"),
        Record::Halted { why } => format!("halted: {why}"),
        Record::Completed => "everything is done".to_owned(),
    };
    hang(&format!("  {}  ", time::of_day(at)), 12, &text)
}

#[cfg(test)]
mod tests {
    use upgrade_engine::journal::Folder;

    use super::*;
    use crate::sample;

    fn status(entries: &[Entry], holder: Option<Holder>) -> String {
        let plan = sample::plan();
        let state = State::fold(&plan, entries).unwrap();
        let (done, steps) = state.progress();
        let halted = state.halted().map(|why| RunResult::Halted { why: why.clone() });
        let open = if state.completed() { RunResult::Completed } else { RunResult::Open };
        let run = Summary {
            name: "20261115T200000Z-0123456789ab".to_owned(),
            cluster: plan.cluster.clone(),
            plan: plan.hash(),
            rollback: false,
            from: plan.from.clone(),
            to: plan.to.clone(),
            began: sample::time(0),
            last: entries.last().unwrap().at,
            runner: None,
            result: halted.unwrap_or(open),
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
        insta::assert_snapshot!(status(&sample::halted(&sample::plan()), None));
    }

    #[test]
    fn a_run_under_way_and_one_cut_off() {
        let entries = sample::killed(&sample::plan());
        let entries = &entries[..entries.len() - 1];
        let holder = Holder { host: "desk".to_owned(), pid: 41, since: sample::time(0) };
        let text = status(entries, Some(holder));
        assert!(text.contains("under way: process 41 on desk"), "{text}");
        assert!(!text.contains("resume"), "{text}");
        let text = status(entries, None);
        assert!(text.contains("cut off: no process has it"), "{text}");
        assert!(text.contains("was cut off, begun"), "{text}");
    }

    #[test]
    fn history_is_readable() {
        let text = history(&sample::halted(&sample::plan()));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
    }

    #[test]
    fn no_runs_are_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Folder::new(folder.path()).last().unwrap().is_none());
    }
}
