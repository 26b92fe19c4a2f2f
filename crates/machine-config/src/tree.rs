//! The text as a tree of nodes that know their place in it.

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StructureStyle};

use crate::error::ConfigError;

/// What a node is.
pub(crate) enum Kind {
    Scalar {
        value: String,
        style: ScalarStyle,
    },
    Mapping {
        flow: bool,
        entries: Vec<(Node, Node)>,
    },
    Sequence,
    /// Stands for a node elsewhere.
    Alias,
}

/// A node and its place: `start..end` in bytes, `line` from 1, `column` from 0.
/// The end of a block collection is of no use, and is where it starts.
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Other places may stand for it.
    pub(crate) anchored: bool,
}

impl Node {
    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether it is nothing: left out, `~` or `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { value, style: ScalarStyle::Plain }
            if matches!(value.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The key and value of an entry.
    pub(crate) fn entry(&self, key: &str) -> Option<&(Node, Node)> {
        self.entries().iter().find(|(name, _)| name.text() == Some(key))
    }

    /// All entries; none if it is no mapping.
    pub(crate) fn entries(&self) -> &[(Node, Node)] {
        match &self.kind {
            Kind::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }
}

/// Reads all documents. Empty ones are left out.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, ConfigError> {
    let mut options = Options::default();
    // They are no part of the tree, and a documented configuration has more of
    // them in a row than the parser would hold for us.
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
            event => documents.push(reader.node(&event, span)?),
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
    E: Line,
{
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, ConfigError> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => {
                self.last_line = span.start.line();
                Ok(Some((event, span)))
            }
            Some(Err(error)) => Err(ConfigError::Unreadable { line: error.line() }),
        }
    }

    /// The node that an event begins.
    fn node(&mut self, event: &Event<'a>, span: Span) -> Result<Node, ConfigError> {
        let broken = || ConfigError::Unreadable { line: span.start.line() };
        let range = span.byte_range().ok_or_else(broken)?;
        let (kind, anchor) = match event {
            Event::Scalar(value, style, anchor, _) => {
                (Kind::Scalar { value: value.clone().into_owned(), style: *style }, *anchor)
            }
            Event::Alias(_) => (Kind::Alias, 0),
            Event::SequenceStart(_, anchor, _) => {
                self.children()?;
                (Kind::Sequence, *anchor)
            }
            Event::MappingStart(style, anchor, _) => {
                let entries = self.entries()?;
                (Kind::Mapping { flow: *style == StructureStyle::Flow, entries }, *anchor)
            }
            _ => return Err(broken()),
        };
        Ok(Node {
            kind,
            start: range.start,
            end: range.end,
            line: span.start.line(),
            column: span.start.col(),
            anchored: anchor != 0,
        })
    }

    /// The next child of a collection; `None` at its end.
    fn child(&mut self) -> Result<Option<Node>, ConfigError> {
        let Some((event, span)) = self.next()? else {
            return Err(ConfigError::Unreadable { line: self.last_line });
        };
        match event {
            Event::SequenceEnd | Event::MappingEnd => Ok(None),
            event => self.node(&event, span).map(Some),
        }
    }

    fn children(&mut self) -> Result<(), ConfigError> {
        while self.child()?.is_some() {}
        Ok(())
    }

    fn entries(&mut self) -> Result<Vec<(Node, Node)>, ConfigError> {
        let mut entries: Vec<(Node, Node)> = Vec::new();
        while let Some(key) = self.child()? {
            if let Some(text) = key.text()
                && entries.iter().any(|(other, _)| other.text() == Some(text))
            {
                return Err(ConfigError::Twice { what: text.to_owned(), line: key.line });
            }
            let Some(value) = self.child()? else {
                return Err(ConfigError::Unreadable { line: key.line });
            };
            entries.push((key, value));
        }
        Ok(entries)
    }
}

/// Where an error of the parser is.
trait Line {
    fn line(&self) -> usize;
}

impl Line for granit_parser::ScanError {
    fn line(&self) -> usize {
        self.marker().line()
    }
}
