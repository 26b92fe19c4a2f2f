//! The user's word while a run is under way (rule 12).

use tokio::sync::watch;

/// What the user wants of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Word {
    /// Go on.
    #[default]
    Go,
    /// Let nodes in flight reach a safe state, start nothing new, then stop.
    Pause {
        /// Who said so: a name, or `Ctrl-C`.
        by: String,
    },
    /// Stop at once. What is under way stays in doubt until the run is resumed.
    Stop,
}

/// Where the engine listens.
pub type Control = watch::Receiver<Word>;
