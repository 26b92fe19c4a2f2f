//! The talosconfig of a cluster, as talosctl reads it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::pki::Pair;

/// PEM in the base64 form of a talosconfig and a machine configuration.
pub fn encode(pem: &str) -> String {
    STANDARD.encode(pem)
}

/// Bytes as text.
pub(crate) fn encode_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Writes a talosconfig with one context.
pub fn write(
    cluster: &str,
    endpoints: &[String],
    nodes: &[String],
    authority: &str,
    client: &Pair,
) -> String {
    let Pair { certificate, key } = client;
    let mut text = format!("context: {cluster}\ncontexts:\n    {cluster}:\n");
    for (name, values) in [("endpoints", endpoints), ("nodes", nodes)] {
        if !values.is_empty() {
            let _ = writeln!(text, "        {name}:");
        }
        for value in values {
            let _ = writeln!(text, "            - {value}");
        }
    }
    for (name, pem) in [("ca", authority), ("crt", certificate), ("key", key)] {
        let _ = writeln!(text, "        {name}: {}", encode(pem));
    }
    text
}
