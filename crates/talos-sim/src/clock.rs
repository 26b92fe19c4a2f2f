//! Virtual time for a running cluster: real time, made faster or slower. The
//! only file of this crate that reads a clock.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::model::Time;

/// The lowest speed; below it, time practically stands still.
const SLOWEST: f64 = 0.001;

/// The highest speed; above it, a reboot is over before a socket can be closed.
const FASTEST: f64 = 100_000.0;

/// A year of real time: the longest sleep, so that far instants do not overflow.
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

    /// The virtual time now.
    pub fn now(&self) -> Time {
        self.time.plus(self.real.elapsed().mul_f64(self.speed))
    }

    /// The real instant at which the virtual time will be `time`.
    pub fn instant_of(&self, time: Time) -> Instant {
        let wait = time.since(self.time).as_secs_f64() / self.speed;
        self.real + Duration::try_from_secs_f64(wait).unwrap_or(LONG).min(LONG)
    }

    /// Virtual seconds per real second.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Continues from the current time at another speed.
    pub fn set_speed(&mut self, speed: f64) {
        *self = Self::starting_at(self.now(), speed);
    }
}

fn bounded(speed: f64) -> f64 {
    if speed.is_finite() { speed.clamp(SLOWEST, FASTEST) } else { 1.0 }
}

/// The current instant of real time.
pub fn real_now() -> Instant {
    Instant::now()
}

/// The instant of real time after `duration`.
pub fn real_after(duration: Duration) -> Instant {
    Instant::now() + duration
}

/// The host's wall clock: where a new cluster's clock begins, and the date of certificates.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
pub fn wall_time() -> Time {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::default().plus(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_runs_at_its_speed_and_continues_after_a_change() {
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
