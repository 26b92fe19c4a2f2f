//! The referee: watches a run from outside the engine and reports where it broke one of the
//! design's rules.
//!
//! It shares no code with the deciding side: it does not call the planner, and uses only plain data
//! of the core. Each rule is a file; `facts` reads the world, `notes` keeps what several rules
//! need. Rule 0 is progress: a run ends at its target or at a point where a person can act, but it
//! ends.
//!
//! A rule judges what a process did by what it could have known: what broke after its last
//! question, or while its message was in transit, is not its fault.

mod driver;
mod facts;
mod notes;
mod progress;
mod rule_01_quorum;
mod rule_02_fresh;
mod rule_03_snapshot;
mod rule_04_content;
mod rule_05_boot_back;
mod rule_06_limit;
mod rule_06_workloads;
mod rule_07_cordons;
mod rule_08_once;
mod rule_09_driver;
mod rule_10_hidden;
mod rule_10_incomplete;
mod rule_10_readiness;
mod rule_10_unknown;
mod rule_11_deadline;
mod rule_12_commands;
mod rule_12_held;
mod rule_12_reboots;
mod rule_12_rollback;
mod rule_12_window;
mod rule_13_versions;
mod rule_14_secrets;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use upgrade_core::intent::Intent;
use upgrade_core::jiff::Timestamp;
use upgrade_core::policy::Policy;
use upgrade_engine::drive::End;

use crate::trace::{TraceEvent, View};
use notes::Notes;

/// What the user wants, and the secrets of the world.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The target.
    pub intent: Intent,
    /// How it may be done.
    pub policy: Policy,
    /// Texts that must never appear in output (rule 14).
    pub secrets: Vec<String>,
    /// Whether the user asked for a rollback.
    pub rollback: bool,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule's number; 0 is progress.
    pub rule: u8,
    /// When it was detected.
    pub at: Timestamp,
    /// A description.
    pub text: String,
}

/// The maximum number of breaches: one is enough to fail, and later ones are often its
/// consequences.
const KEPT: usize = 20;

/// What a rule may read.
struct Scene<'a> {
    at: Timestamp,
    view: &'a View<'a>,
    notes: &'a Notes,
    /// What the user wants now; `notes` has what each process was started with.
    wanted: &'a Arc<Wanted>,
}

/// One rule. A breach is a sentence without the rule's number.
trait Rule: Send {
    /// The rule's number.
    fn number(&self) -> u8;
    /// Handles an event; the scene is the state right before it.
    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>);
    /// Handles the end, when no process drives any more.
    fn finish(&mut self, _scene: &Scene<'_>, _last: Option<&End>, _found: &mut Vec<String>) {}
}

/// The referee of one run, or of several consecutive runs on one cluster.
pub struct Referee {
    wanted: Arc<Wanted>,
    notes: Notes,
    rules: Vec<Box<dyn Rule>>,
    breaches: Vec<Breach>,
    found: Vec<String>,
}

impl Referee {
    /// A referee from before the first process.
    pub fn new(wanted: Wanted, start: Timestamp, view: &View<'_>) -> Self {
        let rules: Vec<Box<dyn Rule>> = vec![
            Box::new(progress::Progress::default()),
            Box::new(rule_01_quorum::Quorum),
            Box::new(rule_02_fresh::Fresh),
            Box::new(rule_03_snapshot::Snapshot::default()),
            Box::new(rule_04_content::Content::new(view)),
            Box::new(rule_05_boot_back::BootBack::default()),
            Box::new(rule_06_workloads::Workloads::default()),
            Box::new(rule_06_limit::Limit::default()),
            Box::new(rule_07_cordons::Cordons::default()),
            Box::new(rule_08_once::Once::default()),
            Box::new(rule_09_driver::OneDriver),
            Box::new(rule_10_unknown::Unknown),
            Box::new(rule_10_hidden::Hidden::default()),
            Box::new(rule_10_incomplete::Incomplete::default()),
            Box::new(rule_10_readiness::Readiness::default()),
            Box::new(rule_11_deadline::Deadline::default()),
            Box::new(rule_12_commands::Commands::default()),
            Box::new(rule_12_rollback::Rollbacks),
            Box::new(rule_12_held::Held),
            Box::new(rule_12_reboots::Reboots::default()),
            Box::new(rule_13_versions::Versions::default()),
            Box::new(rule_14_secrets::Secrets::default()),
        ];
        Self {
            wanted: Arc::new(wanted),
            notes: Notes::new(start, view),
            rules,
            breaches: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Leaves a rule out, where its events cannot be seen.
    #[must_use]
    pub fn without(mut self, number: u8) -> Self {
        self.rules.retain(|rule| rule.number() != number);
        self
    }

    /// Handles an event, together with the world right before it.
    pub fn see(&mut self, seen: &TraceEvent, view: &View<'_>) {
        self.notes.observe(seen, view);
        self.judge(seen.at, view, |rule, scene, found| rule.see(seen, scene, found));
        self.notes.take(seen, view, &self.wanted);
    }

    /// A new target from the user. Processes that started before are still judged by their own
    /// target.
    pub fn now_wanted(&mut self, wanted: Wanted) {
        self.wanted = Arc::new(wanted);
    }

    /// The breaches so far.
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// Called at the end, when faults are over and no process drives any more.
    pub fn finish(&mut self, at: Timestamp, view: &View<'_>, last_end: Option<&End>) {
        self.notes.observe_end(at, view);
        self.judge(at, view, |rule, scene, found| rule.finish(scene, last_end, found));
    }

    fn judge(
        &mut self,
        at: Timestamp,
        view: &View<'_>,
        ask: impl Fn(&mut dyn Rule, &Scene<'_>, &mut Vec<String>),
    ) {
        let scene = Scene { at, view, notes: &self.notes, wanted: &self.wanted };
        for rule in &mut self.rules {
            ask(&mut **rule, &scene, &mut self.found);
            for text in self.found.drain(..) {
                let rule = rule.number();
                let known = |breach: &Breach| breach.rule == rule && breach.text == text;
                if self.breaches.len() < KEPT && !self.breaches.iter().any(known) {
                    self.breaches.push(Breach { rule, at, text });
                }
            }
        }
    }
}
