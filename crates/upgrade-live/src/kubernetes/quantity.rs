//! Kubernetes's numbers with units: `100m`, `1.5Gi`, `2e3`.

/// In thousandths, rounded up as the scheduler does; `None` if it is no number.
pub(super) fn millis(text: &str) -> Option<u64> {
    scaled(text, 1_000)
}

/// In whole units, rounded up.
pub(super) fn units(text: &str) -> Option<u64> {
    scaled(text, 1)
}

/// The number times `factor`. Exact: everything is a whole number of billionths.
fn scaled(text: &str, factor: u128) -> Option<u64> {
    const NANO: u128 = 1_000_000_000;
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(_, c)| !(c.is_ascii_digit() || *c == '.' || *c == '+'))
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number
        .trim_start_matches('+')
        .split_once('.')
        .unwrap_or((number.trim_start_matches('+'), ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos = whole.checked_mul(NANO)?.checked_add(digits.parse().ok()?)?;
    let power = |base: u128, exponent: u32| base.checked_pow(exponent);
    let (times, by): (u128, u128) = match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (power(10, 6)?, 1),
        "G" => (power(10, 9)?, 1),
        "T" => (power(10, 12)?, 1),
        "P" => (power(10, 15)?, 1),
        "E" => (power(10, 18)?, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let exponent: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            match u32::try_from(exponent) {
                Ok(exponent) => (power(10, exponent)?, 1),
                Err(_) => (1, power(10, exponent.unsigned_abs())?),
            }
        }
    };
    let total = nanos.checked_mul(times)?.checked_mul(factor)?.div_ceil(by.checked_mul(NANO)?);
    u64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_what_kubernetes_means() {
        for (text, expected) in [
            ("100m", Some(100)),
            ("1", Some(1_000)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("1.0001", Some(1_001)),
            ("2e3", Some(2_000_000)),
            ("100000n", Some(1)),
            ("", None),
            ("m", None),
            ("-1", None),
            ("1x", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
        for (text, expected) in [
            ("110", Some(110)),
            ("128974848", Some(128_974_848)),
            ("129M", Some(129_000_000)),
            ("123Mi", Some(128_974_848)),
            ("1.5Gi", Some(1_610_612_736)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("1E2", Some(100)),
            ("7.5e-1", Some(1)),
        ] {
            assert_eq!(units(text), expected, "{text}");
        }
    }
}
