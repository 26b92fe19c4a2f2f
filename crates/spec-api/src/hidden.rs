//! Values that no output may show (rule 14).

use std::fmt;

use serde::Deserialize;
use upgrade_core::secret::REDACTED;

/// A value that may contain secrets. `Debug` does not show it and it cannot be serialised, so
/// that it reaches no log, event, status or report by accident.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden<T>(T);

impl<T> Hidden<T> {
    /// The value. The caller must keep it out of every output.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}
