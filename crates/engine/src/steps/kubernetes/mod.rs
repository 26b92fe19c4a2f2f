//! Not written yet.

use upgrade_core::reason::{Failure, FailureKind};

use super::{Done, Step};
use crate::io::Io;

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let text = format!("{} is not possible yet", step.id.action);
    Err(Failure::new(FailureKind::Refused, &text))
}
