//! Writes what runs now back into a profile: the scalars and nothing else.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use upgrade_core::version::Version;

use super::problem::ProfileError;
use super::tree::{self, Node, Value};

/// What is written back; `None` leaves a value as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// `talos.version`.
    pub talos: Option<Version>,
    /// `talos.kubernetes_version`.
    pub kubernetes: Option<Version>,
    /// `talos.factory.schematic_id`.
    pub schematic: Option<String>,
}

/// Replaces the scalars in a profile's text. What the profile does not have is
/// not added: its author left it out. Every other byte stays.
pub(super) fn replace(text: &str, written: &Written) -> Result<String, String> {
    let root = tree::parse(text).map_err(|problem| problem.what)?;
    let mut changes: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let mut change = |path: &[&str], value: Option<String>| {
        let Some(value) = value else { return };
        let Some(node) = root.as_ref().and_then(|root| find(root, path)) else { return };
        let Value::Scalar { text: old, .. } = &node.value else { return };
        if *old == value {
            return;
        }
        changes.push((node.span.clone(), quoted_alike(&text[node.span.clone()], &value)));
    };
    // A `v` before a number is a habit of its author, and stays.
    let version = |path: &[&str], version: &Option<Version>| {
        let node = root.as_ref().and_then(|root| find(root, path));
        let tagged = matches!(node.map(|node| &node.value),
            Some(Value::Scalar { text, .. }) if text.starts_with('v'));
        version.as_ref().map(|version| if tagged { version.tag() } else { version.to_string() })
    };
    let talos = ["talos", "version"];
    let kubernetes = ["talos", "kubernetes_version"];
    change(&talos, version(&talos, &written.talos));
    change(&kubernetes, version(&kubernetes, &written.kubernetes));
    change(&["talos", "factory", "schematic_id"], written.schematic.clone());
    changes.sort_by_key(|(span, _)| span.start);
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for (span, value) in changes {
        out.push_str(&text[last..span.start]);
        out.push_str(&value);
        last = span.end;
    }
    out.push_str(&text[last..]);
    Ok(out)
}

fn find<'a>(node: &'a Node, path: &[&str]) -> Option<&'a Node> {
    let Some((first, rest)) = path.split_first() else {
        return Some(node);
    };
    let Value::Map(fields) = &node.value else { return None };
    find(&fields.iter().find(|field| field.name == *first)?.node, rest)
}

/// The value with the quotes that the old one had.
fn quoted_alike(old: &str, value: &str) -> String {
    match old.chars().next() {
        Some(quote @ ('"' | '\'')) => format!("{quote}{value}{quote}"),
        _ => value.to_owned(),
    }
}

/// Puts the text into the file in one step: a reader sees the old or the new
/// one, and a crash leaves one of them.
pub(super) fn store(path: &Path, text: &str) -> Result<(), ProfileError> {
    put(path, text).map_err(|error| ProfileError::Write { path: path.to_owned(), error })
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    // A link stays a link: what it points to is replaced.
    let path = fs::canonicalize(path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(fs::metadata(&path)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    // The rename itself must survive a power cut too.
    fs::File::open(folder)?.sync_all()
}
