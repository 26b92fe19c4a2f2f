//! What holds for every schedule, zone and start.

use std::collections::BTreeSet;

use proptest::collection::btree_set;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use upgrade_core::cron::{CronSchedule, Missed};
use upgrade_core::jiff::civil::DateTime;
use upgrade_core::jiff::tz::TimeZone;
use upgrade_core::jiff::{SignedDuration, Timestamp};

/// The values of the five fields. None is a star.
#[derive(Clone, Debug)]
struct Fields {
    minute: Option<BTreeSet<i8>>,
    hour: Option<BTreeSet<i8>>,
    day_of_month: Option<BTreeSet<i8>>,
    month: Option<BTreeSet<i8>>,
    day_of_week: Option<BTreeSet<i8>>,
}

impl Fields {
    fn schedule(&self) -> CronSchedule {
        let Self { minute, hour, day_of_month, month, day_of_week } = self;
        let fields = [minute, hour, day_of_month, month, day_of_week].map(|values| {
            values.as_ref().map_or("*".to_owned(), |values| {
                values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            })
        });
        fields.join(" ").parse().unwrap()
    }

    /// Whether a local time matches, in the words of cron's manual.
    fn matches(&self, local: DateTime) -> bool {
        let Self { minute, hour, day_of_month, month, day_of_week } = self;
        let has = |values: &Option<BTreeSet<i8>>, value: i8| {
            values.as_ref().is_none_or(|values| values.contains(&value))
        };
        let weekday = local.weekday().to_sunday_zero_offset();
        let restricted = day_of_month.is_some() && day_of_week.is_some();
        let by_month = has(day_of_month, local.day());
        let by_week = has(day_of_week, weekday);
        local.second() == 0
            && local.subsec_nanosecond() == 0
            && has(minute, local.minute())
            && has(hour, local.hour())
            && has(month, local.month())
            && if restricted { by_month || by_week } else { by_month && by_week }
    }
}

fn values(low: i8, high: i8, most: usize) -> impl Strategy<Value = Option<BTreeSet<i8>>> {
    option::weighted(0.6, btree_set(low..=high, 1..=most))
}

fn fields() -> impl Strategy<Value = Fields> {
    (values(0, 59, 9), values(0, 23, 6), values(1, 31, 6), values(1, 12, 4), values(0, 6, 3))
        .prop_map(|(minute, hour, day_of_month, month, day_of_week)| Fields {
            minute,
            hour,
            day_of_month,
            month,
            day_of_week,
        })
}

/// Zones that change the clock at different times of the day, and some that do not.
const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
];

fn zone() -> impl Strategy<Value = TimeZone> {
    select(ZONES).prop_map(|name| TimeZone::get(name).unwrap())
}

/// Any moment between 2020 and 2040.
fn start() -> impl Strategy<Value = Timestamp> {
    (1_577_836_800_i64..2_208_988_800, 0..1_000_000_000)
        .prop_map(|(second, nanosecond)| Timestamp::new(second, nanosecond).unwrap())
}

fn config() -> ProptestConfig {
    // The same cases in every run.
    ProptestConfig {
        rng_seed: RngSeed::Fixed(20_261_119),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn times_increase_and_match(fields in fields(), zone in zone(), start in start()) {
        let schedule = fields.schedule().in_zone(zone.clone());
        let mut at = start;
        for _ in 0..20 {
            let Some(next) = schedule.next_after(at) else { break };
            prop_assert!(next > at, "{schedule}: {next} after {at}");
            prop_assert!(fields.matches(zone.to_datetime(next)), "{schedule}: {next}");
            at = next;
        }
    }

    /// Where the clock is never changed: minute by minute is the same.
    #[test]
    fn no_time_is_passed_over(fields in fields(), start in start()) {
        let schedule = fields.schedule();
        let next = schedule.next_after(start);
        let mut at = Timestamp::from_second(start.as_second().div_euclid(60) * 60).unwrap();
        for _ in 0..20_000 {
            at += SignedDuration::from_mins(1);
            if fields.matches(TimeZone::UTC.to_datetime(at)) {
                prop_assert_eq!(next, Some(at));
                return Ok(());
            }
        }
        prop_assert!(next.is_none_or(|next| next > at));
    }

    #[test]
    fn the_last_missed_is_the_last(
        fields in fields(),
        start in start(),
        hours in 0_i64..400,
        limit in 1_usize..5,
    ) {
        let schedule = fields.schedule();
        let until = start + SignedDuration::from_hours(hours);
        let mut times = Vec::new();
        let mut at = start;
        while let Some(next) = schedule.next_after(at).filter(|next| *next <= until) {
            times.push(next);
            at = next;
        }
        let count = times.len().min(limit);
        let expected = times.last().map(|last| Missed { last: *last, count });
        prop_assert_eq!(schedule.last_missed(start, until, limit), expected);
    }

    #[test]
    fn no_text_is_a_panic(text in "((CRON_)?TZ=(UTC|Local|)? ?)?[@a-z0-9*?/,. -]{0,24}") {
        if let Ok(schedule) = text.parse::<CronSchedule>() {
            prop_assert_eq!(schedule.to_string(), text);
            schedule.next_after(Timestamp::UNIX_EPOCH);
        }
    }
}
