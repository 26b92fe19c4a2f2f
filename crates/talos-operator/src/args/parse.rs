//! Parsers of flag values. Every error says what to write instead.

use thiserror::Error;
use upgrade_core::jiff::SignedDuration;

/// The most workers of an offline plan. Kubernetes itself is tested with 5,000 nodes; a typing
/// error must not fill the memory.
const MOST_WORKERS: usize = 20_000;

/// The most control planes of an offline plan; etcd recommends seven members at most.
const MOST_CONTROL_PLANES: usize = 99;

/// A flag value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ParseFlagError {
    #[error("`{0}` is not a number of workers: write one from 0 to {MOST_WORKERS}")]
    Workers(String),
    #[error("`{0}` is not a number of control planes: write one from 1 to {MOST_CONTROL_PLANES}")]
    ControlPlanes(String),
    #[error("a cluster has at least one control plane: write 1, 3 or 5")]
    NoControlPlane,
    #[error("`{0}` is not a time span: write it like 30s, 5m or 1h30m")]
    Span(String),
    #[error("`{0}` is not a schematic: write the 64 hexadecimal digits of the Image Factory's ID")]
    Schematic(String),
    #[error("`{0}` is not an extension: write names like iscsi-tools or siderolabs/iscsi-tools")]
    Extension(String),
    #[error("`{0}` is not a number of snapshots: write 1 or more")]
    Keep(String),
}

pub(super) fn control_planes(text: &str) -> Result<usize, ParseFlagError> {
    match text.parse() {
        Ok(0) => Err(ParseFlagError::NoControlPlane),
        Ok(count @ 1..=MOST_CONTROL_PLANES) => Ok(count),
        _ => Err(ParseFlagError::ControlPlanes(text.to_owned())),
    }
}

pub(super) fn workers(text: &str) -> Result<usize, ParseFlagError> {
    match text.parse() {
        Ok(count @ 0..=MOST_WORKERS) => Ok(count),
        _ => Err(ParseFlagError::Workers(text.to_owned())),
    }
}

pub(super) fn span(text: &str) -> Result<SignedDuration, ParseFlagError> {
    match text.parse::<SignedDuration>() {
        Ok(span) if !span.is_negative() => Ok(span),
        _ => Err(ParseFlagError::Span(text.to_owned())),
    }
}

pub(crate) fn schematic(text: &str) -> Result<String, ParseFlagError> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(ParseFlagError::Schematic(text.to_owned()))
}

/// An official extension, by its whole name.
pub(super) fn extension(text: &str) -> Result<String, ParseFlagError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    let good = |part: &str| !part.is_empty() && part.chars().all(plain);
    match text.split_once('/') {
        None if good(text) => Ok(format!("siderolabs/{text}")),
        Some((author, name)) if good(author) && good(name) => Ok(text.to_owned()),
        _ => Err(ParseFlagError::Extension(text.to_owned())),
    }
}

pub(super) fn keep(text: &str) -> Result<usize, ParseFlagError> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(ParseFlagError::Keep(text.to_owned())),
    }
}

pub(super) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.001..=100_000.0).contains(&speed) => Ok(speed),
        _ => Err(format!("`{text}` is not a speed: write a number from 0.001 to 100000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_bounds() {
        assert_eq!(control_planes("3"), Ok(3));
        assert_eq!(control_planes("0"), Err(ParseFlagError::NoControlPlane));
        assert_eq!(workers("0"), Ok(0));
        for text in ["-1", "many", "20001", "1.5", ""] {
            assert!(control_planes(text).is_err(), "{text}");
            assert!(workers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_spans_have_units() {
        assert_eq!(span("30s"), Ok(SignedDuration::from_secs(30)));
        assert_eq!(span("1h30m"), Ok(SignedDuration::from_mins(90)));
        for text in ["30", "-30s", "soon", ""] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_extension_has_an_author() {
        assert_eq!(extension("iscsi-tools"), Ok("siderolabs/iscsi-tools".to_owned()));
        assert_eq!(extension("acme/driver"), Ok("acme/driver".to_owned()));
        for text in ["", "a/", "/a", "a/b/c", "Iscsi", "a b"] {
            assert!(extension(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_schematic_is_a_hash() {
        assert!(schematic(&"aB".repeat(32)).is_ok_and(|text| text == "ab".repeat(32)));
        assert!(schematic("iscsi-tools").is_err());
        assert!(schematic(&"g".repeat(64)).is_err());
    }
}
