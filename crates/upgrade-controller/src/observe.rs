//! Observes a cluster: all that a plan needs.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use thiserror::Error;
use upgrade_core::observation::Observation;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::io::{Io, IoError};

use crate::connect::ConnectError;
use crate::limits::Throttled;
use crate::versions_observed::VersionsError;

/// Why a cluster could not be observed.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// There is no connection to it.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It did not answer.
    #[error("{0}")]
    Io(IoError),
    /// It did not answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// Its versions are not known.
    #[error(transparent)]
    Versions(#[from] VersionsError),
}

impl From<IoError> for ObserveError {
    fn from(error: IoError) -> Self {
        Self::Io(error)
    }
}

/// One observation. Each request has its own, shorter limit.
const LIMIT: Duration = Duration::from_mins(1);

/// All observations for one plan.
const IN_ALL: Duration = Duration::from_mins(5);

/// How long until an idle cluster is probed again: each has its own moments, so that the
/// probes of a fleet are spread evenly.
pub fn until_next_probe(cluster: &str, every: Duration, now: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    cluster.hash(&mut hasher);
    let every = every.as_millis().max(1);
    let own = u128::from(hasher.finish()) % every;
    let left = (own + every - now.as_millis() % every) % every;
    // A probe outside of these moments postpones the next one.
    let left = if left < every / 2 { left + every } else { left };
    Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX))
}

/// Observes all that a plan needs, again if something is unknown.
pub async fn observe<I: Io>(
    live: &Throttled<I>,
    foreign: &BTreeSet<NodeName>,
    pool_label: &str,
) -> Result<Observation, ObserveError> {
    within(IN_ALL, upgrade_engine::observe_whole(live, foreign, pool_label)).await
}

/// Observes once all that a plan needs. Acquire a permit of the limiter before.
pub async fn observe_once<I: Io>(
    live: &Throttled<I>,
    pool_label: &str,
) -> Result<Observation, ObserveError> {
    within(LIMIT, upgrade_engine::observe_all(live.at_once(), pool_label)).await
}

async fn within(
    limit: Duration,
    observation: impl Future<Output = Result<Observation, IoError>>,
) -> Result<Observation, ObserveError> {
    match tokio::time::timeout(limit, observation).await {
        Ok(observed) => Ok(observed?),
        Err(_) => Err(ObserveError::TimedOut(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_spread_and_keep_their_pace() {
        let every = Duration::from_mins(5);
        let started = Duration::from_secs(1_000);
        let mut tenths = [0; 10];
        for number in 0..1_000 {
            let name = format!("ns/cluster-{number}");
            let first = until_next_probe(&name, every, started);
            assert!(first >= every / 2 && first < every * 3 / 2, "{first:?}");
            // A probe takes a moment; the next one starts one interval after this one started.
            let second =
                until_next_probe(&name, every, started + first + Duration::from_millis(300));
            assert_eq!(second, every.saturating_sub(Duration::from_millis(300)));
            tenths[usize::try_from((started + first).as_secs() % 300 / 30).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
        assert!(until_next_probe("ns/a", Duration::ZERO, started) < Duration::from_secs(1));
    }
}
