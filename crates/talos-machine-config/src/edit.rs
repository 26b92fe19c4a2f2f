//! Reading and setting images in the text of a configuration.

use std::collections::BTreeMap;

use upgrade_core::image::ImageRef;
use upgrade_core::snapshot::Component;

use crate::error::ConfigError;
use crate::image_path::{self, ImagePath, Reached};
use crate::yaml::{self, Edit, Node, Value};

/// The image that a configuration names for a component; `None` stands for Talos's default.
pub fn image(text: &str, component: Component) -> Result<Option<ImageRef>, ConfigError> {
    image_in(&yaml::parse(text)?, component)
}

/// Every image that a configuration names.
pub fn images(text: &str) -> Result<BTreeMap<Component, ImageRef>, ConfigError> {
    let documents = yaml::parse(text)?;
    let mut images = BTreeMap::new();
    for component in image_path::COMPONENTS {
        if let Some(image) = image_in(&documents, component)? {
            images.insert(component, image);
        }
    }
    Ok(images)
}

fn image_in(documents: &[Node], component: Component) -> Result<Option<ImageRef>, ConfigError> {
    let path = image_path::of(component);
    let Some((document, way)) = image_path::document(documents, &path)? else {
        return Ok(None);
    };
    let (Reached::End { value, .. }, _) = image_path::follow(document, way)? else {
        return Ok(None);
    };
    if value.is_null() {
        return Ok(None);
    }
    let not_an_image = || ConfigError::NotAnImage { path: path.path.into(), line: value.line };
    match value.text() {
        Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| not_an_image()),
        None if matches!(value.value, Value::Alias) => {
            Err(ConfigError::Shared { path: path.path.into(), line: value.line })
        }
        None => Err(not_an_image()),
    }
}

/// Whether the configuration disables kube-proxy.
pub fn proxy_is_off(text: &str) -> Result<bool, ConfigError> {
    let documents = yaml::parse(text)?;
    let path = image_path::of(Component::KubeProxy);
    let Some((document, way)) = image_path::document(&documents, &path)? else {
        return Ok(false);
    };
    // Its own document says `enabled: false`, v1alpha1 `disabled: true`.
    let own = way.len() == 1;
    let (key, off) = if own { ("enabled", "false") } else { ("disabled", "true") };
    let mut way = way.to_vec();
    if let Some(last) = way.last_mut() {
        *last = key;
    }
    let (reached, _) = image_path::follow(document, &way)?;
    Ok(matches!(reached, Reached::End { value, .. } if value.text() == Some(off)))
}

/// The text with another image for a component, every other byte as it was; `None` if the
/// image is the same.
pub fn set_image(
    text: &str,
    component: Component,
    image: &ImageRef,
) -> Result<Option<String>, ConfigError> {
    let documents = yaml::parse(text)?;
    let path = image_path::of(component);
    let Some((document, way)) = image_path::document(&documents, &path)? else {
        return Err(ConfigError::NoPlace { path: path.path });
    };
    let image_text = image.to_string();
    let (reached, shared) = image_path::follow(document, way)?;
    if let Reached::End { value, .. } = &reached
        && value.text() == Some(&image_text)
    {
        return Ok(None);
    }
    if let Some(shared) = shared {
        return Err(shared.into());
    }
    let step = indentation(&documents);
    let edit = match reached {
        Reached::End { key, value, in_flow } => replace(text, &path, key, value, in_flow, image)?,
        Reached::Short { key, section, in_flow, rest } => {
            insert(text, key, section, in_flow, rest, &image_text, step)
        }
    };
    let Some(edit) = edit else {
        return Err(ConfigError::Entangled { path: path.path });
    };
    let changed = yaml::edited(text, vec![edit]);
    if !reads_well(&documents, &changed, component, image) {
        return Err(ConfigError::Entangled { path: path.path });
    }
    Ok(Some(changed))
}

/// Whether the changed text names the new image, and all others as before.
fn reads_well(before: &[Node], changed: &str, component: Component, image: &ImageRef) -> bool {
    let Ok(after) = yaml::parse(changed) else {
        return false;
    };
    before.len() == after.len()
        && image_path::COMPONENTS.into_iter().all(|other| {
            let found = image_in(&after, other);
            if other == component {
                found.is_ok_and(|found| found.as_ref() == Some(image))
            } else {
                found == image_in(before, other)
            }
        })
}

/// Replaces a value that exists.
fn replace(
    text: &str,
    path: &ImagePath,
    key: &Node,
    value: &Node,
    in_flow: bool,
    image: &ImageRef,
) -> Result<Option<Edit>, ConfigError> {
    let unusual = || ConfigError::NotAnImage { path: path.path.into(), line: key.line };
    let written = text.get(value.span.clone()).unwrap_or_default();
    match &value.value {
        Value::Alias => {
            let span = value.span.start..value.span.start + written.trim_end().len();
            Ok(Some(Edit { span, put: image.to_string() }))
        }
        Value::Scalar { .. } if written.is_empty() => {
            Ok(fill(text, key, in_flow, &image.to_string()))
        }
        _ => Edit::scalar(text, value, &image.to_string()).map(Some).ok_or_else(unusual),
    }
}

/// Gives a value to a key that has none.
fn fill(text: &str, key: &Node, in_flow: bool, value: &str) -> Option<Edit> {
    let after = text.get(key.span.end..)?;
    let blanks = after.len() - after.trim_start_matches([' ', '\t']).len();
    if after[blanks..].starts_with(':') {
        return Some(Edit::insert(key.span.end + blanks + 1, format!(" {value}")));
    }
    in_flow.then(|| Edit::insert(key.span.end, format!(": {value}")))
}

/// Adds the missing keys to a section.
fn insert(
    text: &str,
    key: Option<&Node>,
    section: &Node,
    in_flow: bool,
    rest: &[&str],
    image: &str,
    step: usize,
) -> Option<Edit> {
    match (&section.value, key) {
        (Value::Mapping { flow: true, entries }, _) => {
            let start = section.span.start;
            let at = start + usize::from(text[start..].starts_with('{'));
            let comma = if entries.is_empty() { "" } else { ", " };
            let put = format!("{}{comma}", in_braces(rest, image));
            Some(Edit::insert(at, put))
        }
        (Value::Mapping { entries, .. }, Some(key)) => {
            let (first, _) = entries.first()?;
            (first.line > key.line).then_some(())?;
            Some(after_line(text, key.span.end, &lines(rest, image, first.column, step)))
        }
        (Value::Mapping { entries, .. }, None) => {
            // A whole document: after its name, where there is one.
            let (first, _) = entries.first()?;
            let put = lines(rest, image, first.column, step);
            let name = ["kind", "version"].iter().find_map(|name| section.entry(name));
            match name {
                Some((key, value)) if value.line == key.line && !value.anchored => {
                    Some(after_line(text, value.span.end, &put))
                }
                _ => {
                    let at = first.span.start.checked_sub(first.column)?;
                    text[at..first.span.start].trim().is_empty().then_some(())?;
                    let end = line_end(text);
                    Some(Edit::insert(at, put.join(end) + end))
                }
            }
        }
        (_, Some(key)) if section.is_null() => {
            let written = text.get(section.span.clone()).unwrap_or_default();
            let braces = format!("{{{}}}", in_braces(rest, image));
            if !written.is_empty() {
                return Some(Edit { span: section.span.clone(), put: braces });
            }
            if in_flow {
                return fill(text, key, in_flow, &braces);
            }
            Some(after_line(text, key.span.end, &lines(rest, image, key.column + step, step)))
        }
        _ => None,
    }
}

/// `apiServer: {image: ...}`, for use between braces.
fn in_braces(rest: &[&str], image: &str) -> String {
    match rest {
        [] => image.to_owned(),
        [last] => format!("{last}: {image}"),
        [first, rest @ ..] => format!("{first}: {{{}}}", in_braces(rest, image)),
    }
}

/// The same as lines, indented to a column.
fn lines(rest: &[&str], image: &str, column: usize, step: usize) -> Vec<String> {
    let last = rest.len().saturating_sub(1);
    let line = |(depth, part): (usize, &&str)| {
        let indent = " ".repeat(column + depth * step);
        if depth == last { format!("{indent}{part}: {image}") } else { format!("{indent}{part}:") }
    };
    rest.iter().enumerate().map(line).collect()
}

/// Inserts lines after the one that contains `at`.
fn after_line(text: &str, at: usize, lines: &[String]) -> Edit {
    let end = line_end(text);
    let put = lines.join(end);
    if let Some(found) = text[at..].find('\n') {
        Edit::insert(at + found + 1, put + end)
    } else {
        Edit::insert(text.len(), format!("{end}{put}"))
    }
}

/// The line ending of the text.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The indentation of the text: that of the first section in a document.
fn indentation(documents: &[Node]) -> usize {
    let sections = documents.iter().flat_map(Node::entries);
    let mut steps = sections.filter_map(|(key, value)| match &value.value {
        Value::Mapping { flow: false, entries } => {
            entries.first()?.0.column.checked_sub(key.column)
        }
        _ => None,
    });
    steps.find(|step| *step > 0).unwrap_or(4)
}
