//! Rule 12, maintenance windows: no node starts outside the windows or during a freeze. Nodes in
//! flight continue.

use upgrade_core::jiff::tz::TimeZone;
use upgrade_core::jiff::{SignedDuration, Timestamp, ToSpan as _};
use upgrade_core::policy::Policy;
use upgrade_core::window::{Day, Window};

/// Whether new work may begin.
pub(super) fn is_open(policy: &Policy, at: Timestamp) -> bool {
    let frozen = policy.freezes.iter().any(|freeze| freeze.from <= at && at < freeze.until);
    let open = policy.windows.is_empty() || policy.windows.iter().any(|it| contains(it, at));
    open && !frozen
}

/// Whether it is open now, or was up to this long before.
pub(super) fn was_open(policy: &Policy, at: Timestamp, before: SignedDuration) -> bool {
    let earlier = at.saturating_sub(before).unwrap_or(at);
    is_open(policy, at) || is_open(policy, earlier)
}

/// Checks every opening of the last days: a window may last a week.
fn contains(window: &Window, at: Timestamp) -> bool {
    let Ok(zone) = TimeZone::get(&window.timezone) else { return false };
    let today = at.to_zoned(zone.clone()).date();
    (0..=8).any(|ago: i64| {
        let Ok(date) = today.checked_sub(ago.days()) else { return false };
        let day = Day::from(date.weekday());
        let Ok(opens) = date.to_datetime(window.start).to_zoned(zone.clone()) else { return false };
        let opens = opens.timestamp();
        let listed = window.days.is_empty() || window.days.contains(&day);
        listed && opens <= at && at.duration_since(opens) < window.duration
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> Policy {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn windows_and_freezes_are_respected() {
        let night = policy(
            r#"{"windows": [{"days": ["sat"], "start": "22:00", "duration": "4h",
                "timezone": "Europe/Oslo"}]}"#,
        );
        // 2026-11-14 is a Saturday; Oslo is one hour ahead of UTC.
        for (at, open) in [
            ("2026-11-14T20:59:00Z", false),
            ("2026-11-14T21:00:00Z", true),
            ("2026-11-15T00:59:00Z", true),
            ("2026-11-15T01:00:00Z", false),
            ("2026-11-15T22:00:00Z", false),
        ] {
            assert_eq!(is_open(&night, at.parse().unwrap()), open, "{at}");
        }
        let frozen = policy(
            r#"{"freezes": [{"from": "2026-12-20T00:00:00Z", "until": "2027-01-04T00:00:00Z"}]}"#,
        );
        assert!(is_open(&frozen, "2026-12-19T23:59:00Z".parse().unwrap()));
        assert!(!is_open(&frozen, "2026-12-24T18:00:00Z".parse().unwrap()));
        assert!(is_open(&Policy::default(), "2026-12-24T18:00:00Z".parse().unwrap()));
    }
}
