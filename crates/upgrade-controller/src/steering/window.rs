//! Windows in an annotation: `sat,sun 22:00 4h Europe/Oslo; mon 01:00 90m`.

use std::collections::BTreeSet;

use upgrade_core::jiff::SignedDuration;
use upgrade_core::jiff::civil::Time;
use upgrade_core::window::{Day, Window};

use super::AnnotationError;

const DAYS: [(&str, Day); 7] = [
    ("mon", Day::Mon),
    ("tue", Day::Tue),
    ("wed", Day::Wed),
    ("thu", Day::Thu),
    ("fri", Day::Fri),
    ("sat", Day::Sat),
    ("sun", Day::Sun),
];

/// All windows of an annotation. A window that could never open is one that cannot be read.
pub(super) fn windows(key: &'static str, text: &str) -> Result<Vec<Window>, AnnotationError> {
    let written = text.split(';').map(str::trim).filter(|window| !window.is_empty());
    let wrong = |value: &str| AnnotationError::Window { key, value: value.to_owned() };
    written
        .map(|text| window(text).filter(|it| it.validate().is_ok()).ok_or_else(|| wrong(text)))
        .collect()
}

fn window(text: &str) -> Option<Window> {
    let mut words = text.split_whitespace().peekable();
    let days = if words.peek()?.contains(':') {
        BTreeSet::new()
    } else {
        words.next()?.split(',').map(day).collect::<Option<_>>()?
    };
    let start: Time = words.next()?.parse().ok()?;
    let duration: SignedDuration = words.next()?.parse().ok()?;
    let timezone = words.next().unwrap_or("UTC").to_owned();
    words.next().is_none().then_some(Window { days, start, duration, timezone })
}

fn day(word: &str) -> Option<Day> {
    let found = DAYS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, day)| *day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "key";

    #[test]
    fn windows_are_read() {
        let read = windows(KEY, "Sat,sun 22:00 4h Europe/Oslo; 01:30 90m;").unwrap();
        let [weekend, night] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!(weekend.days, BTreeSet::from([Day::Sat, Day::Sun]));
        assert_eq!(weekend.duration, SignedDuration::from_hours(4));
        assert_eq!(weekend.timezone, "Europe/Oslo");
        assert!(night.days.is_empty());
        assert_eq!((night.timezone.as_str(), night.start.minute()), ("UTC", 30));
    }

    #[test]
    fn a_window_that_cannot_open_is_named() {
        for wrong in [
            "sat",
            "sat 22:00",
            "someday 22:00 4h",
            "sat 25:00 4h",
            "sat 22:00 0h",
            "sat 22:00 200h",
            "sat 22:00 4h Nowhere",
            "sat 22:00 4h UTC please",
        ] {
            let found = windows(KEY, &format!("01:00 1h; {wrong}"));
            let expected = AnnotationError::Window { key: KEY, value: wrong.to_owned() };
            assert_eq!(found, Err(expected));
        }
    }
}
