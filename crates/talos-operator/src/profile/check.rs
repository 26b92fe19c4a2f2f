//! Reads the fields of a profile one by one and continues after a problem, so that all of them
//! are reported at once.

use std::path::Path;
use std::str::FromStr;

use s3_snapshots::Address;
use serde_json::{Map, Value as Json};
use talos_machine_config::yaml::{Node, Value};
use upgrade_core::image::ImageRef;
use upgrade_core::intent::{Installer, NodeIntent};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;

use super::Profile;
use super::document::{self, Field};
use super::problem::Problem;

/// The fields of a profile, for messages.
const FIELDS: &str = "name, talosconfig, kubeconfig, talos, policy and nodes";
const TALOS_FIELDS: &str = "version, kubernetes_version, factory, image and keep_extensions";
const NODE_FIELDS: &str = "version, image, schematic_id and hold";
const FACTORY_FIELDS: &str = "url and schematic_id";

/// Collects the problems.
#[derive(Default)]
struct Check {
    problems: Vec<Problem>,
}

/// Makes a profile of a document, or returns all its problems.
pub(super) fn check(path: &Path, root: Option<&Node>) -> Result<Profile, Vec<Problem>> {
    let mut check = Check::default();
    let mut profile = Profile::empty(path);
    let Some(root) = root else {
        return Err(vec![Problem::new(1, "the profile is empty", "write at least `name: ...`")]);
    };
    let mut named = false;
    for field in check.fields("the profile", root) {
        match field.name {
            "name" => {
                named = true;
                profile.name = check.name(field).unwrap_or_default();
            }
            "talosconfig" => profile.talosconfig = check.path("talosconfig", field, path),
            "kubeconfig" => profile.kubeconfig = check.path("kubeconfig", field, path),
            "talos" => check.talos(field, &mut profile),
            "policy" => profile.policy = check.policy(field),
            "nodes" => check.nodes(field, &mut profile),
            _ => check.unknown("", field, FIELDS),
        }
    }
    if !named && check.problems.is_empty() {
        let line = root.line;
        check.problem(line, "name: the field is missing", "add `name:` with the cluster's name");
    }
    if check.problems.is_empty() { Ok(profile) } else { Err(check.problems) }
}

impl Check {
    fn problem(&mut self, line: usize, what: impl Into<String>, next: impl Into<String>) {
        self.problems.push(Problem::new(line, what, next));
    }

    fn fields<'a>(&mut self, what: &str, node: &'a Node) -> Vec<Field<'a>> {
        if let Some(fields) = document::fields(node) {
            return fields;
        }
        let kind = document::kind(node);
        let next = "write `field: value` lines below it";
        self.problem(node.line, format!("{what}: fields belong here, not {kind}"), next);
        Vec::new()
    }

    fn unknown(&mut self, prefix: &str, field: Field<'_>, known: &str) {
        let what = format!("{prefix}{}: unknown field", field.name);
        self.problem(field.line, what, format!("the fields are {known}"));
    }

    /// The text of a field, which must have some.
    fn text<'a>(&mut self, name: &str, field: Field<'a>) -> Option<&'a str> {
        match &field.node.value {
            Value::Scalar { text, .. } if !field.node.is_null() && !text.trim().is_empty() => {
                Some(text)
            }
            Value::Scalar { .. } => {
                let next = "write a value, or remove the field";
                self.problem(field.line, format!("{name}: the value is missing"), next);
                None
            }
            _ => {
                let kind = document::kind(field.node);
                let what = format!("{name}: a single value belongs here, not {kind}");
                self.problem(field.line, what, format!("write `{name}: value`"));
                None
            }
        }
    }

    fn name(&mut self, field: Field<'_>) -> Option<String> {
        let text = self.text("name", field)?;
        // It becomes part of file names and of messages.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.len() <= 63 && text.chars().all(plain) && !text.starts_with(['.', '-']) {
            return Some(text.to_owned());
        }
        let next = "write letters, digits, dashes, dots and underscores";
        self.problem(field.line, format!("name: `{text}` is not a name"), next);
        None
    }

    fn path(&mut self, name: &str, field: Field<'_>, profile: &Path) -> Option<std::path::PathBuf> {
        let text = self.text(name, field)?;
        Some(super::beside(profile, text))
    }

    fn parsed<T: FromStr<Err: ToString>>(&mut self, name: &str, field: Field<'_>) -> Option<T> {
        let text = self.text(name, field)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let error: <T as FromStr>::Err = error;
                let what = format!("{name}: {}", error.to_string());
                self.problem(field.line, what, "correct the value");
                None
            }
        }
    }

    fn talos(&mut self, field: Field<'_>, profile: &mut Profile) {
        for field in self.fields("talos", field.node) {
            match field.name {
                "version" => profile.talos = self.parsed::<Version>("talos.version", field),
                "kubernetes_version" => {
                    profile.kubernetes = self.parsed::<Version>("talos.kubernetes_version", field);
                }
                "factory" => self.factory(field, profile),
                "image" => profile.image = self.parsed::<ImageRef>("talos.image", field),
                "keep_extensions" => {
                    let keep = self.parsed::<bool>("talos.keep_extensions", field);
                    profile.keep_extensions = keep.unwrap_or_default();
                }
                _ => self.unknown("talos.", field, TALOS_FIELDS),
            }
        }
    }

    fn nodes(&mut self, field: Field<'_>, profile: &mut Profile) {
        for field in self.fields("nodes", field.node) {
            let own = self.node(field);
            profile.nodes.insert(NodeName(field.name.to_owned()), own);
        }
    }

    fn node(&mut self, node: Field<'_>) -> NodeIntent {
        let mut own = NodeIntent::default();
        let path = format!("nodes.{}", node.name);
        for field in self.fields(&path, node.node) {
            let name = format!("{path}.{}", field.name);
            let installer = match field.name {
                "version" => {
                    own.talos = self.parsed::<Version>(&name, field);
                    continue;
                }
                "hold" => {
                    own.hold = self.parsed::<bool>(&name, field).unwrap_or_default();
                    continue;
                }
                "image" => self.parsed::<ImageRef>(&name, field).map(Installer::Image),
                "schematic_id" => self.schematic(&name, field).map(Installer::Schematic),
                _ => {
                    self.unknown(&format!("{path}."), field, NODE_FIELDS);
                    continue;
                }
            };
            if own.installer.is_some() {
                let what = format!("{path}: image and schematic_id are two installers");
                self.problem(field.line, what, "remove one of them");
            }
            own.installer = installer;
        }
        own
    }

    fn schematic(&mut self, name: &str, field: Field<'_>) -> Option<String> {
        match crate::args::schematic(self.text(name, field)?) {
            Ok(id) => Some(id),
            Err(why) => {
                self.problem(field.line, format!("{name}: {why}"), "copy the whole ID");
                None
            }
        }
    }

    fn factory(&mut self, field: Field<'_>, profile: &mut Profile) {
        for field in self.fields("talos.factory", field.node) {
            match field.name {
                "url" => {
                    let text = self.text("talos.factory.url", field);
                    let text = text.map(ToOwned::to_owned);
                    match text.map(|text| crate::factory::check_url(&text)) {
                        Some(Ok(url)) => profile.factory_url = Some(url),
                        Some(Err(why)) => {
                            let next = "write it like https://factory.talos.dev";
                            self.problem(field.line, format!("talos.factory.url: {why}"), next);
                        }
                        None => {}
                    }
                }
                "schematic_id" => {
                    let id = self.schematic("talos.factory.schematic_id", field);
                    profile.schematic = id.or(profile.schematic.take());
                }
                _ => self.unknown("talos.factory.", field, FACTORY_FIELDS),
            }
        }
    }

    /// The policy's own reader stops at the first problem, so it gets one field at a time, down
    /// to the fields of its sections.
    fn policy(&mut self, field: Field<'_>) -> Policy {
        let mut good = Map::new();
        for field in self.fields("policy", field.node) {
            let path = format!("policy.{}", field.name);
            let Some(parts) = document::fields(field.node) else {
                let value = document::json(field.node);
                if self.fits(&path, field.line, field.name, value.clone()) {
                    good.insert(field.name.to_owned(), value);
                }
                continue;
            };
            let empty = Json::Object(Map::new());
            if !self.fits(&path, field.line, field.name, empty) {
                continue;
            }
            let mut section = Map::new();
            for part in parts {
                let value = document::json(part.node);
                let alone = Map::from_iter([(part.name.to_owned(), value.clone())]);
                let path = format!("{path}.{}", part.name);
                if path == "policy.snapshot.dir" {
                    self.address(&path, part.line, &value);
                }
                if self.fits(&path, part.line, field.name, Json::Object(alone)) {
                    section.insert(part.name.to_owned(), value);
                }
            }
            good.insert(field.name.to_owned(), Json::Object(section));
        }
        // A section without any valid field may still be invalid itself.
        let policy = match serde_json::from_value::<Policy>(Json::Object(good)) {
            Ok(policy) => policy,
            Err(error) => {
                let what = format!("policy: {}", plain(&error));
                self.problem(field.line, what, "correct or remove the field that it names");
                return Policy::default();
            }
        };
        if self.problems.is_empty() {
            for problem in policy.problems() {
                self.problem(field.line, problem.to_string(), "correct the value");
            }
        }
        policy
    }

    /// A folder can be anything; an S3 address cannot.
    fn address(&mut self, path: &str, line: usize, value: &Json) {
        let text = value.as_str().filter(|text| Address::is_meant(text));
        if let Some(Err(error)) = text.map(str::parse::<Address>) {
            self.problem(line, format!("{path}: {error}"), crate::snapshot_store::EXAMPLE);
        }
    }

    fn fits(&mut self, path: &str, line: usize, name: &str, value: Json) -> bool {
        let alone = Json::Object(Map::from_iter([(name.to_owned(), value)]));
        match serde_json::from_value::<Policy>(alone) {
            Ok(_) => true,
            Err(error) => {
                self.problem(line, format!("{path}: {}", plain(&error)), "correct the value");
                false
            }
        }
    }
}

/// The message without the position, which is one in a copy.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.contains("duration") {
        return "this is not a time span: write it like 30s, 5m or 1h30m".to_owned();
    }
    if text.contains("expected struct") {
        return "fields belong here".to_owned();
    }
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
