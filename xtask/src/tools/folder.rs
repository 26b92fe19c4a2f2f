//! A folder below `tools/`: its pins, and the hash of its content.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use semver::Version;
use sha2::{Digest, Sha256};

/// One Go module of ours, read whole: these folders hold a few small files.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// The oldest Go that can build it.
    pub(crate) go: Version,
    requirements: BTreeMap<String, Version>,
    /// Contents by name.
    files: BTreeMap<String, Vec<u8>>,
}

impl Folder {
    /// Reads the folder `tools/<name>` of this checkout.
    pub(crate) fn read(name: &str) -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools").join(name);
        let path = path.canonicalize().with_context(|| format!("tools/{name} does not exist"))?;
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&path).with_context(|| format!("reading {}", path.display()))? {
            let entry = entry?;
            let file_name = entry.file_name().to_string_lossy().into_owned();
            // Hidden files belong to editors and file managers, never to Go.
            if entry.file_type()?.is_file() && !file_name.starts_with('.') {
                files.insert(file_name, fs::read(entry.path())?);
            }
        }
        let go_mod = files.get("go.mod").with_context(|| format!("tools/{name} has no go.mod"))?;
        let (go, requirements) = parse_go_mod(&String::from_utf8_lossy(go_mod))
            .with_context(|| format!("tools/{name}/go.mod names no Go version"))?;
        Ok(Self { path, go, requirements, files })
    }

    /// The version that `go.mod` pins for a module.
    pub(crate) fn version_of(&self, module: &str) -> Result<Version> {
        let version = self.requirements.get(module);
        version.cloned().with_context(|| format!("{}: no {module} in go.mod", self.path.display()))
    }

    /// One of its files, as text.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        self.files.get(name).map(|contents| String::from_utf8_lossy(contents).into_owned())
    }

    /// A short hash of all files and the build recipe.
    pub(crate) fn fingerprint(&self, recipe: &str) -> String {
        fingerprint(&self.files, recipe)
    }
}

/// Twelve hex digits: enough to distinguish a handful of folders, short enough to read in a path.
fn fingerprint(files: &BTreeMap<String, Vec<u8>>, recipe: &str) -> String {
    let mut hasher = Sha256::new();
    let recipe = ("", recipe.as_bytes());
    let files = files.iter().map(|(name, contents)| (name.as_str(), contents.as_slice()));
    for (name, contents) in std::iter::once(recipe).chain(files) {
        // Lengths first, so that bytes cannot move from one file to the next unnoticed.
        for part in [name.as_bytes(), contents] {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize()[..6].iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// The `go` line and the required modules. Replacements are ignored: the part after `=>` is another
/// module, and none of our tools is itself replaced.
fn parse_go_mod(text: &str) -> Option<(Version, BTreeMap<String, Version>)> {
    let mut go = None;
    let mut requirements = BTreeMap::new();
    let mut block = None;
    for line in text.lines() {
        let words: Vec<&str> =
            line.split("//").next().unwrap_or_default().split_whitespace().collect();
        match (block, words.as_slice()) {
            (_, [")"]) => block = None,
            (None, [verb, "("]) => block = Some(*verb),
            (None, ["go", version]) => go = parse_go_version(version),
            (None, ["require", module, version]) | (Some("require"), [module, version]) => {
                if let Ok(version) = Version::parse(version.trim_start_matches('v')) {
                    requirements.insert((*module).to_owned(), version);
                }
            }
            _ => {}
        }
    }
    Some((go?, requirements))
}

/// Go's own versions: `1.26.5`, `1.26`, and with the prefix `go` in Go's own output. Any suffix
/// (`rc1`, an experiment's name) is dropped; it never decides whether a module builds.
pub(crate) fn parse_go_version(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches("go");
    let numbers: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let mut parts = numbers.split('.').map(str::parse);
    let major = parts.next()?.ok()?;
    let minor = parts.next()?.ok()?;
    let patch = parts.next().and_then(Result::ok).unwrap_or(0);
    Some(Version::new(major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_hash_sees_every_name_and_byte() {
        let base = fingerprint(&files(&[("a", "xy"), ("b", "z")]), "r");
        assert_eq!(base.len(), 12);
        assert_eq!(base, fingerprint(&files(&[("b", "z"), ("a", "xy")]), "r"));
        for (other, recipe) in [
            (files(&[("a", "x"), ("b", "yz")]), "r"),
            (files(&[("a", "xy"), ("c", "z")]), "r"),
            (files(&[("a", "xy")]), "r"),
            (files(&[("a", "xy"), ("b", "z")]), "s"),
        ] {
            assert_ne!(base, fingerprint(&other, recipe), "{other:?} {recipe}");
        }
    }

    #[test]
    fn go_mod_gives_versions_but_not_replacements() {
        let (go, requirements) = parse_go_mod(
            "module m\n\ngo 1.26.5 // no older\n\nreplace (\n\ta.b/c => a.b/c v1.0.0\n)\n\n\
             require a.b/c v1.2.3\n\nrequire (\n\td.e/f v0.9.0 // indirect\n\
             \tg.h/i v0.0.0-20240101000000-abcdefabcdef\n)\n",
        )
        .expect("a go line");
        assert_eq!(go, Version::new(1, 26, 5));
        assert_eq!(requirements["a.b/c"], Version::new(1, 2, 3));
        assert_eq!(requirements["d.e/f"], Version::new(0, 9, 0));
        assert_eq!(requirements.len(), 3);
        assert!(parse_go_mod("module m\n").is_none());
    }

    #[test]
    fn go_reports_itself_in_several_spellings() {
        for (text, version) in [
            ("go1.26.8\n", Version::new(1, 26, 8)),
            ("1.26", Version::new(1, 26, 0)),
            ("go1.27rc1", Version::new(1, 27, 0)),
            ("go1.26.8 X:nodwarf5", Version::new(1, 26, 8)),
        ] {
            assert_eq!(parse_go_version(text), Some(version), "{text}");
        }
        assert_eq!(parse_go_version("devel"), None);
    }
}
