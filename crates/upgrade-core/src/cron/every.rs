//! The duration of `@every`, as Go's `time.ParseDuration` reads it: numbers with units,
//! each perhaps with a fraction, such as `1h30m` or `1.5h`.
//!
//! jiff reads durations too, but others: it takes `1 hour` and `1d`, refuses `-1h30m`
//! or rounds differently.

use jiff::SignedDuration;

use super::error::DurationProblem as Problem;

/// What Go can count in nanoseconds with a sign.
const LONGEST: u64 = i64::MAX.unsigned_abs();

/// The pause that `@every` with this duration means: whole seconds, at least one. A
/// negative duration is valid and counts as a second.
pub(super) fn parse(text: &str) -> Result<SignedDuration, Problem> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let mut total = 0_u64;
    if rest.is_empty() {
        return Err(Problem::Form);
    }
    // The one number that needs no unit.
    if rest == "0" {
        rest = "";
    }
    while !rest.is_empty() {
        let nanoseconds;
        (nanoseconds, rest) = amount(rest)?;
        // Go's negative numbers reach one further.
        let sum = total.checked_add(nanoseconds).filter(|sum| *sum <= LONGEST + 1);
        total = sum.ok_or(Problem::TooLong)?;
    }
    if negative {
        total = 0;
    }
    let total = i64::try_from(total).map_err(|_| Problem::TooLong)?;
    Ok(SignedDuration::from_secs((total / 1_000_000_000).max(1)))
}

/// Reads one number with its unit. Returns its nanoseconds, and the text after it.
fn amount(text: &str) -> Result<(u64, &str), Problem> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(Problem::Form);
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit: u64 = match unit {
        "" => return Err(Problem::NoUnit),
        "ns" => 1,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(Problem::Unit),
    };
    let whole: u64 = match whole {
        "" => 0,
        whole => whole.parse().map_err(|_| Problem::TooLong)?,
    };
    let nanoseconds = whole
        .checked_mul(unit)
        .and_then(|whole| whole.checked_add(part(fraction, unit)))
        .filter(|nanoseconds| *nanoseconds <= LONGEST + 1);
    Ok((nanoseconds.ok_or(Problem::TooLong)?, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// A fraction of a unit, in nanoseconds. Digits that no longer fit are left out.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Go computes in floating point here, and rounds 1.99999999999999999s up to 2s"
)]
fn part(fraction: &str, unit: u64) -> u64 {
    let mut digits = 0_u64;
    let mut scale = 1.0_f64;
    for digit in fraction.bytes() {
        let next = digits.checked_mul(10).and_then(|it| it.checked_add(u64::from(digit - b'0')));
        let Some(next) = next.filter(|next| *next <= LONGEST + 1) else {
            break;
        };
        digits = next;
        scale *= 10.0;
    }
    (digits as f64 * (unit as f64 / scale)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> i64 {
        parse(text).unwrap().as_secs()
    }

    #[test]
    fn numbers_with_units_add_up() {
        assert_eq!(seconds("1h30m"), 5400);
        assert_eq!(seconds("1m1m"), 120);
        assert_eq!(seconds("1.5h"), 5400);
        assert_eq!(seconds(".5m"), 30);
        assert_eq!(seconds("2.m"), 120);
        assert_eq!(seconds("+90s"), 90);
        assert_eq!(seconds("2500ms"), 2);
        assert_eq!(seconds("3000000\u{b5}s"), 3);
        assert_eq!(seconds("1.99999999999999999s"), 2);
        assert_eq!(seconds("2562047h47m16.854775807s"), i64::MAX / 1_000_000_000);
    }

    #[test]
    fn less_than_a_second_is_a_second() {
        for text in ["0", "-0", "0s", "1ns", "999ms", "-1h", "-2562047h47m16.854775808s"] {
            assert_eq!(seconds(text), 1, "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, problem) in [
            ("", Problem::Form),
            ("-", Problem::Form),
            (" 1h", Problem::Form),
            ("h", Problem::Form),
            (".s", Problem::Form),
            ("--1h", Problem::Form),
            ("90", Problem::NoUnit),
            ("1h30", Problem::NoUnit),
            ("1.2.3s", Problem::NoUnit),
            ("1d", Problem::Unit),
            ("1H", Problem::Unit),
            ("1h 30m", Problem::Unit),
            ("1 hour", Problem::Unit),
            ("2562048h", Problem::TooLong),
            ("2562047h47m16.854775808s", Problem::TooLong),
            ("99999999999999999999h", Problem::TooLong),
        ] {
            assert_eq!(parse(text), Err(problem), "{text}");
        }
    }
}
