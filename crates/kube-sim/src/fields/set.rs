//! Sets of fields in the format of `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::{ListType, Schema};

/// A tree of steps: `f:name` to a map field, `k:{...}` to the item with these keys, `v:...` to the
/// item with this value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Whether this path is in the set, not only what is below it.
    pub(crate) member: bool,
    pub(crate) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub(crate) fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    fn tidy(mut self) -> Self {
        self.children.retain(|_, child| !child.is_empty());
        self
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.member |= other.member;
        for (step, child) in &other.children {
            let merged =
                result.children.get(step).map_or_else(|| child.clone(), |own| own.union(child));
            result.children.insert(step.clone(), merged);
        }
        result
    }

    /// Whether both sets have a common member.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.member && other.member
            || self.children.iter().any(|(step, child)| {
                other.children.get(step).is_some_and(|other| child.meets(other))
            })
    }

    /// Whether all members are in a set in `managedFields` format. There, every path with nothing
    /// below it is a member, except the root.
    pub(crate) fn is_covered_by(&self, other: &Value, root: bool) -> bool {
        (!self.member || is_member(other, root))
            && self.children.iter().all(|(step, child)| {
                other.get(step).is_some_and(|other| child.is_covered_by(other, false))
            })
    }

    /// Whether it has a common member with such a set.
    pub(crate) fn is_met_by(&self, other: &Value, root: bool) -> bool {
        self.member && is_member(other, root)
            || self.children.iter().any(|(step, child)| {
                other.get(step).is_some_and(|other| child.is_met_by(other, false))
            })
    }

    /// Whether all members of the other are in this.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        (self.member || !other.member)
            && other
                .children
                .iter()
                .all(|(step, child)| self.children.get(step).is_some_and(|own| own.covers(child)))
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        let child = |(step, child): (&String, &Self)| {
            let rest = match other.children.get(step) {
                Some(gone) => child.difference(gone),
                None => child.clone(),
            };
            (step.clone(), rest)
        };
        let member = self.member && !other.member;
        Self { member, children: self.children.iter().map(child).collect() }.tidy()
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let child = |(step, child): (&String, &Self)| {
            Some((step.clone(), child.intersection(other.children.get(step)?)))
        };
        let member = self.member && other.member;
        Self { member, children: self.children.iter().filter_map(child).collect() }.tidy()
    }

    /// The paths of all members.
    pub(crate) fn paths(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, way: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
        if self.member && !way.is_empty() {
            paths.push(way.clone());
        }
        for (step, child) in &self.children {
            way.push(step.clone());
            child.collect(way, paths);
            way.pop();
        }
    }

    pub(crate) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |set, step| set.children.get(step))
    }

    pub(crate) fn remove(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => drop(self.children.remove(*last)),
            [first, rest @ ..] => {
                if let Some(child) = self.children.get_mut(*first) {
                    child.remove(rest);
                    if child.is_empty() {
                        self.children.remove(*first);
                    }
                }
            }
        }
    }

    pub(crate) fn from_value(value: &Value) -> Self {
        let mut set = Self::default();
        if let Value::Object(map) = value {
            for (step, child) in map {
                if step == "." {
                    set.member = true;
                } else {
                    let mut inner = Self::from_value(child);
                    inner.member |= inner.children.is_empty();
                    set.children.insert(step.clone(), inner);
                }
            }
        }
        set
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (step, child) in &self.children {
            let mut inner = child.to_value();
            if child.member
                && !child.children.is_empty()
                && let Value::Object(inner) = &mut inner
            {
                inner.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(step.clone(), inner);
        }
        Value::Object(map)
    }

    /// The fields of an applied configuration.
    pub(crate) fn of(value: &Value, schema: Schema<'_>) -> Self {
        let mut set = Self::default();
        match parts(value, schema) {
            None => set.member = true,
            Some(parts) => {
                set.member = parts.is_empty();
                for (step, item, inner) in parts {
                    let mut child = Self::of(item, inner);
                    child.member |= !step.starts_with("f:");
                    set.children.insert(step, child);
                }
            }
        }
        set
    }
}

/// Whether a path of a set in `managedFields` format is a member itself.
fn is_member(set: &Value, root: bool) -> bool {
    let map = set.as_object();
    map.is_some_and(|map| map.contains_key("."))
        || !root && map.is_none_or(serde_json::Map::is_empty)
}

/// The step to an item of a list.
pub(crate) fn item_step(item: &Value, list: &ListType, items: Schema<'_>) -> Option<String> {
    match list {
        ListType::Atomic => None,
        ListType::Set => Some(format!("v:{item}")),
        ListType::Map(keys) => {
            let mut map = Map::new();
            for key in keys {
                let value = item.get(key).or_else(|| items.field(key).default());
                if let Some(value) = value {
                    map.insert(key.clone(), value.clone());
                }
            }
            Some(format!("k:{}", Value::Object(map)))
        }
    }
}

/// The parts of a value that are owned separately; `None` if the value is owned as a whole.
pub(crate) fn parts<'a, 's>(
    value: &'a Value,
    schema: Schema<'s>,
) -> Option<Vec<(String, &'a Value, Schema<'s>)>> {
    match value {
        Value::Object(map) if !schema.is_atomic() => Some(
            map.iter()
                .map(|(field, value)| (format!("f:{field}"), value, schema.field(field)))
                .collect(),
        ),
        Value::Array(items) => {
            let list = schema.list_type();
            let inner = schema.items();
            items
                .iter()
                .map(|item| Some((item_step(item, &list, inner)?, item, inner)))
                .collect::<Option<Vec<_>>>()
                .filter(|_| list != ListType::Atomic)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Types;
    use serde_json::json;

    #[test]
    fn a_pod_s_field_set_survives_a_round_trip() {
        let types = Types::default();
        let pods = types.find("", "v1", "pods").unwrap();
        let pod = json!({
            "metadata": {"labels": {"a": "b"}, "finalizers": ["x"]},
            "spec": {
                "nodeSelector": {"a": "b"},
                "containers": [{"name": "c", "args": ["1"], "ports": [{"containerPort": 80}]}],
            },
        });
        let set = FieldSet::of(&pod, Schema::of(pods));
        let value = set.to_value();
        assert_eq!(
            value,
            json!({
                "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"x\"": {}}},
                "f:spec": {
                    "f:nodeSelector": {},
                    "f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:name": {}, "f:args": {},
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                            ".": {}, "f:containerPort": {},
                        }},
                    }},
                },
            })
        );
        assert_eq!(FieldSet::from_value(&value), set);
    }

    #[test]
    fn set_operations_hold() {
        let one = FieldSet::from_value(&json!({"f:a": {}, "f:b": {"f:c": {}, ".": {}}}));
        let two = FieldSet::from_value(&json!({"f:b": {"f:c": {}}, "f:d": {}}));
        assert_eq!(one.union(&two).difference(&two), one.difference(&two));
        assert_eq!(one.intersection(&two).to_value(), json!({"f:b": {"f:c": {}}}));
        assert_eq!(one.difference(&two).to_value(), json!({"f:a": {}, "f:b": {}}));
        assert_eq!(one.paths().len(), 3);
        assert!(one.meets(&two) && !one.covers(&two) && one.union(&two).covers(&two));
        assert!(!one.difference(&two).meets(&two));
        for (set, other) in [(&one, &two), (&two, &one), (&one, &one.union(&two))] {
            let written = other.to_value();
            assert_eq!(set.is_met_by(&written, true), set.meets(other));
            assert_eq!(set.is_covered_by(&written, true), other.covers(set));
        }
    }
}
