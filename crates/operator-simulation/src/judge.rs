//! Shows the referee what runs write to the hub, and judges what only the hub shows.
//!
//! - Rules 5 and 8: one run for each target that the user sets. A target that was reached is
//!   not begun again, and a run that failed is not retried without the user.
//! - Rule 12: no run begins while the user wants none, or wants a pause.
//! - Rule 0: a run that ends says why.
//!
//! A driver is a process of its own for the referee: it gets its number with the first entry
//! that it writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use simulation_tests::referee::{Breach, Wanted};
use simulation_tests::trace::{ProcessId, TraceKind, UserCommand};
use simulation_tests::world::SharedWorld;
use simulation_tests::world::process_io::Process;
use upgrade_api::UpgradeRun;
use upgrade_api::run::RunPhase;
use upgrade_core::intent::Intent;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Record};
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::reason::HaltReason;
use upgrade_engine::drive::End;
use upgrade_engine::io::Clock as _;

use crate::hub::RunChange;

/// How long after the user's change a run that was already created may still begin.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// Watches the runs of the cluster.
pub struct Judge {
    shared: Arc<SharedWorld>,
    policy: Policy,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the newest process.
    newest: ProcessId,
    runs: BTreeMap<String, RunNote>,
    /// Which process drives, since when.
    driver: Option<ProcessId>,
    /// How often the user has set a target, and since when the newest one holds.
    targets: u32,
    /// Since when the user wants no new run: paused, or without a target.
    quiet: Option<Timestamp>,
    breaches: Vec<Breach>,
    log: Vec<(Timestamp, String)>,
}

/// What is known of a run.
struct RunNote {
    /// The target of the user that it is for, by number.
    target: u32,
    began: bool,
    phase: RunPhase,
    message: String,
    halted: Option<HaltReason>,
    paused_by: String,
}

impl Judge {
    /// A judge of a scenario that has not started.
    pub fn new(shared: &Arc<SharedWorld>, policy: &Policy) -> Arc<Self> {
        let quiet = Some(shared.clock().now());
        let state = Mutex::new(State { quiet, ..State::default() });
        Arc::new(Self { shared: Arc::clone(shared), policy: policy.clone(), state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.shared.clock().now()
    }

    /// The next number for a process.
    pub fn number(&self) -> ProcessId {
        let mut state = self.lock();
        state.newest += 1;
        state.newest
    }

    /// Records an event for the printed log.
    pub fn note(&self, text: &str) {
        let now = self.now();
        self.lock().log.push((now, text.to_owned()));
    }

    /// The user sets a target, in place of another one or of none.
    pub fn target_set(&self, replaced: bool) {
        {
            let mut state = self.lock();
            state.targets += 1;
            state.quiet = None;
        }
        self.report(if replaced { UserCommand::Retarget } else { UserCommand::Resume });
    }

    /// The user removes the target, or pauses.
    pub fn quiet(&self) {
        let now = self.now();
        self.lock().quiet.get_or_insert(now);
        self.report(UserCommand::Pause);
    }

    /// The user resumes.
    pub fn resumed(&self) {
        self.lock().quiet = None;
        self.report(UserCommand::Resume);
    }

    fn report(&self, command: UserCommand) {
        self.shared.at(|inside| inside.show(TraceKind::User { command }));
    }

    /// A process was killed.
    pub fn died(&self, process: &Process) {
        let runner = process.runner();
        let drove = {
            let mut state = self.lock();
            state.driver.take_if(|driver| *driver == runner).is_some()
        };
        if drove {
            self.shared.at(|inside| inside.show(TraceKind::Dies { runner }));
        }
    }

    /// What a process changed of a run, at this moment.
    pub fn changed(&self, process: &Process, change: &RunChange) {
        let read = |value: &serde_json::Value| serde_json::from_value::<UpgradeRun>(value.clone());
        let Ok(after) = read(&change.after) else { return };
        let before = change.before.as_ref().and_then(|before| read(before).ok());
        let name = after.metadata.name.clone().unwrap_or_default();
        if name.contains("-part-") {
            return;
        }
        self.created(&name);
        let status = |run: &UpgradeRun| run.status.clone().unwrap_or_default();
        let (old, new) = (before.map(|run| status(&run)).unwrap_or_default(), status(&after));
        // Entries that were packed are not repeated; what follows them is new.
        let known = if new.journal.starts_with(&old.journal) { old.journal.len() } else { 0 };
        for line in &new.journal[known..] {
            match serde_json::from_str(line) {
                Ok(entry) => self.wrote(process, &name, &after, &entry),
                Err(error) => self.breach(0, format!("{name}: an entry cannot be read: {error}")),
            }
        }
        self.phase(&name, old.phase, new.phase, &new.message);
    }

    fn created(&self, name: &str) {
        let now = self.now();
        let mut state = self.lock();
        if state.runs.contains_key(name) {
            return;
        }
        let note = RunNote {
            target: state.targets,
            began: false,
            phase: RunPhase::Pending,
            message: String::new(),
            halted: None,
            paused_by: String::new(),
        };
        state.runs.insert(name.to_owned(), note);
        state.log.push((now, format!("{name} is created")));
    }

    fn wrote(&self, process: &Process, name: &str, run: &UpgradeRun, entry: &Entry) {
        if entry.record == Record::Began {
            self.began(process, name, run);
        }
        {
            let now = self.now();
            let mut state = self.lock();
            state.log.push((now, format!("{} of {name} by {}", summary(entry), entry.runner)));
            if let Some(note) = state.runs.get_mut(name) {
                match &entry.record {
                    Record::Halted { why } => note.halted = Some(why.clone()),
                    Record::Paused { by } => note.paused_by.clone_from(by),
                    _ => {}
                }
            }
        }
        let (runner, entry) = (process.runner(), Box::new(entry.clone()));
        self.shared.at(|inside| inside.show(TraceKind::Wrote { runner, entry }));
    }

    /// A process begins to drive a run, or resumes it.
    fn began(&self, process: &Process, name: &str, run: &UpgradeRun) {
        let Ok(plan) = serde_json::from_str::<Plan>(&run.spec.plan) else {
            self.breach(0, format!("{name} begins without a plan that can be read"));
            return;
        };
        let fresh = self.begins(name);
        let (before, runner) = {
            let mut state = self.lock();
            state.newest += 1;
            let runner = state.newest;
            (state.driver.replace(runner), runner)
        };
        process.renumber(runner);
        let to = &run.spec.versions.to;
        let version = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        let wanted = Wanted {
            intent: Intent {
                talos: version(&to.talos),
                kubernetes: version(&to.kubernetes),
                rollback: run.spec.rollback,
                ..Intent::default()
            },
            policy: self.policy.clone(),
            secrets: Vec::new(),
            rollback: run.spec.rollback,
        };
        self.shared.at(|inside| {
            if let Some(runner) = before {
                // It lost the run, or handed it over.
                inside.show(TraceKind::Dies { runner });
            }
            inside.referee.now_wanted(wanted);
            inside.show(TraceKind::Starts { runner, plan: Arc::new(plan), fresh });
        });
    }

    /// Whether this is the first entry of the run; and whether the run may begin at all.
    fn begins(&self, name: &str) -> bool {
        let now = self.now();
        let mut state = self.lock();
        let quiet = state.quiet;
        let target = match state.runs.get_mut(name) {
            Some(note) if !note.began => {
                note.began = true;
                note.target
            }
            _ => return false,
        };
        let same =
            |(other, it): &(&String, &RunNote)| *other != name && it.began && it.target == target;
        let earlier = state.runs.iter().find(same);
        let earlier = earlier.map(|(other, it)| {
            let rule = if it.phase == RunPhase::Halted { 5 } else { 8 };
            (rule, format!("{name} begins, but {other} was for the same target: {}", it.phase))
        });
        drop(state);
        if let Some((rule, text)) = earlier {
            self.breach(rule, text);
        }
        if let Some(since) = quiet.filter(|since| now.duration_since(*since) > GRACE) {
            self.breach(12, format!("{name} begins, but the user has wanted no run since {since}"));
        }
        true
    }

    fn phase(&self, name: &str, old: RunPhase, new: RunPhase, message: &str) {
        if old == new {
            return;
        }
        let now = self.now();
        let mut state = self.lock();
        state.log.push((now, format!("{name} is {new}: {message}")));
        let Some(note) = state.runs.get_mut(name) else { return };
        note.phase = new;
        message.clone_into(&mut note.message);
        let by = if new == RunPhase::Paused { note.paused_by.clone() } else { message.to_owned() };
        let halted = note.halted.clone();
        let end = match new {
            RunPhase::Pending | RunPhase::Running => return,
            RunPhase::Completed => End::Done,
            RunPhase::Paused | RunPhase::Cancelled => End::Paused { by },
            RunPhase::Halted => match halted {
                Some(reason) => End::Halted { reason, armed: Vec::new(), cordoned: Vec::new() },
                None => return,
            },
        };
        let Some(runner) = state.driver.take() else { return };
        drop(state);
        self.shared.at(|inside| inside.show(TraceKind::Ends { runner, end: Ok(end) }));
    }

    /// Notes a broken rule.
    pub fn breach(&self, rule: u8, text: String) {
        let at = self.now();
        self.lock().breaches.push(Breach { rule, at, text });
        self.shared.breaks();
    }

    /// The newest run: its name, its phase and its message.
    pub fn newest(&self) -> Option<(String, RunPhase, String)> {
        let state = self.lock();
        let newest = state.runs.iter().next_back();
        newest.map(|(name, note)| (name.clone(), note.phase, note.message.clone()))
    }

    /// The broken rules that only the hub shows, and the log.
    pub fn take(&self) -> (Vec<Breach>, Vec<(Timestamp, String)>) {
        let mut state = self.lock();
        (std::mem::take(&mut state.breaches), std::mem::take(&mut state.log))
    }
}

/// A journal entry in a few words, for the printed log.
fn summary(entry: &Entry) -> String {
    match &entry.record {
        Record::Started { step, attempt, .. } => format!("{step} starts (attempt {attempt})"),
        Record::Finished { step, outcome, .. } => format!("{step} ends: {outcome:?}"),
        other => format!("{other:?}"),
    }
}
