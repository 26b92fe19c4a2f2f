//! Normalises values that must differ between two servers, and compares the remaining differences
//! with the table.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::differences::Difference;
use super::talk::Spoken;

/// Compares two conversations. Every difference must be in the table, and every entry of the table
/// must be a difference.
pub(crate) fn compare(real: &[Spoken], embedded: &[Spoken], table: &[Difference]) {
    let steps = |spoken: &[Spoken]| -> Vec<String> {
        spoken.iter().map(|spoken| spoken.step.clone()).collect()
    };
    assert_eq!(steps(real), steps(embedded));
    let mut report = String::new();
    let mut used = BTreeSet::new();
    for (one, other) in real.iter().zip(embedded) {
        let (one_answer, other_answer) = (normal(&one.answer), normal(&other.answer));
        let mut found = Vec::new();
        differ(&one_answer, &other_answer, String::new(), &mut found);
        for (path, one_value, other_value) in found {
            let known = table.iter().position(|known| known.covers(&one.step, &path));
            if let Some(known) = known {
                used.insert(known);
                continue;
            }
            let _ = writeln!(
                report,
                "{}\n  {path}\n  real:     {one_value}\n  embedded: {other_value}",
                one.step
            );
        }
    }
    for (index, known) in table.iter().enumerate() {
        if !used.contains(&index) {
            let Difference { step, place, reason } = known;
            let _ = writeln!(report, "no difference any more: {step}, {place} ({reason})");
        }
    }
    assert!(report.is_empty(), "{report}");
}

/// The paths at which two values differ.
fn differ(one: &Value, other: &Value, path: String, found: &mut Vec<(String, String, String)>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let none = Value::Null;
                let deeper = format!("{path}/{key}");
                differ(a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none), deeper, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differ(a, b, format!("{path}/{index}"), found);
            }
        }
        _ if one == other => {}
        _ => found.push((path, one.to_string(), other.to_string())),
    }
}

/// A value without the parts that differ in every cluster.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, inner)| {
                let inner = match (key.as_str(), inner) {
                    ("uid", Value::String(text)) if !text.is_empty() => "<uid>".into(),
                    ("resourceVersion", Value::String(text)) if !text.is_empty() => {
                        "<version>".into()
                    }
                    ("continue", Value::String(text)) if !text.is_empty() => "<token>".into(),
                    ("managedFields", Value::Array(entries)) => {
                        // Entries of the same second have no order.
                        let mut entries: Vec<Value> = entries.iter().map(normal).collect();
                        entries.sort_by_key(|entry| {
                            ["manager", "operation", "subresource"]
                                .map(|field| entry[field].as_str().unwrap_or_default().to_owned())
                        });
                        Value::Array(entries)
                    }
                    (_, inner) => normal(inner),
                };
                (key.clone(), inner)
            })
            .collect(),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::String(text) => Value::String(normal_text(text)),
        other => other.clone(),
    }
}

fn normal_text(text: &str) -> String {
    if is_time(text) {
        return "<time>".to_owned();
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..4).contains(&digits) && ["s", "m", "h"].contains(&&text[digits..]) {
        return "<age>".to_owned();
    }
    if text.to_lowercase().contains("resource version") {
        return text
            .chars()
            .map(|c| if c.is_ascii_digit() { '#' } else { c })
            .collect::<String>()
            .replace("##", "#")
            .replace("##", "#");
    }
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let bare = |word: &str| word.trim_matches(['(', ')', '.', ',', '"']).to_owned();
    text.split(' ')
        .map(
            |word| {
                if is_id(&bare(word)) {
                    word.replace(&bare(word), "<uid>")
                } else {
                    word.to_owned()
                }
            },
        )
        .collect::<Vec<_>>()
        .join(" ")
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes.last() == Some(&b'Z')
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && bytes[..4].iter().all(u8::is_ascii_digit)
}
