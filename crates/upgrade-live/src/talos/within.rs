//! An answer in time: one machine that hangs must not hold up what is said of the others.

use std::fmt::{self, Display};
use std::future::Future;
use std::time::Duration;

use talos_client::Error;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::reason::FailureKind;
use upgrade_core::text::chain;
use upgrade_engine::io::IoError;

use crate::talos_error;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// It did not come in time: the machine hangs, or nothing leads to it.
    Silent(SignedDuration),
    /// The call failed.
    Failed(Box<Error>),
}

impl Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(limit) => write!(f, "no answer within {limit:#}"),
            Self::Failed(error) => f.write_str(&chain(&**error)),
        }
    }
}

impl From<NoAnswer> for IoError {
    fn from(why: NoAnswer) -> Self {
        match &why {
            NoAnswer::Silent(_) => Self::new(FailureKind::Unavailable, &why.to_string()),
            NoAnswer::Failed(error) => talos_error::read(error),
        }
    }
}

/// The answer to a question, within a limit (rule 11).
pub(super) async fn within<T>(
    limit: SignedDuration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, NoAnswer> {
    let time = Duration::try_from(limit).unwrap_or_default();
    match tokio::time::timeout(time, answer).await {
        Ok(answer) => answer.map_err(|error| NoAnswer::Failed(Box::new(error))),
        Err(_) => Err(NoAnswer::Silent(limit)),
    }
}
