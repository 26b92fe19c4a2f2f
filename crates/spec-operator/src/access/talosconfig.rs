//! Talosconfigs: a new one from a certificate, and one of another operator, which has no
//! endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::bundle::not_yaml;
use super::certificate::Client;
use super::defect::Defect;

/// A talosconfig with one context. JSON is YAML, and quotes what has to be quoted.
pub(super) fn render(
    cluster: &str,
    endpoints: &[IpAddr],
    authority: &str,
    client: &Client,
) -> Result<String, Defect> {
    let context = json!({
        "endpoints": listed(endpoints)?,
        "ca": STANDARD.encode(authority),
        "crt": STANDARD.encode(&client.certificate),
        "key": STANDARD.encode(&client.key),
    });
    Ok(with_context(cluster, context))
}

/// A stored talosconfig, as far as this has to know it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    context: Option<String>,
    contexts: Option<BTreeMap<String, Option<Map<String, Value>>>>,
}

/// The stored talosconfig as it is if its context has endpoints, else one with that context and
/// these endpoints.
pub(super) fn with_endpoints(text: &str, endpoints: &[IpAddr]) -> Result<String, Defect> {
    let options = serde_saphyr::options! { with_snippet: false };
    let stored: Stored = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| not_yaml("a talosconfig", &error))?;
    let Stored { context, contexts } = stored;
    let mut contexts = contexts.unwrap_or_default();
    let only = || contexts.keys().next().filter(|_| contexts.len() == 1).cloned();
    let name = context.filter(|name| !name.is_empty()).or_else(only).ok_or(Defect::NoContext)?;
    let mut own = contexts.remove(&name).ok_or(Defect::NoContext)?.unwrap_or_default();
    let has_endpoints =
        own.get("endpoints").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    if !has_endpoints {
        own.insert("endpoints".to_owned(), listed(endpoints)?);
    }
    for field in ["ca", "crt", "key"] {
        if own.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(Defect::NoField { field });
        }
    }
    Ok(with_context(&name, Value::Object(own)))
}

fn listed(endpoints: &[IpAddr]) -> Result<Value, Defect> {
    if endpoints.is_empty() {
        return Err(Defect::NoEndpoints);
    }
    let texts = endpoints.iter().map(|address| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    Ok(texts.collect())
}

fn with_context(name: &str, context: Value) -> String {
    let mut contexts = Map::new();
    contexts.insert(name.to_owned(), context);
    json!({"context": name, "contexts": contexts}).to_string()
}
