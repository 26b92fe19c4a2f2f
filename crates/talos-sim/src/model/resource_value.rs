//! Values in resources: written once, returned as YAML text for talosctl and as protobuf's `Struct`
//! for typed clients.

use std::borrow::Cow;
use std::fmt::Write as _;

use prost_types::value::Kind;

/// A value with ordered keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ResourceValue {
    Bool(bool),
    Int(i64),
    Text(Cow<'static, str>),
    List(Vec<ResourceValue>),
    Map(Vec<(Cow<'static, str>, ResourceValue)>),
}

/// A map, in the order given.
pub(super) fn map<const N: usize>(entries: [(&'static str, ResourceValue); N]) -> ResourceValue {
    ResourceValue::Map(
        entries.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect(),
    )
}

/// A list.
pub(super) fn list<T: Into<ResourceValue>>(items: impl IntoIterator<Item = T>) -> ResourceValue {
    ResourceValue::List(items.into_iter().map(Into::into).collect())
}

/// A map without entries.
pub(super) fn empty() -> ResourceValue {
    ResourceValue::Map(Vec::new())
}

impl From<bool> for ResourceValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for ResourceValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&'static str> for ResourceValue {
    fn from(value: &'static str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for ResourceValue {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

/// Numbers are whole and nothing is null in what nodes hold.
impl From<serde_json::Value> for ResourceValue {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => empty(),
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Int(number.as_i64().unwrap_or_default()),
            Value::String(text) => Self::Text(Cow::Owned(text)),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(entries) => Self::Map(
                entries.into_iter().map(|(key, value)| (Cow::Owned(key), value.into())).collect(),
            ),
        }
    }
}

impl ResourceValue {
    /// YAML as Talos writes it: blocks, four spaces.
    pub(super) fn to_yaml(&self) -> String {
        let mut text = String::new();
        match self {
            Self::Map(entries) if !entries.is_empty() => write_map(&mut text, entries, 0),
            Self::List(items) if !items.is_empty() => write_list(&mut text, items, 0),
            scalar => {
                write_scalar(&mut text, scalar);
                text.push('\n');
            }
        }
        text
    }

    /// The protobuf form; its numbers are floating point.
    pub(super) fn to_struct(&self) -> prost_types::Struct {
        match self.to_proto().kind {
            Some(Kind::StructValue(value)) => value,
            _ => prost_types::Struct::default(),
        }
    }

    fn to_proto(&self) -> prost_types::Value {
        let kind = match self {
            Self::Bool(value) => Kind::BoolValue(*value),
            #[expect(clippy::cast_precision_loss, reason = "protobuf has no other numbers")]
            Self::Int(value) => Kind::NumberValue(*value as f64),
            Self::Text(text) => Kind::StringValue(text.to_string()),
            Self::List(items) => Kind::ListValue(prost_types::ListValue {
                values: items.iter().map(Self::to_proto).collect(),
            }),
            Self::Map(entries) => Kind::StructValue(prost_types::Struct {
                fields: entries
                    .iter()
                    .map(|(key, value)| (key.to_string(), value.to_proto()))
                    .collect(),
            }),
        };
        prost_types::Value { kind: Some(kind) }
    }
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("    ");
    }
}

fn write_map(text: &mut String, entries: &[(Cow<'static, str>, ResourceValue)], depth: usize) {
    for (at, (key, value)) in entries.iter().enumerate() {
        // The first key of a map inside a list is on the line of the dash.
        if at > 0 || text.is_empty() || text.ends_with('\n') {
            indent(text, depth);
        }
        write_text(text, key);
        text.push(':');
        match value {
            ResourceValue::Map(inner) if !inner.is_empty() => {
                text.push('\n');
                write_map(text, inner, depth + 1);
            }
            ResourceValue::List(items) if !items.is_empty() => {
                text.push('\n');
                write_list(text, items, depth + 1);
            }
            scalar => {
                text.push(' ');
                write_scalar(text, scalar);
                text.push('\n');
            }
        }
    }
}

fn write_list(text: &mut String, items: &[ResourceValue], depth: usize) {
    for item in items {
        indent(text, depth);
        text.push('-');
        match item {
            ResourceValue::Map(inner) if !inner.is_empty() => {
                // Two spaces of the four belong to the dash.
                text.push(' ');
                let mut inside = String::new();
                write_map(&mut inside, inner, 0);
                for (at, line) in inside.lines().enumerate() {
                    if at > 0 {
                        indent(text, depth);
                        text.push_str("  ");
                    }
                    text.push_str(line);
                    text.push('\n');
                }
            }
            ResourceValue::List(inner) if !inner.is_empty() => {
                text.push('\n');
                write_list(text, inner, depth + 1);
            }
            scalar => {
                text.push(' ');
                write_scalar(text, scalar);
                text.push('\n');
            }
        }
    }
}

fn write_scalar(text: &mut String, value: &ResourceValue) {
    match value {
        ResourceValue::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        ResourceValue::Int(value) => {
            let _ = write!(text, "{value}");
        }
        ResourceValue::Text(value) => write_text(text, value),
        ResourceValue::List(_) => text.push_str("[]"),
        ResourceValue::Map(_) => text.push_str("{}"),
    }
}

/// Unquoted where that is safe, otherwise in double quotes.
fn write_text(text: &mut String, value: &str) {
    let looks_like_something_else = value.is_empty()
        || value.parse::<f64>().is_ok()
        || matches!(
            value.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n" | "~"
        )
        || value.starts_with([' ', '-', '?', ':', '{', '}', '[', ']', ',', '#', '&', '*', '!'])
        || value.starts_with(['|', '>', '\'', '"', '%', '@', '`', '0'])
        || value.ends_with([' ', ':'])
        || value.contains(": ")
        || value.contains(" #")
        || value.chars().any(char::is_control);
    // Flags such as `--a=b` are safe although they begin with a dash.
    if looks_like_something_else && !value.starts_with("--") {
        let _ = write!(text, "{}", serde_json::Value::from(value));
    } else {
        text.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_that_of_a_real_node() {
        let member = map([
            ("nodeId", "n1".into()),
            ("addresses", list(["10.5.0.2", "fd00::2"])),
            ("hostname", "cp-1".into()),
            ("controlPlane", map([("port", 6443.into())])),
        ]);
        assert_eq!(
            member.to_yaml(),
            "nodeId: n1\naddresses:\n    - 10.5.0.2\n    - fd00::2\nhostname: cp-1\n\
             controlPlane:\n    port: 6443\n"
        );
        let status = map([
            ("stage", "running".into()),
            (
                "status",
                map([
                    ("ready", false.into()),
                    (
                        "unmetConditions",
                        ResourceValue::List(vec![map([
                            ("name", "nodeReady".into()),
                            ("reason", "node is not ready".into()),
                        ])]),
                    ),
                ]),
            ),
        ]);
        assert_eq!(
            status.to_yaml(),
            "stage: running\nstatus:\n    ready: false\n    unmetConditions:\n        \
             - name: nodeReady\n          reason: node is not ready\n"
        );
        assert_eq!(ResourceValue::from("worker").to_yaml(), "worker\n");
        assert_eq!(
            ResourceValue::List(vec![map([("kind", "ConfigMap".into())])]).to_yaml(),
            "- kind: ConfigMap\n"
        );
        assert_eq!(map([("version", "376567".into())]).to_yaml(), "version: \"376567\"\n");
        assert_eq!(empty().to_yaml(), "{}\n");
    }

    #[test]
    fn written_values_are_read_back() {
        let deep = map([
            (
                "a",
                ResourceValue::List(vec![map([
                    ("x", list(["--a=b", "true", "0123", "a: b", "", "- c"])),
                    ("y", map([("z", "line\nbreak".into())])),
                ])]),
            ),
            ("b", empty()),
            ("c", ResourceValue::List(vec![])),
        ]);
        let read: serde_json::Value = serde_saphyr::from_str(&deep.to_yaml()).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "a": [{"x": ["--a=b", "true", "0123", "a: b", "", "- c"], "y": {"z": "line\nbreak"}}],
                "b": {},
                "c": []
            })
        );
    }
}
