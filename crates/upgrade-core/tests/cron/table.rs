//! `robfig.json`: what robfig/cron, the library behind Kubernetes' `CronJob`s, makes of many
//! expressions. Ours has to be the same.
//!
//! The program in `generate/` writes the table. To change it, edit `generate/cases.go`, then:
//!
//! ```sh
//! cd crates/upgrade-core/tests/cron/generate && go run . > ../robfig.json
//! ```

use std::collections::BTreeSet;

use serde::Deserialize;
use upgrade_core::cron::CronSchedule;
use upgrade_core::jiff::Timestamp;
use upgrade_core::jiff::tz::TimeZone;

/// How many times a row has, unless there are no more.
const TIMES: usize = 5;

/// One expression, from one start, in the zone that counts if the expression names none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    cron: String,
    zone: Option<String>,
    from: Option<Timestamp>,
    #[serde(default)]
    next: Vec<Timestamp>,
    refused: Option<String>,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("robfig.json")).unwrap()
}

/// Our answer to a row that is not refused.
fn ours(row: &Row) -> Vec<Timestamp> {
    let schedule: CronSchedule = row.cron.parse().unwrap_or_else(|error| {
        panic!("`{}` is a schedule, but not here: {error}", row.cron);
    });
    let schedule = schedule.in_zone(TimeZone::get(row.zone.as_deref().unwrap()).unwrap());
    let mut at = row.from.unwrap();
    let mut times = Vec::new();
    while times.len() < TIMES
        && let Some(next) = schedule.next_after(at)
    {
        times.push(next);
        at = next;
    }
    times
}

#[test]
fn every_answer_is_that_of_a_cron_job() {
    let mut wrong = Vec::new();
    for row in rows() {
        if let Some(reason) = &row.refused {
            if row.cron.parse::<CronSchedule>().is_ok() {
                wrong.push(format!("`{}` is taken; refused there: {reason}", row.cron));
            }
            continue;
        }
        let times = ours(&row);
        if times != row.next {
            let Row { cron, zone, from, next, .. } = row;
            wrong
                .push(format!("`{cron}` in {zone:?} from {from:?}:\n  {times:?}, not\n  {next:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A table that was cut off or generated without its cases would prove nothing.
#[test]
fn the_table_has_what_it_is_for() {
    let rows = rows();
    assert!(rows.len() > 600);
    assert!(rows.iter().filter(|row| row.refused.is_some()).count() > 90);
    assert!(rows.iter().filter(|row| row.refused.is_none() && row.next.is_empty()).count() > 10);
    let zones: BTreeSet<_> = rows.iter().filter_map(|row| row.zone.as_deref()).collect();
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        assert!(zones.contains(zone), "{zone}");
    }
}
