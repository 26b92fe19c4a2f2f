//! Updates the versions in a profile: three scalars and nothing else.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use talos_machine_config::yaml::{self, Edit};
use upgrade_core::version::Version;

use super::document;
use super::problem::ProfileError;

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
    let Some(root) = document::parse(text).map_err(|problem| problem.what)? else {
        return Ok(text.to_owned());
    };
    let Written { talos, kubernetes, schematic } = written;
    let version = |version: &Version, old: &str| {
        // A `v` before the number is its author's habit, and stays.
        if old.starts_with('v') { version.tag() } else { version.to_string() }
    };
    let mut edits = Vec::new();
    let mut change = |path: &[&str], value: &dyn Fn(&str) -> Option<String>| {
        let Some(node) = root.at(path) else { return Ok(()) };
        let Some(old) = node.text() else { return Ok(()) };
        let Some(value) = value(old).filter(|value| value != old) else { return Ok(()) };
        let edit = Edit::scalar(text, node, &value);
        edits.push(edit.ok_or_else(|| format!("{} is not on one line", path.join(".")))?);
        Ok::<(), String>(())
    };
    change(&["talos", "version"], &|old| talos.as_ref().map(|new| version(new, old)))?;
    change(&["talos", "kubernetes_version"], &|old| {
        kubernetes.as_ref().map(|new| version(new, old))
    })?;
    change(&["talos", "factory", "schematic_id"], &|_| schematic.clone())?;
    Ok(yaml::edited(text, edits))
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
