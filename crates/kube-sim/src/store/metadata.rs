//! Validation of metadata: names, labels, finalizers and owners.

use serde_json::{Value, json};

use crate::object;
use crate::status::Cause;
use crate::types::ResourceType;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, \
    '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
    'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Validates names, which become part of paths, and labels, which selectors use.
pub(super) fn check_metadata(kind: &ResourceType, new: &Value, causes: &mut Vec<Cause>) {
    let name = object::name(new);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if kind.name.group == "rbac.authorization.k8s.io" {
        if name == "." || name == ".." || name.contains(['/', '%']) {
            let why = "may not contain '/' or '%'";
            causes.push(Cause::invalid("metadata.name", &json!(name), why));
        }
    } else {
        if name.len() > 253 {
            let why = "must be no more than 253 characters";
            causes.push(Cause::invalid("metadata.name", &json!(name), why));
        }
        if !is_subdomain(name) {
            causes.push(Cause::invalid("metadata.name", &json!(name), SUBDOMAIN));
        }
    }
    for (key, value) in entries(new, "labels") {
        check_key("metadata.labels", key, key, causes);
        let value = value.as_str().unwrap_or_default();
        if value.len() > 63 {
            let why = "must be no more than 63 characters";
            causes.push(Cause::invalid("metadata.labels", &json!(value), why));
        }
        if !value.is_empty() && !is_word(value) {
            causes.push(Cause::invalid("metadata.labels", &json!(value), LABEL));
        }
    }
    for (key, _) in entries(new, "annotations") {
        check_key("metadata.annotations", key, &key.to_lowercase(), causes);
    }
    check_owners(new, causes);
    if kind.definition.is_none() {
        let finalizers = object::list(new, &["metadata", "finalizers"]);
        for (index, name) in finalizers.iter().enumerate() {
            let text = name.as_str().unwrap_or_default();
            if !text.contains('/')
                && !["orphan", "foregroundDeletion", "kubernetes"].contains(&text)
            {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                let field = format!("metadata.finalizers[{index}]");
                causes.push(Cause::invalid(&field, name, why));
            }
        }
    }
}

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object::at(object, &["metadata", field]).and_then(Value::as_object).into_iter().flatten()
}

fn check_owners(new: &Value, causes: &mut Vec<Cause>) {
    let path = "metadata.ownerReferences";
    for owner in object::list(new, &["metadata", "ownerReferences"]) {
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if object::text(owner, &[field]).is_empty() {
                causes.push(Cause::invalid(&format!("{path}.{field}"), &json!(""), why));
            }
        }
    }
}

/// Validates changes of metadata during deletion.
pub(super) fn check_metadata_update(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    if !object::is_deleting(old) {
        return;
    }
    let before = object::list(old, &["metadata", "finalizers"]);
    let added: Vec<String> = object::list(new, &["metadata", "finalizers"])
        .iter()
        .filter(|name| !before.contains(name))
        .map(ToString::to_string)
        .collect();
    if !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            added.join(", ")
        );
        // Both the common rules and those of the kind find it.
        let cause = Cause::forbidden("metadata.finalizers", &why);
        causes.extend([cause.clone(), cause]);
    }
}

/// Validates a name with an optional domain prefix. `shown` is the caller's spelling.
fn check_key(field: &str, shown: &str, key: &str, causes: &mut Vec<Cause>) {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(a, b)| (Some(a), b));
    let mut wrong = |why: &str| causes.push(Cause::invalid(field, &json!(shown), why));
    if let Some(prefix) = prefix
        && !is_subdomain(prefix)
    {
        wrong(&format!("prefix part {SUBDOMAIN}"));
    }
    if name.is_empty() {
        wrong("name part must be non-empty");
    } else if name.len() > 63 {
        wrong("name part must be no more than 63 characters");
    }
    if !is_word(name) {
        wrong(NAME_PART);
    }
}

/// Whether the text is a name part: letters and digits, with `-_.` between them.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(|part| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|byte| inner(*byte))
            && bytes.last().is_some_and(|byte| inner(*byte))
            && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
    })
}
