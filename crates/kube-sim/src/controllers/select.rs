//! Scheduling predicates: tolerations, affinity, quantities.

use serde_json::{Value, json};

use crate::object;
use crate::selector::LabelSelector;

/// Requested or allocatable resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) cpu_millis: u64,
    pub(super) memory: u64,
    pub(super) pods: u64,
}

impl Resources {
    pub(super) fn add(&mut self, other: &Self) {
        self.cpu_millis += other.cpu_millis;
        self.memory += other.memory;
        self.pods += other.pods;
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        self.cpu_millis = self.cpu_millis.saturating_sub(other.cpu_millis);
        self.memory = self.memory.saturating_sub(other.memory);
        self.pods = self.pods.saturating_sub(other.pods);
    }
}

/// A quantity in thousandths of its unit.
pub(super) fn quantity(value: &Value) -> u64 {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let factor: u64 = match unit {
        "m" => 1,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        _ => 1000,
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.parse::<u64>().unwrap_or(0).saturating_mul(factor);
    let scale = 10_u64.saturating_pow(u32::try_from(part.len()).unwrap_or(u32::MAX));
    let part = part.parse::<u64>().map_or(0, |part| part.saturating_mul(factor) / scale);
    whole.saturating_add(part)
}

/// Parses a resource list.
pub(super) fn resources(value: &Value) -> Resources {
    let of = |name: &str| value.get(name).map_or(0, quantity);
    Resources { cpu_millis: of("cpu"), memory: of("memory") / 1000, pods: of("pods") / 1000 }
}

/// What a pod requests: one pod slot, and its containers' resources.
pub(super) fn requests(pod: &Value) -> Resources {
    let mut sum = Resources { pods: 1, ..Resources::default() };
    for container in object::list(pod, &["spec", "containers"]) {
        if let Some(asked) = object::at(container, &["resources", "requests"]) {
            sum.add(&Resources { pods: 0, ..resources(asked) });
        }
    }
    sum
}

/// Whether a pod has ended.
pub(super) fn is_over(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&object::text(pod, &["status", "phase"]))
}

/// The owner that controls an object.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    object::list(object, &["metadata", "ownerReferences"])
        .iter()
        .find(|owner| object::flag(owner, &["controller"]))
}

/// Whether a label selector, which is an object, matches; a missing one
/// matches nothing, an empty one everything.
pub(super) fn matches(selector: Option<&Value>, object: &Value) -> bool {
    LabelSelector::of(selector).is_some_and(|selector| selector.matches(object))
}

/// Whether an object has all these labels.
pub(super) fn simple(wanted: &serde_json::Map<String, Value>, object: &Value) -> bool {
    wanted.iter().all(|(key, value)| object::label(object, key) == value.as_str())
}

/// Whether a pod's node selector and required node affinity match a node.
pub(super) fn wants_node(spec: &Value, node: &Value) -> bool {
    let selected = object::at(spec, &["nodeSelector"])
        .and_then(Value::as_object)
        .is_none_or(|wanted| simple(wanted, node));
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    selected
        && object::at(spec, &required).is_none_or(|required| {
            object::list(required, &["nodeSelectorTerms"]).iter().any(|term| {
                let labels = object::list(term, &["matchExpressions"]);
                let fields = object::list(term, &["matchFields"]);
                let name = json!({"metadata.name": object::name(node)});
                let fit = |expressions: &[Value], known: Option<&Value>| {
                    LabelSelector::of_expressions(expressions)
                        .is_some_and(|selector| selector.matches_labels(known))
                };
                (!labels.is_empty() || !fields.is_empty())
                    && fit(labels, object::at(node, &["metadata", "labels"]))
                    && fit(fields, Some(&name))
            })
        })
}

/// The single node that a pod's affinity names, if any.
pub(super) fn named_node(pod: &Value) -> Option<&str> {
    let required =
        ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let [term] = object::list(object::at(pod, &required)?, &["nodeSelectorTerms"]) else {
        return None;
    };
    let [field] = object::list(term, &["matchFields"]) else { return None };
    let [value] = object::list(field, &["values"]) else { return None };
    (object::text(field, &["operator"]) == "In").then_some(value.as_str()?)
}

/// The toleration that matches a taint, if any.
pub(super) fn toleration<'a>(tolerations: &'a [Value], taint: &Value) -> Option<&'a Value> {
    tolerations.iter().find(|toleration| {
        let field = |name: &str| object::text(toleration, &[name]);
        let key = object::text(taint, &["key"]);
        let effect = field("effect");
        (effect.is_empty() || effect == object::text(taint, &["effect"]))
            && if field("operator") == "Exists" {
                field("key").is_empty() || field("key") == key
            } else {
                field("key") == key && field("value") == object::text(taint, &["value"])
            }
    })
}

/// A number or a percentage of a whole.
pub(super) fn share(value: &Value, whole: i64, round_up: bool) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let part = percent.saturating_mul(whole);
            if round_up { part.saturating_add(99).div_euclid(100) } else { part.div_euclid(100) }
        }
        other => other.as_i64().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(quantity(&json!("100m")), 100);
        assert_eq!(quantity(&json!(2)), 2000);
        assert_eq!(quantity(&json!("1.5")), 1500);
        assert_eq!(quantity(&json!("1Ki")), 1_024_000);
        assert_eq!(share(&json!("25%"), 10, true), 3);
        assert_eq!(share(&json!("25%"), 10, false), 2);
        assert_eq!(share(&json!(4), 10, false), 4);
    }

    #[test]
    fn nodes_are_wanted() {
        let node = json!({"metadata": {"name": "n", "labels": {"zone": "a", "n": "5"}}});
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}})
        };
        let one = |key: &str, operator: &str, values: Value| json!([{"key": key, "operator": operator, "values": values}]);
        let labels = |key, operator, values| {
            affinity(json!({"matchExpressions": one(key, operator, values)}))
        };
        assert!(wants_node(&json!({}), &node));
        assert!(wants_node(&json!({"nodeSelector": {"zone": "a"}}), &node));
        assert!(!wants_node(&json!({"nodeSelector": {"zone": "b"}}), &node));
        assert!(wants_node(&labels("zone", "In", json!(["a", "b"])), &node));
        assert!(wants_node(&labels("n", "Gt", json!(["4"])), &node));
        assert!(!wants_node(&labels("n", "Lt", json!(["4"])), &node));
        assert!(!wants_node(&labels("zone", "DoesNotExist", json!([])), &node));
        assert!(!wants_node(&affinity(json!({})), &node));
        let named = |name: &str| {
            affinity(json!({"matchFields": one("metadata.name", "In", json!([name]))}))
        };
        assert!(wants_node(&named("n"), &node));
        assert!(!wants_node(&named("m"), &node));
    }

    #[test]
    fn taints() {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        assert!(toleration(&[json!({"operator": "Exists"})], &taint).is_some());
        assert!(toleration(&[json!({"key": "a", "operator": "Exists"})], &taint).is_some());
        assert!(toleration(&[json!({"key": "a"})], &taint).is_some());
        assert!(toleration(&[json!({"key": "a", "effect": "NoExecute"})], &taint).is_none());
        assert!(toleration(&[json!({"key": "b", "operator": "Exists"})], &taint).is_none());
    }
}
