//! Observes a cluster: all that a plan needs.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use upgrade_core::observation::Observation;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::io::Trouble;

use crate::limiter::Throttled;

/// A look as a whole. Each question has its own, shorter limit.
const LIMIT: Duration = Duration::from_mins(1);

/// All looks of one plan.
const IN_ALL: Duration = Duration::from_mins(5);

/// How long after now a cluster that rests is looked at again: at moments of
/// its own, so that a fleet is looked at evenly and not all at once.
pub fn until_next_probe(cluster: &str, every: Duration, now: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    cluster.hash(&mut hasher);
    let every = every.as_millis().max(1);
    let own = u128::from(hasher.finish()) % every;
    let left = (own + every - now.as_millis() % every) % every;
    // One that was looked at early, for other reasons, gets a whole pause.
    let left = if left < every / 2 { left + every } else { left };
    Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX))
}

/// Looks at everything that a plan needs, again if something could not be seen.
pub async fn observe(
    live: &Throttled,
    foreign: &BTreeSet<NodeName>,
) -> Result<Observation, String> {
    within(IN_ALL, upgrade_engine::observe_whole(live, foreign)).await
}

/// Looks once at everything that a plan needs. Take a turn before.
pub async fn observe_once(live: &Throttled) -> Result<Observation, String> {
    within(LIMIT, upgrade_engine::observe_all(live.at_once())).await
}

async fn within(
    limit: Duration,
    look: impl Future<Output = Result<Observation, Trouble>>,
) -> Result<Observation, String> {
    match tokio::time::timeout(limit, look).await {
        Ok(seen) => seen.map_err(|trouble| trouble.to_string()),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_spread_and_keep_their_pace() {
        let every = Duration::from_mins(5);
        let started = Duration::from_secs(1_000);
        let mut tenths = [0; 10];
        for number in 0..1_000 {
            let name = format!("ns/cluster-{number}");
            let first = until_next_probe(&name, every, started);
            assert!(first >= every / 2 && first < every * 3 / 2, "{first:?}");
            // A look takes a moment; the next is a pause later, not more.
            let second =
                until_next_probe(&name, every, started + first + Duration::from_millis(300));
            assert_eq!(second, every.saturating_sub(Duration::from_millis(300)));
            tenths[usize::try_from((started + first).as_secs() % 300 / 30).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
        assert!(until_next_probe("ns/a", Duration::ZERO, started) < Duration::from_secs(1));
    }
}
