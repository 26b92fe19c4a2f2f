//! What the user commands while a run is in progress (rule 12).

use tokio::sync::watch;

/// What the user wants of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// Carry on, or continue after a pause.
    #[default]
    Continue,
    /// Let nodes in flight reach a safe state, start nothing new, then stop.
    Pause {
        /// Who paused it: a name, or `Ctrl-C`.
        by: String,
    },
    /// Stop at once. Steps in progress stay in doubt until the run is resumed.
    Stop,
}

/// How commands reach the engine; the newest counts.
pub type Control = watch::Receiver<Command>;
