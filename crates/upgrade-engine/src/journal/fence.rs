//! Whether this process still has the run (rule 9).
//!
//! An entry in the journal says what is about to happen. Between the entry and the act a process
//! may be suspended for an hour, by a signal or with its whole machine, and another one may have
//! taken the run over and done it. So the act itself asks, right before it is sent (rule 8).

use std::sync::{Arc, OnceLock};

use thiserror::Error;
use upgrade_core::guard;
use upgrade_core::mutant::Mutant;

use super::Journal;

/// This process lost the run: another one may be driving it by now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("this process lost ownership of the run: {0}")]
pub struct Lost(pub String);

/// Says whether this process still has the journal. It is asked often, from any task, so it answers
/// at once and from what is known locally: a lock file that still exists, a lease that has not
/// expired. If it uses a clock, then one that continues while the machine is suspended.
///
/// If it is not known, the run counts as lost (rule 10).
pub trait Fence: Send + Sync {
    /// An error if another process may act by now.
    fn holds(&self) -> Result<(), Lost>;
}

/// The fence of a journal that only one process can see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone;

impl Fence for Alone {
    fn holds(&self) -> Result<(), Lost> {
        Ok(())
    }
}

/// A fence that stays closed once it was: a lease that is held again may have been held by another
/// process in between.
pub(crate) struct Guard {
    fence: Arc<dyn Fence>,
    lost: OnceLock<Lost>,
}

impl Guard {
    pub(crate) fn of<J: Journal>(journal: &J) -> Arc<Self> {
        Arc::new(Self { fence: journal.fence(), lost: OnceLock::new() })
    }

    /// Whether the run is ours, and always has been.
    pub(crate) fn holds(&self) -> Result<(), Lost> {
        if !guard!(Mutant::FenceOff) {
            return Ok(());
        }
        if let Some(lost) = self.lost.get() {
            return Err(lost.clone());
        }
        self.fence.holds().inspect_err(|lost| {
            let _ = self.lost.set(lost.clone());
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Switch(AtomicBool);

    impl Fence for Switch {
        fn holds(&self) -> Result<(), Lost> {
            self.0.load(Ordering::Relaxed).then_some(()).ok_or_else(|| Lost("off".to_owned()))
        }
    }

    #[test]
    fn what_was_lost_once_is_not_had_again() {
        // Rule 9.
        let switch = Arc::new(Switch(AtomicBool::new(true)));
        let guard = Guard { fence: Arc::clone(&switch) as Arc<dyn Fence>, lost: OnceLock::new() };
        assert_eq!(guard.holds(), Ok(()));
        switch.0.store(false, Ordering::Relaxed);
        assert!(guard.holds().is_err());
        switch.0.store(true, Ordering::Relaxed);
        assert_eq!(guard.holds(), Err(Lost("off".to_owned())));
    }
}
