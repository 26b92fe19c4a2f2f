//! Virtual time for a running cluster: real time, made faster or slower. The
//! only file of this crate that reads a clock.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::model::Time;

/// Slower than this is not time passing at all.
const SLOWEST: f64 = 0.001;

/// Faster than this and a reboot is over before a socket can be closed.
const FASTEST: f64 = 100_000.0;

/// A year of real time, and an end for sleeps that have none.
const LONG: Duration = Duration::from_hours(365 * 24);

/// A clock that began at some virtual instant and runs at some speed.
#[derive(Clone, Debug)]
pub struct Clock {
    real: Instant,
    time: Time,
    speed: f64,
}

impl Clock {
    /// A clock that shows `time` now.
    pub fn starting_at(time: Time, speed: f64) -> Self {
        Self { real: Instant::now(), time, speed: bounded(speed) }
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        self.time.plus(self.real.elapsed().mul_f64(self.speed))
    }

    /// When, in real time, it will show `time`.
    pub fn instant_of(&self, time: Time) -> Instant {
        let wait = time.since(self.time).as_secs_f64() / self.speed;
        self.real + Duration::try_from_secs_f64(wait).unwrap_or(LONG).min(LONG)
    }

    /// How fast it runs.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Goes on from here at another speed.
    pub fn set_speed(&mut self, speed: f64) {
        *self = Self::starting_at(self.now(), speed);
    }
}

fn bounded(speed: f64) -> f64 {
    if speed.is_finite() { speed.clamp(SLOWEST, FASTEST) } else { 1.0 }
}

/// The instant of real time that it is.
pub fn real_now() -> Instant {
    Instant::now()
}

/// The instant of real time that much later.
pub fn real_after(duration: Duration) -> Instant {
    Instant::now() + duration
}

/// The time of the machine that the simulator runs on: where a new cluster's
/// clock begins, and what certificates are dated by.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
pub fn wall_time() -> Time {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::default().plus(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_runs_at_its_speed_and_goes_on_when_that_changes() {
        let mut clock = Clock::starting_at(Time::from_secs(1000), 20.0);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now(), Time::from_secs(1060));
        let then = clock.instant_of(Time::from_secs(1080));
        assert_eq!(then - Instant::now(), Duration::from_secs(1));
        clock.set_speed(1.0);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now(), Time::from_secs(1063));
        // What has passed is due at once.
        assert!(clock.instant_of(Time::from_secs(1)) <= Instant::now());
        // And the end of time is far away, not an overflow.
        assert!(clock.instant_of(Time::from_nanos(u64::MAX)) > Instant::now());
    }

    #[tokio::test]
    async fn nonsense_is_bounded() {
        for speed in [f64::NAN, f64::INFINITY, -3.0, 0.0] {
            let clock = Clock::starting_at(Time::from_secs(1), speed);
            assert!(clock.speed() >= SLOWEST && clock.speed() <= FASTEST);
            let _ = clock.now();
        }
    }
}
