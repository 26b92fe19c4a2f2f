//! `OpenAPI` v2 as protobuf, the only form that some clients accept: kubectl validates a `kind:
//! List` with it.
//!
//! It contains schemas only, no paths: those clients read paths from `OpenAPI` v3.

use serde_json::Value;

/// The media type of such a document.
pub(super) const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Whether a caller accepts it.
pub(super) fn is_wanted(accept: &str) -> bool {
    accept.contains("com.github.proto-openapi.spec.v2")
}

/// Encodes a JSON document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, &document["swagger"]);
    message(&mut out, 2, |info| {
        text(info, 1, &document["info"]["title"]);
        text(info, 2, &document["info"]["version"]);
    });
    message(&mut out, 8, |_| {});
    message(&mut out, 9, |definitions| named_schemas(definitions, &document["definitions"]));
    out
}

fn named_schemas(out: &mut Vec<u8>, map: &Value) {
    for (name, value) in map.as_object().into_iter().flatten() {
        message(out, 1, |named| {
            bytes(named, 1, name.as_bytes());
            message(named, 2, |out| schema(out, value));
        });
    }
}

fn schema(out: &mut Vec<u8>, value: &Value) {
    text(out, 1, &value["$ref"]);
    text(out, 2, &value["format"]);
    text(out, 4, &value["description"]);
    for name in value["required"].as_array().into_iter().flatten() {
        text(out, 19, name);
    }
    match &value["additionalProperties"] {
        Value::Bool(flag) => message(out, 21, |item| {
            number(item, 2 << 3);
            number(item, u64::from(*flag));
        }),
        inner @ Value::Object(_) => {
            message(out, 21, |item| message(item, 1, |out| schema(out, inner)));
        }
        _ => {}
    }
    if value["type"].is_string() {
        message(out, 22, |item| text(item, 1, &value["type"]));
    }
    if value["items"].is_object() {
        message(out, 23, |item| message(item, 1, |out| schema(out, &value["items"])));
    }
    if value["properties"].is_object() {
        message(out, 25, |properties| named_schemas(properties, &value["properties"]));
    }
    for (name, extension) in value.as_object().into_iter().flatten() {
        if name.starts_with("x-") {
            // Extensions are YAML, and JSON is a subset of YAML.
            message(out, 31, |named| {
                bytes(named, 1, name.as_bytes());
                message(named, 2, |any| bytes(any, 2, extension.to_string().as_bytes()));
            });
        }
    }
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    number(out, field << 3 | 2);
    number(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn text(out: &mut Vec<u8>, field: u64, value: &Value) {
    if let Some(value) = value.as_str() {
        bytes(out, field, value.as_bytes());
    }
}

fn message(out: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(out, field, &inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_small_document() {
        let document = json!({
            "swagger": "2.0", "info": {"title": "t", "version": "v"},
            "definitions": {"a": {"type": "object", "properties": {"b": {"$ref": "#/c"}}, "x-y": 1}},
        });
        let found = encode(&document);
        assert!(
            found.starts_with(b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v\x42\x00\x4a"),
            "{found:?}"
        );
        let contains = |part: &[u8]| found.windows(part.len()).any(|window| window == part);
        for part in [
            &b"\x0a\x01a"[..],
            b"\xb2\x01\x08\x0a\x06object",
            b"\x0a\x03#/c",
            b"\x0a\x03x-y\x12\x03\x12\x011",
        ] {
            assert!(contains(part), "{part:?} in {found:?}");
        }
        assert!(is_wanted("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"));
    }
}
