//! The loop: observe, decide, act, remember.

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::mpsc;
use upgrade_core::event::Event;
use upgrade_core::journal::{Entry, State};
use upgrade_core::plan::Plan;
use upgrade_core::reason::HaltReason;
use upgrade_core::snapshot::NodeName;

use crate::control::Control;
use crate::io::Io;
use crate::journal::{Journal, JournalError};

/// Where events go. Unbounded: a slow reader must never hold up a node that is
/// being upgraded, and a run has few events.
pub type Events = mpsc::UnboundedSender<Event>;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything planned is done and verified.
    Done,
    /// It needs a person.
    Halted {
        /// Why.
        reason: HaltReason,
        /// Nodes whose next boot is into the new version.
        armed: Vec<NodeName>,
        /// Nodes that stay cordoned because they do not serve.
        cordoned: Vec<NodeName>,
    },
    /// The user paused it; nothing is in flight.
    Paused {
        /// Who.
        by: String,
    },
    /// The user stopped it at once; steps may be in doubt.
    Stopped,
}

/// A run that could not go on at all.
#[derive(Debug, Error)]
pub enum DriveError {
    /// Nothing may happen that is not written first.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal at hand does not fit the plan (rule 9).
    #[error("the journal does not fit the plan: {0}")]
    Fold(#[from] upgrade_core::journal::FoldError),
}

/// What a run is made of.
pub struct Run<I, J> {
    /// The plan.
    pub plan: Arc<Plan>,
    /// What was journaled before, for this plan.
    pub past: Vec<Entry>,
    /// The outside.
    pub io: Arc<I>,
    /// The memory.
    pub journal: J,
    /// Who drives: a name that tells processes apart.
    pub runner: String,
    /// Where events go.
    pub events: Events,
    /// The user's word.
    pub control: Control,
    /// Whether the user asked to go on after a pause or a halt, and who.
    pub resumed_by: Option<String>,
}

/// Drives a plan to its end, or to where it needs a person.
pub async fn drive<I: Io, J: Journal>(run: Run<I, J>) -> Result<(End, State), DriveError> {
    let _ = run;
    todo!()
}
