//! YAML as a tree whose parts know where they stand, so that every problem has
//! a line and a value can be replaced without touching anything around it.

use std::ops::Range;

use serde_json::{Map, Number, Value as Json};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::problem::Problem;

/// Deeper than any profile; a guard against a file made to exhaust the stack.
const DEEPEST: usize = 32;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// From 1.
    pub(super) line: usize,
    /// In bytes, quotes included.
    pub(super) span: Range<usize>,
    /// What stands there.
    pub(super) value: Value,
}

/// What stands in a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Text; plain if it was written without quotes, and may mean a number.
    Scalar { text: String, plain: bool },
    /// A list.
    List(Vec<Node>),
    /// Fields in the order of the file.
    Map(Vec<Field>),
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Node {
    /// What it is called in a message.
    pub(super) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Scalar { .. } => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "fields",
        }
    }

    /// Whether nothing was written, or `null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The same as JSON, by YAML's core schema.
    pub(super) fn json(&self) -> Json {
        match &self.value {
            Value::Scalar { .. } if self.is_null() => Json::Null,
            Value::Scalar { text, plain: true } => plain(text),
            Value::Scalar { text, plain: false } => Json::String(text.clone()),
            Value::List(items) => items.iter().map(Node::json).collect(),
            Value::Map(fields) => {
                let fields = fields.iter().map(|field| (field.name.clone(), field.node.json()));
                Json::Object(fields.collect::<Map<_, _>>())
            }
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

/// Reads the one document of a file; `None` if there is nothing in it.
pub(super) fn parse(text: &str) -> Result<Option<Node>, Problem> {
    let mut reader = Reader { parser: Parser::new_from_str(text), end: text.len() };
    let mut root = None;
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            _ if root.is_some() => {
                return Err(Problem::new(
                    line(&span),
                    "a second document begins here",
                    "keep one cluster in one file",
                ));
            }
            event => root = Some(reader.node(event, &span, 0)?),
        }
    }
    Ok(root)
}

fn not_yaml(error: &ScanError) -> Problem {
    let text = error.to_string();
    // The line is told already.
    let what = text.find(" at char ").map_or(text.as_str(), |end| &text[..end]);
    Problem::new(
        error.marker().line(),
        format!("this is not YAML: {what}"),
        "correct the file; an editor that knows YAML shows the place",
    )
}

fn line(span: &Span) -> usize {
    span.start.line()
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    end: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Problem> {
        loop {
            match self.parser.next() {
                None => return Ok(None),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(found)) => return Ok(Some(found)),
                Some(Err(error)) => return Err(not_yaml(&error)),
            }
        }
    }

    fn expect(&mut self, line: usize) -> Result<(Event<'a>, Span), Problem> {
        let end = || Problem::new(line, "the file ends in the middle of this", "complete it");
        self.next()?.ok_or_else(end)
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, Problem> {
        let line = line(span);
        if depth > DEEPEST {
            return Err(Problem::new(line, "this is nested too deeply", "write it flatter"));
        }
        let start = span.start.byte_offset().unwrap_or(self.end);
        let mut end = span.end.byte_offset().unwrap_or(self.end);
        let value = match event {
            Event::Scalar(text, style, ..) => {
                let plain = style == ScalarStyle::Plain;
                Value::Scalar { text: text.into_owned(), plain }
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.expect(line)?;
                    if event == Event::SequenceEnd {
                        end = span.end.byte_offset().unwrap_or(self.end);
                        break Value::List(items);
                    }
                    items.push(self.node(event, &span, depth + 1)?);
                }
            }
            Event::MappingStart(..) => {
                let mut fields = Vec::new();
                loop {
                    let (event, span) = self.expect(line)?;
                    if event == Event::MappingEnd {
                        end = span.end.byte_offset().unwrap_or(self.end);
                        break Value::Map(fields);
                    }
                    fields.push(self.field(event, &span, &fields, depth)?);
                }
            }
            _ => {
                return Err(Problem::new(
                    line,
                    "anchors and aliases are not understood here",
                    "write the value out",
                ));
            }
        };
        Ok(Node { line, span: start..end, value })
    }

    fn field(
        &mut self,
        event: Event<'a>,
        span: &Span,
        before: &[Field],
        depth: usize,
    ) -> Result<Field, Problem> {
        let line = line(span);
        let Event::Scalar(name, ..) = event else {
            return Err(Problem::new(
                line,
                "a field's name is missing here",
                "write `name: value`",
            ));
        };
        if before.iter().any(|field| field.name == name) {
            return Err(Problem::new(
                line,
                format!("`{name}` is there twice"),
                "leave one of them out",
            ));
        }
        let (event, span) = self.expect(line)?;
        let node = self.node(event, &span, depth + 1)?;
        Ok(Field { name: name.into_owned(), line, node })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<Field> {
        match parse(text).unwrap().unwrap().value {
            Value::Map(fields) => fields,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_value_knows_its_place() {
        let text = "# café\nname: prod\ntalos: {version: \"1.12.11\", x: '1'}  # end\n";
        let fields = fields(text);
        assert_eq!(&text[fields[0].node.span.clone()], "prod");
        let Value::Map(inner) = &fields[1].node.value else { panic!() };
        assert_eq!(&text[inner[0].node.span.clone()], "\"1.12.11\"");
        assert_eq!(&text[inner[1].node.span.clone()], "'1'");
        assert_eq!((fields[0].line, fields[1].line, inner[0].node.line), (2, 3, 3));
    }

    #[test]
    fn plain_values_mean_what_yaml_says() {
        let text = "a: 1\nb: \"1\"\nc: 1.12.11\nd: true\ne:\nf: 25%\ng: [1, x]\nh: 1.5\n";
        let json = parse(text).unwrap().unwrap().json();
        assert_eq!(
            json,
            serde_json::json!({"a": 1, "b": "1", "c": "1.12.11", "d": true, "e": null,
                "f": "25%", "g": [1, "x"], "h": 1.5})
        );
    }

    #[test]
    fn what_is_not_understood_is_said_with_its_line() {
        for (text, line, what) in [
            ("a: 1\na: 2\n", 2, "twice"),
            ("a: &x 1\nb: *x\n", 2, "aliases"),
            ("a: 1\n---\nb: 2\n", 3, "second document"),
            ("a: [1\n", 1, "not YAML"),
            ("a: 1\n\tb: 2\n", 1, "not YAML"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.what.contains(what), "{text:?}: {problem:?}");
            assert_eq!(problem.line, line, "{text:?}: {problem:?}");
        }
        assert_eq!(parse("# nothing\n").unwrap(), None);
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(parse(&deep).unwrap_err().what.contains("deep"));
    }
}
