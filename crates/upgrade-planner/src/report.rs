//! What the planner reports: every refusal, warning and note is typed, and each refusal
//! comes with advice.

mod nodes;
mod refusal;
mod remark;

use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::advice::{Advice, Choice};
use upgrade_core::version::{Minor, Version};

pub use upgrade_core::product::Product;

pub use refusal::Refusal;
pub use remark::{Note, Pods, Warning};

/// The rule of the support matrix that a path runs against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "constraint", rename_all = "kebab-case")]
pub enum Constraint {
    /// A Talos release does not run a Kubernetes release.
    Pair {
        /// The Talos release.
        talos: Version,
        /// The Kubernetes release.
        kubernetes: Version,
        /// The oldest minor it runs.
        oldest: Minor,
        /// The newest minor it runs.
        newest: Minor,
        /// The first newer Talos line that runs it, if one is known.
        needs: Option<Minor>,
    },
    /// A Talos release that the matrix does not know runs nothing (rule 10).
    UnknownTalos {
        /// The Talos release.
        talos: Version,
    },
    /// A Talos release cannot be installed over the one that runs.
    Host {
        /// What runs.
        from: Version,
        /// What was to be installed.
        to: Version,
        /// The oldest version it may be installed over.
        oldest: Version,
        /// The first version that is too new for it.
        too_new: Version,
    },
    /// A Talos release is not safely installed over an early patch of the line
    /// before it, whatever its installer says.
    Patch {
        /// What runs.
        from: Version,
        /// What was to be installed.
        to: Version,
        /// What has to run before.
        first: Version,
    },
}

impl Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair { talos, kubernetes, oldest, newest, needs: _ } => {
                write!(f, "Talos {talos} runs Kubernetes {oldest} to {newest}, not {kubernetes}")
            }
            Self::UnknownTalos { talos } => {
                write!(f, "Talos {talos} is not in the support matrix")
            }
            Self::Host { from, to, oldest, too_new } => write!(
                f,
                "Talos {to} installs over {oldest} and newer, below {too_new}; {from} runs"
            ),
            Self::Patch { from, to, first } => write!(
                f,
                "Talos {to} is not safe for etcd to install before {first} has run; {from} runs"
            ),
        }
    }
}

/// Everything that the planner reports.
#[must_use = "a report holds the reasons that a user needs"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Why there is no plan; empty if there is one.
    pub refusals: Vec<Refusal>,
    /// What deserves a check before the run starts.
    pub warnings: Vec<Warning>,
    /// Everything else.
    pub notes: Vec<Note>,
}

impl Report {
    /// What helps if there is nothing to do: nodes that are held only move once they are
    /// released, and what is there already needs a newer target.
    pub fn advice_on_nothing(&self) -> Advice {
        let held = self.notes.iter().find_map(|note| match note {
            Note::Held { nodes } => Some(Advice::ReleaseHold(nodes.clone())),
            _ => None,
        });
        let there = self.notes.iter().any(|note| matches!(note, Note::AlreadyThere { .. }));
        let newer = Advice::ChooseTarget(Choice::Newer);
        match held {
            Some(release) if there => Advice::AnyOf(vec![release, newer]),
            Some(release) => release,
            None => newer,
        }
    }

    /// Adds a refusal unless it was made already.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    /// Adds a warning unless it was given already.
    pub(crate) fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Adds a note unless it was made already.
    pub(crate) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
