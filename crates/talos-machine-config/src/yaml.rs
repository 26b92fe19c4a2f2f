//! YAML as a tree of nodes that know their place in the text, so that an error can name a line
//! and a scalar can be replaced with every other byte kept.
//!
//! Texts may hold keys (rule 14): nothing here that holds text has a `Debug` form, and errors
//! quote a key at most.

use std::ops::Range;

use granit_parser::{Event, Options, Parser, Span, StructureStyle};
use thiserror::Error;

pub use granit_parser::ScalarStyle;

/// Deeper than any configuration; a guard against a text made to exhaust the stack.
const DEEPEST: usize = 128;

/// A node and its place.
pub struct Node {
    /// Its content.
    pub value: Value,
    /// In bytes, quotes included. A block collection is empty and stands where it starts.
    pub span: Range<usize>,
    /// From 1.
    pub line: usize,
    /// From 0.
    pub column: usize,
    /// Whether aliases elsewhere may refer to it.
    pub anchored: bool,
}

/// The content of a node.
pub enum Value {
    /// Text. Written plainly, it may mean a number, a boolean or nothing.
    Scalar {
        /// Without quotes, escapes resolved.
        text: String,
        /// Plain, quoted or a block.
        style: ScalarStyle,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and their values, in the order of the text.
    Mapping {
        /// Whether it is written in braces.
        flow: bool,
        /// Pairs of key and value.
        entries: Vec<(Node, Node)>,
    },
    /// A reference to an anchored node.
    Alias,
}

/// A text that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum YamlError {
    /// The parser refused it.
    #[error("line {line}: {what}")]
    Syntax {
        /// From 1.
        line: usize,
        /// In the parser's words, which do not quote the text.
        what: String,
    },
    /// A mapping has a key twice.
    #[error("line {line}: `{key}` is there twice")]
    Duplicate {
        /// The second one's line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// Its collections are nested too deeply.
    #[error("line {line}: nested too deeply")]
    TooDeep {
        /// From 1.
        line: usize,
    },
}

impl YamlError {
    /// The line of the error, from 1.
    pub const fn line(&self) -> usize {
        match self {
            Self::Syntax { line, .. } | Self::Duplicate { line, .. } | Self::TooDeep { line } => {
                *line
            }
        }
    }
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether it is empty, `~` or `null`.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, style: ScalarStyle::Plain }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The pairs of a mapping; none for any other node.
    pub fn entries(&self) -> &[(Self, Self)] {
        match &self.value {
            Value::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    /// The key and value of an entry.
    pub fn entry(&self, key: &str) -> Option<&(Self, Self)> {
        self.entries().iter().find(|(name, _)| name.text() == Some(key))
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.entry(key).map(|(_, value)| value))
    }
}

/// A replacement of bytes in a text.
pub struct Edit {
    /// The bytes to replace; empty to insert.
    pub span: Range<usize>,
    /// What stands there afterwards.
    pub put: String,
}

impl Edit {
    /// An insertion.
    pub fn insert(at: usize, put: String) -> Self {
        Self { span: at..at, put }
    }

    /// Replaces a scalar on one line, its quotes kept. `None` for anything else: it cannot be
    /// replaced without a change to more than the value. The new value has to be one that
    /// needs no quotes.
    pub fn scalar(text: &str, node: &Node, value: &str) -> Option<Self> {
        let Value::Scalar { style, .. } = &node.value else { return None };
        let written = text.get(node.span.clone())?;
        if written.is_empty() || written.contains(['\n', '\r']) {
            return None;
        }
        let put = match style {
            ScalarStyle::Plain => value.to_owned(),
            ScalarStyle::SingleQuoted => format!("'{value}'"),
            ScalarStyle::DoubleQuoted => format!("\"{value}\""),
            _ => return None,
        };
        let start = node.span.start;
        Some(Self { span: start..start + written.trim_end().len(), put })
    }
}

/// The text with these edits, every other byte as it was. Edits must not overlap.
pub fn edited(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.span.start);
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for Edit { span, put } in edits {
        out.push_str(&text[last..span.start]);
        out.push_str(&put);
        last = span.end;
    }
    out.push_str(&text[last..]);
    out
}

/// Reads all documents. Empty ones are left out.
pub fn parse(text: &str) -> Result<Vec<Node>, YamlError> {
    let mut options = Options::default();
    // A documented configuration has more comments in a row than the parser would buffer.
    options.set_emit_comments(false);
    let events = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader { events, last_line: 1 };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd => {}
            event => documents.push(reader.node(&event, span, 0)?),
        }
    }
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

struct Reader<P> {
    events: P,
    last_line: usize,
}

impl<'a, P, E> Reader<P>
where
    P: Iterator<Item = Result<(Event<'a>, Span), E>>,
    E: Refusal,
{
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => {
                self.last_line = span.start.line();
                Ok(Some((event, span)))
            }
            Some(Err(error)) => Err(error.refused()),
        }
    }

    /// The node that an event begins.
    fn node(&mut self, event: &Event<'a>, span: Span, depth: usize) -> Result<Node, YamlError> {
        let line = span.start.line();
        if depth > DEEPEST {
            return Err(YamlError::TooDeep { line });
        }
        let range = span.byte_range().ok_or_else(|| unexpected(line))?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                (Value::Scalar { text: text.clone().into_owned(), style: *style }, *anchor)
            }
            Event::Alias(_) => (Value::Alias, 0),
            Event::SequenceStart(_, anchor, _) => (Value::Sequence(self.items(depth)?), *anchor),
            Event::MappingStart(style, anchor, _) => {
                let entries = self.entries(depth)?;
                (Value::Mapping { flow: *style == StructureStyle::Flow, entries }, *anchor)
            }
            _ => return Err(unexpected(line)),
        };
        let column = span.start.col();
        Ok(Node { value, span: range, line, column, anchored: anchor != 0 })
    }

    /// The next child of a collection; `None` at its end.
    fn child(&mut self, depth: usize) -> Result<Option<Node>, YamlError> {
        let Some((event, span)) = self.next()? else {
            return Err(unexpected(self.last_line));
        };
        match event {
            Event::SequenceEnd | Event::MappingEnd => Ok(None),
            event => self.node(&event, span, depth + 1).map(Some),
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, YamlError> {
        let mut items = Vec::new();
        while let Some(item) = self.child(depth)? {
            items.push(item);
        }
        Ok(items)
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<(Node, Node)>, YamlError> {
        let mut entries: Vec<(Node, Node)> = Vec::new();
        while let Some(key) = self.child(depth)? {
            if let Some(text) = key.text()
                && entries.iter().any(|(other, _)| other.text() == Some(text))
            {
                return Err(YamlError::Duplicate { key: text.to_owned(), line: key.line });
            }
            let Some(value) = self.child(depth)? else {
                return Err(unexpected(key.line));
            };
            entries.push((key, value));
        }
        Ok(entries)
    }
}

fn unexpected(line: usize) -> YamlError {
    YamlError::Syntax { line, what: "the text ends in the middle of a value".to_owned() }
}

/// The parser's error, which it does not name.
trait Refusal {
    fn refused(&self) -> YamlError;
}

impl Refusal for granit_parser::ScanError {
    fn refused(&self) -> YamlError {
        let text = self.to_string();
        // The position follows; the line is a field of its own.
        let what = text.find(" at char ").map_or(text.as_str(), |end| &text[..end]);
        YamlError::Syntax { line: self.marker().line(), what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Node {
        let Ok([document]) = <[Node; 1]>::try_from(parse(text).unwrap()) else { panic!() };
        document
    }

    #[test]
    fn every_scalar_has_its_place() {
        let text = "# café\nname: prod\ntalos: {version: \"1.12.11\", x: '1'}  # end\n";
        let root = document(text);
        for (path, written, line) in [
            (&["name"][..], "prod", 2),
            (&["talos", "version"], "\"1.12.11\"", 3),
            (&["talos", "x"], "'1'", 3),
        ] {
            let node = root.at(path).unwrap();
            assert_eq!((&text[node.span.clone()], node.line), (written, line));
        }
        assert!(root.at(&["talos", "y"]).is_none());
    }

    #[test]
    fn a_scalar_is_replaced_in_its_quotes() {
        let text = "a: 1  # x\r\nb: '1'\nc: \"1\"\nd: |\n  1\n";
        let root = document(text);
        let edit = |key| Edit::scalar(text, root.at(&[key]).unwrap(), "22");
        let edits = ["c", "a", "b"].map(|key| edit(key).unwrap());
        let expected = "a: 22  # x\r\nb: '22'\nc: \"22\"\nd: |\n  1\n";
        assert_eq!(edited(text, edits.into()), expected);
        assert!(edit("d").is_none(), "a block is more than one line");
        assert!(Edit::scalar(text, &root, "22").is_none());
    }

    #[test]
    fn an_error_has_the_line_and_not_the_text() {
        // Rule 14.
        for (text, line) in [("a: [s3cr3t\n", 1), ("a: s3cr3t\n\tb: s3cr3t\n", 2)] {
            let error = parse(text).err().unwrap();
            assert!(matches!(error, YamlError::Syntax { .. }));
            assert!((1..=line).contains(&error.line()), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cr3t"));
        }
        let error = parse("a: 1\na: 2\n").err().unwrap();
        assert_eq!(error, YamlError::Duplicate { key: "a".to_owned(), line: 2 });
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| parse(&("[".repeat(depth) + &"]".repeat(depth)));
        assert!(nested(100).is_ok());
        assert!(nested(200).is_err());
        assert!(nested(100_000).is_err());
    }
}
