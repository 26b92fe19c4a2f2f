//! Selectors: by labels, by fields, and the `LabelSelector` of objects.

use serde_json::Value;

use crate::names::ResourceName;
use crate::object;
use crate::status::Status;

/// One condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
    /// A number above or below another.
    Above(String, i64),
    Below(String, i64),
}

/// Conditions on labels, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Whether it selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `app=web,tier in (a,b),!old`.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut requirements = Vec::new();
        for part in split(text) {
            requirements.push(requirement(part.trim())?);
        }
        Ok(Self(requirements))
    }

    /// Parses the selector of an object. A missing selector selects nothing; an empty one selects
    /// everything.
    pub fn of(selector: Option<&Value>) -> Option<Self> {
        let selector = selector.filter(|selector| !selector.is_null())?;
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::In(key.clone(), vec![value]));
        }
        let expressions = object::list(selector, &["matchExpressions"]);
        requirements.extend(Self::of_expressions(expressions)?.0);
        Some(Self(requirements))
    }

    /// Parses a list of expressions; `None` if one of them is invalid.
    pub(crate) fn of_expressions(expressions: &[Value]) -> Option<Self> {
        let mut requirements = Vec::new();
        for expression in expressions {
            let key = object::text(expression, &["key"]).to_owned();
            let values: Vec<String> = object::list(expression, &["values"])
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let limit = || values.first().and_then(|text| text.parse().ok());
            requirements.push(match object::text(expression, &["operator"]) {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::Missing(key),
                "Gt" => Requirement::Above(key, limit()?),
                "Lt" => Requirement::Below(key, limit()?),
                _ => return None,
            });
        }
        Some(Self(requirements))
    }

    /// Whether an object's labels match.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object::at(object, &["metadata", "labels"]))
    }

    /// Whether these labels match.
    pub fn matches_labels(&self, labels: Option<&Value>) -> bool {
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        let number = |key: &str| label(key).and_then(|text| text.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => {
                label(key).is_some_and(|found| values.iter().any(|value| value == found))
            }
            Requirement::NotIn(key, values) => {
                label(key).is_none_or(|found| values.iter().all(|value| value != found))
            }
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Missing(key) => label(key).is_none(),
            Requirement::Above(key, limit) => number(key).is_some_and(|found| found > *limit),
            Requirement::Below(key, limit) => number(key).is_some_and(|found| found < *limit),
        })
    }
}

/// The parts between commas that are not in parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn requirement(part: &str) -> Result<Requirement, Status> {
    let bad = |what: &str| Status::bad_request(format!("unable to parse requirement: {what}"));
    let key = |text: &str| {
        let text = text.trim();
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        if !text.is_empty() && text.chars().all(fine) {
            Ok(text.to_owned())
        } else {
            Err(bad(&format!("found '{text}', expected: identifier")))
        }
    };
    if let Some(rest) = part.strip_prefix('!') {
        return Ok(Requirement::Missing(key(rest)?));
    }
    if let Some((left, right)) = part.split_once('(') {
        let Some(list) = right.strip_suffix(')') else { return Err(bad("expected: ')'")) };
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        let left = left.trim_end();
        if let Some(name) = left.strip_suffix(" notin") {
            return Ok(Requirement::NotIn(key(name)?, values));
        }
        if let Some(name) = left.strip_suffix(" in") {
            return Ok(Requirement::In(key(name)?, values));
        }
        return Err(bad("found '(', expected: identifier"));
    }
    if let Some((left, right)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key(left)?, vec![right.trim().to_owned()]));
    }
    if let Some((left, right)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key(left)?, vec![right.trim().to_owned()]));
    }
    for (sign, above) in [('>', true), ('<', false)] {
        if let Some((left, right)) = part.split_once(sign) {
            let limit = right
                .trim()
                .parse()
                .map_err(|_| bad("for 'Gt', 'Lt' operators, the value must be an integer"))?;
            let key = key(left)?;
            return Ok(if above {
                Requirement::Above(key, limit)
            } else {
                Requirement::Below(key, limit)
            });
        }
    }
    let words: Vec<&str> = part.split_whitespace().collect();
    match words.as_slice() {
        [_, "in" | "notin", other, ..] => Err(bad(&format!("found '{other}' expected: '('"))),
        [_, other, ..] => {
            Err(bad(&format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")))
        }
        _ => Ok(Requirement::Exists(key(part)?)),
    }
}

/// Conditions on fields, all of which must hold: the field, the value to compare with, and whether
/// it must be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(String, String, bool)>);

/// The fields that a resource can be selected by.
fn selectable(resource: &ResourceName, custom: &[String]) -> Vec<String> {
    let own: &[&str] = match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    };
    let always = ["metadata.name", "metadata.namespace"];
    always
        .iter()
        .chain(own)
        .map(|field| (*field).to_owned())
        .chain(custom.iter().cloned())
        .collect()
}

impl FieldSelector {
    /// Whether it selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses `spec.nodeName=a,status.phase!=Failed` for a resource; `custom` are the additional
    /// fields of its definition.
    pub fn parse(text: &str, resource: &ResourceName, custom: &[String]) -> Result<Self, Status> {
        let known = selectable(resource, custom);
        let mut conditions = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (field, value, equal) = if let Some((field, value)) = part.split_once("!=") {
                (field, value, false)
            } else if let Some((field, value)) =
                part.split_once("==").or_else(|| part.split_once('='))
            {
                (field, value, true)
            } else {
                let message = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(Status::bad_request(message));
            };
            if !known.iter().any(|known| known == field) {
                let message = if known.len() > 2 {
                    format!("field label not supported: {field}")
                } else {
                    format!(
                        "{field:?} is not a known field selector: only \"metadata.name\", \
                         \"metadata.namespace\""
                    )
                };
                return Err(Status::bad_request(message));
            }
            conditions.push((field.to_owned(), value.to_owned(), equal));
        }
        Ok(Self(conditions))
    }

    /// Whether an object matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(field, wanted, equal)| (field_text(object, field) == *wanted) == *equal)
    }
}

/// A field's value for comparison with a selector.
fn field_text(object: &Value, field: &str) -> String {
    let path: Vec<&str> = match field {
        "source" => vec!["source", "component"],
        "status.successful" => vec!["status", "succeeded"],
        _ => field.split('.').collect(),
    };
    match object::at(object, &path) {
        None | Some(Value::Null) => {
            let number = ["status.replicas", "status.successful"].contains(&field);
            let flag = ["spec.unschedulable", "spec.hostNetwork"].contains(&field);
            if number {
                "0".to_owned()
            } else if flag {
                "false".to_owned()
            } else {
                String::new()
            }
        }
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{EVENTS, NODES, PODS};
    use serde_json::json;

    #[test]
    fn labels() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "a", "n": "5"}}});
        for (text, wanted) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier in (a, b)", true),
            ("app!=web", false),
            ("other!=x", true),
            ("tier notin (a)", false),
            ("app,!old", true),
            ("n>4,n<6", true),
            ("n>5", false),
            ("app=", false),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&object), wanted, "{text}");
        }
        for text in ["a=((", "a b", "in (a)", "n>x"] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().code, 400, "{text}");
        }
    }

    #[test]
    fn selectors_of_objects() {
        let object = json!({"metadata": {"labels": {"app": "web"}}});
        let selects =
            |selector: Value| LabelSelector::of(Some(&selector)).map(|s| s.matches(&object));
        assert_eq!(selects(json!({})), Some(true));
        assert_eq!(selects(json!({"matchLabels": {"app": "x"}})), Some(false));
        let expression = json!({"key": "app", "operator": "In", "values": ["web"]});
        assert_eq!(selects(json!({"matchExpressions": [expression]})), Some(true));
        assert_eq!(selects(Value::Null), None);
    }

    #[test]
    fn fields() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let selects = |text: &str| FieldSelector::parse(text, &PODS, &[]).unwrap().matches(&pod);
        assert!(selects("spec.nodeName=n,status.phase!=Failed,status.phase!=Succeeded"));
        assert!(!selects("metadata.name=b"));
        let error = FieldSelector::parse("foo=1", &PODS, &[]).unwrap_err();
        assert_eq!(error.message, "field label not supported: foo");
        let node = json!({"spec": {}});
        let selector = FieldSelector::parse("spec.unschedulable=false", &NODES, &[]).unwrap();
        assert!(selector.matches(&node));
        assert!(FieldSelector::parse("involvedObject.uid=1,type=Normal", &EVENTS, &[]).is_ok());
    }
}
