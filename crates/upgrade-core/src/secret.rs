//! Keeping secrets out of what people and machines read later (rule 14).
//!
//! Errors from outside may quote what they choked on: a machine config, a
//! talosconfig, a header. Text that goes into a journal, event or report passes
//! [`scrub`] first.

use std::borrow::Cow;

use crate::guard;
use crate::mutant::Mutant;

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Keys whose values are secret wherever they appear, in `key: value` and
/// `key=value` form.
const SECRET_KEYS: &[&str] = &[
    "key",
    "crt",
    "ca",
    "token",
    "secret",
    "password",
    "bootstraptoken",
    "aescbcencryptionsecret",
    "secretboxencryptionsecret",
    "client-key-data",
    "client-certificate-data",
    "certificate-authority-data",
    "authorization",
];

/// The text without PEM blocks and without the values of secret keys.
pub fn scrub(text: &str) -> Cow<'_, str> {
    if !guard!(Mutant::SecretShown) {
        return Cow::Borrowed(text);
    }
    let without_pem = scrub_pem(text);
    match scrub_values(&without_pem) {
        Some(clean) => Cow::Owned(clean),
        None => without_pem,
    }
}

fn scrub_pem(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    if !text.contains(BEGIN) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        clean.push_str(&rest[..at]);
        clean.push_str(REDACTED);
        // A block that a length limit cut off ends with the text.
        let block = &rest[at..];
        rest = block
            .find(END)
            .and_then(|end| Some((end, block[end + END.len()..].find("-----")?)))
            .map_or("", |(end, dashes)| &block[end + END.len() + dashes + 5..]);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

fn scrub_values(text: &str) -> Option<String> {
    let mut clean = String::new();
    let mut copied = 0;
    for (at, separator) in text.match_indices([':', '=']) {
        if at < copied {
            continue;
        }
        let key = text[..at]
            .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
            .find(|word| !word.is_empty())
            .unwrap_or_default();
        // Only a key directly before the separator counts, quotes aside.
        let tail = text[..at].trim_end_matches(['"', '\'']);
        if !tail.ends_with(key) || !SECRET_KEYS.contains(&key.to_ascii_lowercase().as_str()) {
            continue;
        }
        let after = at + separator.len();
        let value = text[after..].trim_start_matches([' ', '"', '\'']);
        let start = text.len() - value.len();
        let scheme = if value.starts_with("Bearer ") { "Bearer ".len() } else { 0 };
        let length = value[scheme..]
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '}' | ']' | ';'))
            .map_or(value.len(), |end| end + scheme);
        if length == 0 || value.starts_with(REDACTED) {
            continue;
        }
        clean.push_str(&text[copied..start]);
        clean.push_str(REDACTED);
        copied = start + length;
    }
    (copied > 0).then(|| {
        clean.push_str(&text[copied..]);
        clean
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_disappear() {
        // Rule 14.
        for (text, clean) in [
            ("plain text stays", "plain text stays"),
            (
                "bad key -----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY----- here",
                "bad key [redacted] here",
            ),
            ("cut -----BEGIN PRIVATE KEY-----\nabc", "cut [redacted]"),
            ("token: abc123 rest", "token: [redacted] rest"),
            ("{\"token\": \"abc123\", \"a\": 1}", "{\"token\": \"[redacted]\", \"a\": 1}"),
            ("Authorization: Bearer abc.def more", "Authorization: [redacted] more"),
            ("    key: LS0tLS1CRUdJTg==\n    x: 1", "    key: [redacted]\n    x: 1"),
            ("password=hunter2;x", "password=[redacted];x"),
            ("monkey: banana", "monkey: banana"),
            ("ca: LS0t crt: LS0u", "ca: [redacted] crt: [redacted]"),
        ] {
            assert_eq!(scrub(text), clean);
            assert_eq!(scrub(&scrub(text)), clean, "scrubbing twice changes nothing");
        }
    }
}
