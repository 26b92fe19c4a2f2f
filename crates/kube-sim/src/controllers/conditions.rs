//! Status conditions.

use serde_json::{Value, json};

use crate::object;
use crate::time::Time;

/// A condition of an object.
pub(crate) fn get<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object::list(object, &["status", "conditions"])
        .iter()
        .find(|condition| object::text(condition, &["type"]) == kind)
}

/// Whether a condition is present and true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    get(object, kind).is_some_and(|condition| object::text(condition, &["status"]) == "True")
}

/// When a condition last changed.
pub(crate) fn since(object: &Value, kind: &str) -> Option<Time> {
    Time::from_text(object::text(get(object, kind)?, &["lastTransitionTime"]))
}

/// Sets a condition. If the status does not change, the transition time stays; so does every field
/// that is not set here.
pub(crate) fn put(
    conditions: &mut Vec<Value>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Time,
) -> bool {
    let index = conditions.iter().position(|known| object::text(known, &["type"]) == kind);
    let index = index.unwrap_or_else(|| {
        conditions.push(json!({"type": kind}));
        conditions.len() - 1
    });
    let condition = &mut conditions[index];
    let before = condition.clone();
    if object::text(condition, &["status"]) != status {
        object::set(condition, &["lastTransitionTime"], now.to_text());
    }
    object::set(condition, &["status"], status);
    for (field, value) in [("reason", reason), ("message", message)] {
        if value.is_empty() {
            object::remove(condition, &[field]);
        } else {
            object::set(condition, &[field], value);
        }
    }
    *condition != before
}
