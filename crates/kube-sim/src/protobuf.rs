//! Protobuf decoding. Go clients send built-in kinds as protobuf, whatever they accept in reply.
//!
//! A message contains only field numbers; `data/protobuf.txt` maps them to names, and the schema
//! gives their types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::object;
use crate::schema::{self, Schema};
use crate::time::Time;

/// The prefix of every protobuf body.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// The meaning of a field number.
#[derive(Clone, Copy)]
enum Field {
    /// A named field, and whether its zero value is significant.
    Named(&'static str, bool),
    /// An embedded message whose fields belong to this message.
    Inline(&'static str),
}

static MESSAGES: LazyLock<BTreeMap<&'static str, BTreeMap<u64, Field>>> = LazyLock::new(|| {
    include_str!("../data/protobuf.txt")
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?;
            let field = |word: &'static str| {
                if let Some((number, name)) = word.split_once(':') {
                    let pointer = name.ends_with('*');
                    let name = name.trim_end_matches('*');
                    return Some((number.parse().ok()?, Field::Named(name, pointer)));
                }
                let (number, inline) = word.split_once('=')?;
                Some((number.parse().ok()?, Field::Inline(inline)))
            };
            Some((name, words.filter_map(field).collect()))
        })
        .collect()
});

/// One field as encoded on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads the next field; `None` at the end or if it is malformed.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let key = number(bytes)?;
    let wire = match key & 7 {
        0 => Wire::Number(number(bytes)?),
        1 => Wire::Bytes(split(bytes, 8)?),
        2 => {
            let length = usize::try_from(number(bytes)?).ok()?;
            Wire::Bytes(split(bytes, length)?)
        }
        5 => Wire::Bytes(split(bytes, 4)?),
        _ => return None,
    };
    Some((key >> 3, wire))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn split<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(first)
}

/// All fields of a message.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(next(&mut bytes)?);
    }
    Some(found)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The object in a body; `None` if the body is malformed or its kind is unknown.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let part = |wanted: u64| {
        envelope.iter().find_map(|(field, wire)| match wire {
            Wire::Bytes(bytes) if *field == wanted => Some(*bytes),
            _ => None,
        })
    };
    let (mut api_version, mut kind) = (String::new(), String::new());
    for (field, wire) in fields(part(1)?)? {
        match (field, wire) {
            (1, Wire::Bytes(bytes)) => api_version = text(bytes),
            (2, Wire::Bytes(bytes)) => kind = text(bytes),
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let name = schema::definition_name(group, version, &kind).or_else(|| {
        let options = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
        (kind == "DeleteOptions").then_some(options)
    })?;
    let schema = Schema::named(name);
    let mut object = Map::new();
    message(part(2).unwrap_or_default(), name, schema, &mut object)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Some(Value::Object(object))
}

fn message(
    bytes: &[u8],
    name: &str,
    schema: Schema<'_>,
    target: &mut Map<String, Value>,
) -> Option<()> {
    let known = MESSAGES.get(name)?;
    for (field, wire) in fields(bytes)? {
        match (known.get(&field), wire) {
            (Some(Field::Inline(inline)), Wire::Bytes(bytes)) => {
                message(bytes, inline, schema, target)?;
            }
            (Some(Field::Named(field, pointer)), wire) => {
                let inner = schema.field(field);
                add(target, field, *pointer, inner, &wire)?;
            }
            _ => {}
        }
    }
    Some(())
}

fn add(
    target: &mut Map<String, Value>,
    field: &str,
    pointer: bool,
    schema: Schema<'_>,
    wire: &Wire<'_>,
) -> Option<()> {
    let is_map = schema.fields().is_none()
        && schema.keyword("additionalProperties").is_some_and(Value::is_object);
    match (schema.type_name(), wire) {
        ("array", wire) => {
            let item = value(wire, schema.items())?;
            match target.entry(field).or_insert_with(|| json!([])) {
                Value::Array(items) => items.push(item),
                _ => return None,
            }
        }
        ("object", Wire::Bytes(bytes)) if is_map => {
            let (mut key, mut entry) = (String::new(), json!(""));
            for (field, wire) in fields(bytes)? {
                match (field, wire) {
                    (1, Wire::Bytes(bytes)) => key = text(bytes),
                    (2, wire) => entry = value(&wire, schema.field("any"))?,
                    _ => {}
                }
            }
            object::map(target.entry(field).or_insert(Value::Null)).insert(key, entry);
        }
        _ => {
            let found = value(wire, schema)?;
            let zero = object::is_blank(Some(&found)) || found == json!(0) || found == json!(false);
            if pointer || !zero {
                target.insert(field.to_owned(), found);
            }
        }
    }
    Some(())
}

fn value(wire: &Wire<'_>, schema: Schema<'_>) -> Option<Value> {
    let reference = schema.reference().unwrap_or_default();
    match wire {
        Wire::Number(number) if schema.type_name() == "boolean" => Some(json!(*number != 0)),
        // A negative number is encoded as the large one with the same bits.
        Wire::Number(number) => Some(json!(number.cast_signed())),
        Wire::Bytes(bytes) => match reference.rsplit('.').next().unwrap_or_default() {
            "Time" | "MicroTime" => time(bytes, reference.ends_with("MicroTime")),
            "Quantity" => Some(json!(first_text(bytes)?)),
            "IntOrString" => int_or_string(bytes),
            "FieldsV1" | "RawExtension" | "JSON" => serde_json::from_str(&first_text(bytes)?).ok(),
            "" if schema.keyword("format").is_some_and(|format| format == "byte") => {
                Some(json!(base64::engine::general_purpose::STANDARD.encode(bytes)))
            }
            "" if schema.type_name() == "array" => {
                // A list in a map is a message with one field.
                let items = fields(bytes)?;
                items.iter().map(|(_, wire)| value(wire, schema.items())).collect()
            }
            "" => Some(json!(text(bytes))),
            _ => {
                let mut inner = Map::new();
                message(bytes, reference, schema, &mut inner)?;
                Some(Value::Object(inner))
            }
        },
    }
}

fn first_text(bytes: &[u8]) -> Option<String> {
    Some(
        fields(bytes)?
            .into_iter()
            .find_map(|(field, wire)| match wire {
                Wire::Bytes(bytes) if field == 1 => Some(text(bytes)),
                _ => None,
            })
            .unwrap_or_default(),
    )
}

fn time(bytes: &[u8], micro: bool) -> Option<Value> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for (field, wire) in fields(bytes)? {
        match (field, wire) {
            (1, Wire::Number(number)) => seconds = number,
            (2, Wire::Number(number)) => nanoseconds = number,
            _ => {}
        }
    }
    // An empty message means that no time is set.
    if bytes.is_empty() {
        return Some(Value::Null);
    }
    let at = Time::from_nanos(seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?);
    Some(json!(if micro { at.to_micro_text() } else { at.to_text() }))
}

fn int_or_string(bytes: &[u8]) -> Option<Value> {
    let (mut kind, mut number, mut words) = (0, 0, String::new());
    for (field, wire) in fields(bytes)? {
        match (field, wire) {
            (1, Wire::Number(found)) => kind = found,
            (2, Wire::Number(found)) => number = found.cast_signed(),
            (3, Wire::Bytes(bytes)) => words = text(bytes),
            _ => {}
        }
    }
    Some(if kind == 0 { json!(number) } else { json!(words) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend(bytes);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
    }

    #[test]
    fn an_eviction_without_a_grace_period() {
        let meta = [field(1, b"pod"), field(2, b""), field(3, b"default")].concat();
        // gracePeriodSeconds is a pointer: its zero counts.
        let options = [8, 0];
        let raw = [field(1, &meta), field(2, &options)].concat();
        assert_eq!(
            decode(&envelope("policy/v1", "Eviction", &raw)),
            Some(json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": "pod", "namespace": "default"},
                "deleteOptions": {"gracePeriodSeconds": 0},
            }))
        );
    }

    #[test]
    fn maps_of_texts_and_bytes() {
        let entry = [field(1, b"a"), field(2, b"b")].concat();
        let raw = field(2, &entry);
        let object = decode(&envelope("v1", "ConfigMap", &raw)).unwrap();
        assert_eq!(object["data"], json!({"a": "b"}));
        let object = decode(&envelope("v1", "Secret", &raw)).unwrap();
        assert_eq!(object["data"], json!({"a": "Yg=="}));
    }

    #[test]
    fn malformed_bytes_decode_to_nothing() {
        assert_eq!(decode(b"k8s\0\xff\xff"), None);
        assert_eq!(decode(b"{}"), None);
        assert_eq!(decode(&envelope("v1", "Unheard", b"")), None);
    }
}
