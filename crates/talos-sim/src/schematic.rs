//! Schematics of the Image Factory: parsed strictly, written in the canonical form that their id is
//! the hash of. That form is Go's YAML: fields in a fixed order, four spaces per level, empty
//! fields omitted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::model;

/// Why a schematic is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchematicError(String);

/// The content of an image.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schematic {
    owner: String,
    overlay: Overlay,
    customization: Customization,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Overlay {
    image: String,
    name: String,
    options: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Customization {
    embedded_machine_configuration: String,
    extra_kernel_args: Vec<String>,
    meta: Vec<MetaValue>,
    system_extensions: SystemExtensions,
    bootloader: String,
    secureboot: SecureBoot,
    disk_image: DiskImage,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MetaValue {
    key: u8,
    value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SystemExtensions {
    official_extensions: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SecureBoot {
    enroll_keys: String,
    include_well_known_certificates: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct DiskImage {
    sector_size: u64,
}

impl Schematic {
    /// Parses YAML, which includes JSON.
    pub fn parse(text: &str) -> Result<Self, SchematicError> {
        if text.trim().is_empty() {
            return Err(SchematicError("EOF".to_owned()));
        }
        let schematic: Self =
            serde_saphyr::from_str(text).map_err(|error| SchematicError(error.to_string()))?;
        if !schematic.owner.is_empty() {
            return Err(SchematicError(
                "owner field is only supported in Enterprise edition".to_owned(),
            ));
        }
        Ok(schematic)
    }

    /// The names of its system extensions.
    pub fn extensions(&self) -> &[String] {
        &self.customization.system_extensions.official_extensions
    }

    /// The id, and the schematic as the registries store it.
    pub fn resolve(&self) -> (String, model::Schematic) {
        let yaml = self.to_yaml();
        let mut id = String::with_capacity(64);
        for byte in Sha256::digest(yaml.as_bytes()) {
            let _ = write!(id, "{byte:02x}");
        }
        let extensions = self.extensions().to_vec();
        (id, model::Schematic { yaml, extensions })
    }

    /// The canonical form.
    pub fn to_yaml(&self) -> String {
        let Self { owner, overlay, customization } = self;
        let mut root = Vec::new();
        text(&mut root, "owner", owner);
        if *overlay != Overlay::default() {
            let Overlay { image, name, options } = overlay;
            let mut map = vec![
                ("image".to_owned(), Yaml::Text(image.clone())),
                ("name".to_owned(), Yaml::Text(name.clone())),
            ];
            if !options.is_empty() {
                let options = options.iter().map(|(key, value)| (key.clone(), any(value)));
                map.push(("options".to_owned(), Yaml::Map(options.collect())));
            }
            root.push(("overlay".to_owned(), Yaml::Map(map)));
        }
        root.push(("customization".to_owned(), customization.yaml()));
        let mut out = String::new();
        emit_map(&mut out, &root, 0, false);
        out
    }
}

impl Customization {
    fn yaml(&self) -> Yaml {
        let Self {
            embedded_machine_configuration,
            extra_kernel_args,
            meta,
            system_extensions: SystemExtensions { official_extensions },
            bootloader,
            secureboot: SecureBoot { enroll_keys, include_well_known_certificates },
            disk_image: DiskImage { sector_size },
        } = self;
        let mut map = Vec::new();
        text(&mut map, "embeddedMachineConfiguration", embedded_machine_configuration);
        list(&mut map, "extraKernelArgs", extra_kernel_args);
        if !meta.is_empty() {
            let values = meta.iter().map(|MetaValue { key, value }| {
                Yaml::Map(vec![
                    ("key".to_owned(), Yaml::Plain(key.to_string())),
                    ("value".to_owned(), Yaml::Text(value.clone())),
                ])
            });
            map.push(("meta".to_owned(), Yaml::List(values.collect())));
        }
        let mut extensions = Vec::new();
        list(&mut extensions, "officialExtensions", official_extensions);
        nested(&mut map, "systemExtensions", extensions);
        text(&mut map, "bootloader", bootloader);
        let mut secureboot = Vec::new();
        text(&mut secureboot, "enrollKeys", enroll_keys);
        if *include_well_known_certificates {
            let key = "includeWellKnownCertificates".to_owned();
            secureboot.push((key, Yaml::Plain("true".to_owned())));
        }
        nested(&mut map, "secureboot", secureboot);
        let mut disk_image = Vec::new();
        if *sector_size != 0 {
            let size = Yaml::Plain(sector_size.to_string());
            disk_image.push(("sectorSize".to_owned(), size));
        }
        nested(&mut map, "diskImage", disk_image);
        Yaml::Map(map)
    }
}

type Map = Vec<(String, Yaml)>;

enum Yaml {
    Plain(String),
    Text(String),
    List(Vec<Yaml>),
    Map(Map),
}

fn text(map: &mut Map, key: &str, value: &str) {
    if !value.is_empty() {
        map.push((key.to_owned(), Yaml::Text(value.to_owned())));
    }
}

fn list(map: &mut Map, key: &str, values: &[String]) {
    if !values.is_empty() {
        let values = values.iter().cloned().map(Yaml::Text).collect();
        map.push((key.to_owned(), Yaml::List(values)));
    }
}

fn nested(map: &mut Map, key: &str, inner: Map) {
    if !inner.is_empty() {
        map.push((key.to_owned(), Yaml::Map(inner)));
    }
}

fn any(value: &Value) -> Yaml {
    match value {
        Value::Null => Yaml::Plain("null".to_owned()),
        Value::Bool(_) | Value::Number(_) => Yaml::Plain(value.to_string()),
        Value::String(text) => Yaml::Text(text.clone()),
        Value::Array(values) => Yaml::List(values.iter().map(any).collect()),
        Value::Object(map) => {
            Yaml::Map(map.iter().map(|(key, value)| (key.clone(), any(value))).collect())
        }
    }
}

fn emit_map(out: &mut String, map: &Map, column: usize, inline: bool) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 || !inline {
            indent(out, column);
        }
        scalar(out, key, column);
        out.push(':');
        emit_value(out, value, column);
    }
}

fn emit_value(out: &mut String, value: &Yaml, column: usize) {
    match value {
        Yaml::Plain(text) => {
            let _ = writeln!(out, " {text}");
        }
        Yaml::Text(text) => {
            out.push(' ');
            scalar(out, text, deeper(column));
            out.push('\n');
        }
        Yaml::Map(map) if map.is_empty() => out.push_str(" {}\n"),
        Yaml::List(list) if list.is_empty() => out.push_str(" []\n"),
        Yaml::Map(map) => {
            out.push('\n');
            emit_map(out, map, deeper(column), false);
        }
        Yaml::List(list) => {
            out.push('\n');
            let column = deeper(column);
            for item in list {
                indent(out, column);
                out.push('-');
                match item {
                    // A map starts on the line of its dash.
                    Yaml::Map(map) if !map.is_empty() => {
                        out.push(' ');
                        emit_map(out, map, column + 2, true);
                    }
                    other => emit_value(out, other, column),
                }
            }
        }
    }
}

/// The next level: Go indents to the next multiple of four.
fn deeper(column: usize) -> usize {
    (column / 4 + 1) * 4
}

fn indent(out: &mut String, column: usize) {
    out.push_str(&" ".repeat(column));
}

/// A string as Go's YAML writes it: plain where that parses as the same string, otherwise quoted,
/// or as a block if it has several lines.
fn scalar(out: &mut String, text: &str, column: usize) {
    if text.contains('\n') && text.chars().all(|c| c == '\n' || !c.is_control()) {
        let chomp = match text.trim_end_matches('\n').len() {
            kept if kept == text.len() => "-",
            kept if kept + 1 == text.len() => "",
            _ => "+",
        };
        let _ = write!(out, "|{chomp}");
        for line in text.trim_end_matches('\n').split('\n') {
            out.push('\n');
            if !line.is_empty() {
                indent(out, column);
                out.push_str(line);
            }
        }
        return;
    }
    if is_something_else(text) || text.chars().any(char::is_control) {
        let _ = write!(out, "{}", Value::String(text.to_owned()));
    } else if is_plain(text) {
        out.push_str(text);
    } else {
        let _ = write!(out, "'{}'", text.replace('\'', "''"));
    }
}

/// Whether a plain scalar would be parsed as a number, a boolean or null.
fn is_something_else(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf",
        "-.inf", "+.inf", "<<",
    ];
    let lower = text.to_ascii_lowercase();
    WORDS.contains(&lower.as_str())
        || lower.replace('_', "").parse::<f64>().is_ok()
        || is_date(&lower)
        || ["0x", "0o", "0b"].iter().any(|prefix| lower.starts_with(prefix))
}

/// Four digits, a dash and so on: parsed as a timestamp.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut digits = |least: usize, most: usize| {
        parts.next().is_some_and(|part| {
            let count = part.bytes().take_while(u8::is_ascii_digit).count();
            (least..=most).contains(&count)
        })
    };
    digits(4, 4) && digits(1, 2) && digits(1, 2)
}

fn is_plain(text: &str) -> bool {
    let special = "#,[]{}&*!|>'\"%@`";
    let Some(first) = text.chars().next() else {
        return false;
    };
    let second_is_space = text.chars().nth(1).is_none_or(char::is_whitespace);
    !(special.contains(first)
        || (matches!(first, '-' | '?' | ':') && second_is_space)
        || first.is_whitespace()
        || text.ends_with([' ', ':'])
        || text.contains(": ")
        || text.contains(" #")
        || text.starts_with("---")
        || text.starts_with("..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> String {
        Schematic::parse(text).unwrap().resolve().0
    }

    #[test]
    fn well_known_ids() {
        assert_eq!(id("customization: {}\n"), model::EMPTY_SCHEMATIC);
        assert_eq!(id("{}"), model::EMPTY_SCHEMATIC);
        assert_eq!(id(r#"{"customization": {"extraKernelArgs": []}}"#), model::EMPTY_SCHEMATIC);
        assert_eq!(
            id(
                "customization: {systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}}"
            ),
            "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"
        );
    }

    #[test]
    fn the_form_is_canonical() {
        let schematic = Schematic::parse(
            r#"
customization:
  systemExtensions: {officialExtensions: [siderolabs/gvisor]}
  extraKernelArgs: [console=ttyS0, -selinux, "a: b", "true", '*x', "12"]
  meta:
    - {value: "one\ntwo", key: 12}
overlay: {name: rpi, image: siderolabs/sbc, options: {b: 1, a: "x"}}
"#,
        )
        .unwrap();
        let expected = "\
overlay:
    image: siderolabs/sbc
    name: rpi
    options:
        a: x
        b: 1
customization:
    extraKernelArgs:
        - console=ttyS0
        - -selinux
        - 'a: b'
        - \"true\"
        - '*x'
        - \"12\"
    meta:
        - key: 12
          value: |-
            one
            two
    systemExtensions:
        officialExtensions:
            - siderolabs/gvisor
";
        // The canonical form is its own.
        assert_eq!(schematic.to_yaml(), expected);
        assert_eq!(Schematic::parse(expected).unwrap(), schematic);
    }

    #[test]
    fn strangers_are_refused() {
        for text in ["customisation: {}", "customization: {extensions: []}", "owner: me", "", "- a"]
        {
            assert!(Schematic::parse(text).is_err(), "{text}");
        }
    }
}
