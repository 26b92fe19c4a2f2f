//! The authority in the machine configuration of a control plane, which an import names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::authority::{Authority, Fields};
use super::bundle::{Pair, not_yaml};
use super::defect::Defect;

/// One document of a configuration. Only the first one of Talos has a `machine`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    machine: Option<Machine>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Machine {
    ca: Option<Pair>,
}

const FIELDS: Fields = Fields { certificate: "machine.ca.crt", key: "machine.ca.key" };

/// The authority of the Talos API. The text may be base64 as a whole, as another operator
/// writes it.
pub(super) fn authority(text: &str) -> Result<Authority, Defect> {
    let decoded = unpacked(text);
    let text = decoded.as_deref().unwrap_or(text);
    let options = serde_saphyr::options! { with_snippet: false };
    let documents: Vec<Option<Document>> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| not_yaml("a machine configuration", &error))?;
    let machine = documents.into_iter().flatten().find_map(|document| document.machine);
    let pair = machine.and_then(|machine| machine.ca).unwrap_or_default();
    let absent = |field: Option<&str>| field.is_none_or(str::is_empty);
    if !absent(pair.crt.as_deref()) && absent(pair.key.as_deref()) {
        return Err(Defect::OfWorker);
    }
    Authority::read(FIELDS, pair.crt.as_deref(), pair.key.as_deref())
}

fn unpacked(text: &str) -> Option<String> {
    let packed: String = text.split_whitespace().collect();
    String::from_utf8(STANDARD.decode(packed).ok()?).ok()
}
