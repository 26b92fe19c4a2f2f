//! The YAML document of a profile.

use serde_json::{Map, Number, Value as Json};
use talos_machine_config::yaml::{self, Node, ScalarStyle, Value, YamlError};

use super::problem::Problem;

/// Deeper than any profile.
const DEEPEST: usize = 32;

/// A name and its value.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) line: usize,
    pub(super) node: &'a Node,
}

/// Reads the one document of a file; `None` if there is nothing in it.
pub(super) fn parse(text: &str) -> Result<Option<Node>, Problem> {
    let mut documents = yaml::parse(text).map_err(problem)?.into_iter();
    let Some(root) = documents.next() else { return Ok(None) };
    if let Some(second) = documents.next() {
        return Err(Problem::new(
            second.line,
            "a second document starts here",
            "keep one cluster in one file",
        ));
    }
    validate(&root, 0)?;
    Ok(Some(root))
}

fn problem(error: YamlError) -> Problem {
    match error {
        YamlError::Syntax { line, what } => Problem::new(
            line,
            format!("this is not YAML: {what}"),
            "correct the file; an editor that knows YAML shows the place",
        ),
        YamlError::Duplicate { line, key } => {
            Problem::new(line, format!("`{key}` appears twice"), "remove one of them")
        }
        YamlError::TooDeep { line } => too_deep(line),
    }
}

fn too_deep(line: usize) -> Problem {
    Problem::new(line, "this is nested too deeply", "write it flatter")
}

/// A profile needs no aliases and no keys but names.
fn validate(node: &Node, depth: usize) -> Result<(), Problem> {
    if depth > DEEPEST {
        return Err(too_deep(node.line));
    }
    match &node.value {
        Value::Scalar { .. } => Ok(()),
        Value::Alias => Err(Problem::new(
            node.line,
            "anchors and aliases are not supported here",
            "write the value out",
        )),
        Value::Sequence(items) => items.iter().try_for_each(|item| validate(item, depth + 1)),
        Value::Mapping { entries, .. } => entries.iter().try_for_each(|(key, value)| {
            if key.text().is_none() {
                let what = "the name of a field is missing here";
                return Err(Problem::new(key.line, what, "write `name: value`"));
            }
            validate(value, depth + 1)
        }),
    }
}

/// The fields of a node, in the order of the file; `None` if it is something else.
pub(super) fn fields(node: &Node) -> Option<Vec<Field<'_>>> {
    let Value::Mapping { entries, .. } = &node.value else { return None };
    let fields = entries
        .iter()
        .filter_map(|(key, node)| key.text().map(|name| Field { name, line: key.line, node }));
    Some(fields.collect())
}

/// What a node is called in a message.
pub(super) const fn kind(node: &Node) -> &'static str {
    match node.value {
        Value::Scalar { .. } | Value::Alias => "a single value",
        Value::Sequence(_) => "a list",
        Value::Mapping { .. } => "fields",
    }
}

/// A node as JSON, by YAML's core schema.
pub(super) fn json(node: &Node) -> Json {
    match &node.value {
        Value::Scalar { .. } if node.is_null() => Json::Null,
        Value::Scalar { text, style: ScalarStyle::Plain } => plain(text),
        Value::Scalar { text, .. } => Json::String(text.clone()),
        // `parse` refuses it.
        Value::Alias => Json::Null,
        Value::Sequence(items) => items.iter().map(json).collect(),
        Value::Mapping { .. } => {
            let fields = fields(node).unwrap_or_default().into_iter();
            Json::Object(
                fields.map(|it| (it.name.to_owned(), json(it.node))).collect::<Map<_, _>>(),
            )
        }
    }
}

fn plain(text: &str) -> Json {
    match text {
        "true" | "True" | "TRUE" => return Json::Bool(true),
        "false" | "False" | "FALSE" => return Json::Bool(false),
        _ => {}
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Json::from(whole);
    }
    let looks_like_a_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let float = looks_like_a_number.then(|| text.parse::<f64>().ok()).flatten();
    float.and_then(Number::from_f64).map_or_else(|| Json::String(text.to_owned()), Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_follow_the_core_schema() {
        let text = "a: 1\nb: \"1\"\nc: 1.12.11\nd: true\ne:\nf: 25%\ng: [1, x]\nh: 1.5\n";
        let root = parse(text).ok().flatten().unwrap();
        assert_eq!(
            json(&root),
            serde_json::json!({"a": 1, "b": "1", "c": "1.12.11", "d": true, "e": null,
                "f": "25%", "g": [1, "x"], "h": 1.5})
        );
    }

    #[test]
    fn a_problem_has_its_line() {
        for (text, line, what) in [
            ("a: 1\na: 2\n", 2, "twice"),
            ("a: &x 1\nb: *x\n", 2, "aliases"),
            ("a: 1\n---\nb: 2\n", 3, "second document"),
            ("[a]: 1\n", 1, "name of a field"),
            ("a: [1\n", 1, "not YAML"),
            ("a: 1\n\tb: 2\n", 1, "not YAML"),
        ] {
            let problem = parse(text).err().unwrap();
            assert!(problem.what.contains(what), "{text:?}: {problem:?}");
            assert_eq!(problem.line, line, "{text:?}: {problem:?}");
        }
        assert!(parse("# nothing\n").is_ok_and(|root| root.is_none()));
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(parse(&deep).err().unwrap().what.contains("deep"));
    }
}
