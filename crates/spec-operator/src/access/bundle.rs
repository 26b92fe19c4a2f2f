//! The secrets of a cluster, as `talosctl gen secrets` writes them.

use serde::Deserialize;

use super::authority::{Authority, Fields};
use super::defect::Defect;

/// What is read of it: the authority of the Talos API, and nothing else.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Bundle {
    certs: Option<Certificates>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Certificates {
    os: Option<Pair>,
}

/// A certificate and a key, each of them base64 of PEM.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pair {
    pub(super) crt: Option<String>,
    pub(super) key: Option<String>,
}

const FIELDS: Fields = Fields { certificate: "certs.os.crt", key: "certs.os.key" };

/// The authority of the Talos API.
pub(super) fn authority(text: &str) -> Result<Authority, Defect> {
    // Snippets of the source would contain keys.
    let options = serde_saphyr::options! { with_snippet: false };
    let bundle: Bundle = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| not_yaml("the secrets of a cluster", &error))?;
    let pair = bundle.certs.and_then(|certs| certs.os).unwrap_or_default();
    Authority::read(FIELDS, pair.crt.as_deref(), pair.key.as_deref())
}

/// Only the line: what the parser says may quote the text.
pub(super) fn not_yaml(expected: &'static str, error: &serde_saphyr::Error) -> Defect {
    let line = error.location().map_or(1, |location| location.line());
    Defect::NotYaml { expected, line }
}
