//! Label selectors, as Kubernetes writes them (`matchLabels`, `matchExpressions`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A label selector in JSON form. An empty one selects everything; one that is not an
/// object, such as `null`, selects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabelSelector(pub Value);

impl LabelSelector {
    /// Whether it selects an object with these labels. A requirement with an unknown
    /// operator is taken as met: it is better to name one pod too many.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let Self(selector) = self;
        if !selector.is_object() {
            return false;
        }
        let equal = selector["matchLabels"].as_object().into_iter().flatten();
        let mut equal =
            equal.map(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
        let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
        equal.all(|fits| fits) && expressions.all(|expression| fits(expression, labels))
    }
}

fn fits(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let found = labels.get(expression["key"].as_str().unwrap_or_default());
    let values = expression["values"].as_array().into_iter().flatten();
    let listed =
        found.is_some_and(|found| values.filter_map(Value::as_str).any(|value| value == found));
    match expression["operator"].as_str() {
        Some("In") => listed,
        Some("NotIn") => !listed,
        Some("Exists") => found.is_some(),
        Some("DoesNotExist") => found.is_none(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select_as_kubernetes_does() {
        let labels = [("app", "web"), ("tier", "front")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let expressions = json!({"matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]},
            {"key": "canary", "operator": "DoesNotExist"},
            {"key": "app", "operator": "Exists"},
            {"key": "zone", "operator": "NotIn", "values": ["a"]},
        ]});
        let not_in = json!({"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["web"]},
        ]});
        for (selector, matches) in [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "web", "tier": "back"}}), false),
            (expressions, true),
            (not_in, false),
        ] {
            let selector = LabelSelector(selector);
            assert_eq!(selector.matches(&labels), matches, "{}", selector.0);
        }
    }
}
