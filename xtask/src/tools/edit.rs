//! Changes to the sources of a module before it is built.
//!
//! A folder below `tools/` may hold an `edits.txt`. The module is then fetched by name, checked
//! against `go.sum`, copied beside the build, changed there and built from the copy. This
//! repository keeps none of its sources except the few words that each change replaces; a change
//! whose text does not occur exactly once stops the build.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use semver::Version;

use super::build::go;
use super::catalog::Tool;
use super::folder::Folder;

/// The path of the copy, below the build's folder.
const COPY: &str = "source";

/// One change.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    /// The file, below the module.
    file: String,
    old: String,
    new: String,
}

/// Makes the edited copy of a tool's module and returns the `go.mod` to build it with; `None` for a
/// tool without edits.
pub(super) fn prepare(
    tool: &Tool,
    folder: &Folder,
    wanted: &Version,
    build: &Path,
) -> Result<Option<PathBuf>> {
    let Some(text) = folder.file("edits.txt") else { return Ok(None) };
    let edits = parse(&text).with_context(|| format!("tools/{}/edits.txt", tool.folder))?;
    let copy = build.join(COPY);
    copy_folder(&fetched(tool.module, folder)?, &copy)?;
    for edit in &edits {
        apply(&copy, edit)
            .with_context(|| format!("{} {wanted} does not match edits.txt", tool.module))?;
    }
    let module_file = build.join("go.mod");
    let pinned = folder.file("go.mod").context("a folder without go.mod")?;
    let (module, place) = (tool.module, copy.display());
    fs::write(&module_file, format!("{pinned}\nreplace {module} v{wanted} => {place}\n"))?;
    fs::write(build.join("go.sum"), folder.file("go.sum").unwrap_or_default())?;
    Ok(Some(module_file))
}

/// Removes files that only the build needed.
pub(super) fn discard(build: &Path) -> Result<()> {
    fs::remove_dir_all(build.join(COPY)).context("removing the edited sources")?;
    for name in ["go.mod", "go.sum"] {
        fs::remove_file(build.join(name)).with_context(|| format!("removing {name}"))?;
    }
    Ok(())
}

/// The folder of a module in Go's cache, which checks it against `go.sum`.
pub(super) fn fetched(module: &str, folder: &Folder) -> Result<PathBuf> {
    let arguments = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module];
    let download = go(folder).args(["mod", "download", module]).output();
    let download = download.context("running `go mod download`")?;
    if !download.status.success() {
        bail!("fetching {module}: {}", String::from_utf8_lossy(&download.stderr).trim());
    }
    let listed = go(folder).args(arguments).output().context("running `go list`")?;
    let place = String::from_utf8_lossy(&listed.stdout).trim().to_owned();
    if !listed.status.success() || place.is_empty() {
        bail!("finding {module}: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    Ok(PathBuf::from(place))
}

/// Copies a folder as writable files: Go's cache is read-only.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &place)?;
        } else {
            // Written, not copied: a copy would keep the permissions.
            fs::write(&place, fs::read(entry.path())?)
                .with_context(|| format!("writing {}", place.display()))?;
        }
    }
    Ok(())
}

fn apply(copy: &Path, Edit { file, old, new }: &Edit) -> Result<()> {
    let path = copy.join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
    match text.matches(old.as_str()).count() {
        1 => Ok(fs::write(&path, text.replacen(old.as_str(), new, 1))?),
        found => bail!("`{old}` occurs {found} times in {file}; one is expected"),
    }
}

/// Reads `@ FILE`, `- OLD` and `+ NEW` lines; `#` begins a remark.
fn parse(text: &str) -> Result<Vec<Edit>> {
    let mut edits = Vec::new();
    let (mut file, mut old) = (None, None);
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        match line.split_once(' ') {
            _ if line.trim().is_empty() || line.starts_with('#') => {}
            Some(("@", rest)) if file.is_none() => file = Some(rest.to_owned()),
            Some(("-", rest)) if file.is_some() && old.is_none() => old = Some(rest.to_owned()),
            Some(("+", rest)) => {
                let (Some(file), Some(old)) = (file.take(), old.take()) else {
                    bail!("line {number}: a `+` line without `@` and `-` before it");
                };
                edits.push(Edit { file, old, new: rest.to_owned() });
            }
            _ => bail!("line {number} must be one of `@ FILE`, `- OLD`, `+ NEW`, in this order"),
        }
    }
    if file.is_some() {
        bail!("the last change has no `+` line");
    }
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn edits_come_in_threes() {
        let edits = parse("# why\n\n@ a/b.go\n# more\n- x  y\n+ z\n").expect("one change");
        let [Edit { file, old, new }] = &edits[..] else { panic!("{edits:?}") };
        assert_eq!((file.as_str(), old.as_str(), new.as_str()), ("a/b.go", "x  y", "z"));
        for wrong in ["@ a\n- b\n", "- b\n+ c\n", "@ a\n@ b\n", "@ a\n+ c\n", "nonsense\n"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_edit_that_does_not_match_once_stops_the_build() {
        let root = env::temp_dir().join(format!("xtask-edits-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        fs::write(root.join("a.go"), "one two two\n").expect("a file");
        let edit = |old: &str| Edit { file: "a.go".into(), old: old.into(), new: "new".into() };
        for old in ["two", "three"] {
            let error = apply(&root, &edit(old)).expect_err("no single match").to_string();
            assert!(error.contains("one is expected"), "{error}");
        }
        apply(&root, &edit("one")).expect("a single match");
        let text = fs::read_to_string(root.join("a.go")).expect("a file");
        assert_eq!(text, "new two two\n");
        fs::remove_dir_all(&root).expect("cleaning up");
    }

    #[test]
    fn the_edits_of_this_repository_can_be_read() {
        for name in ["real-talos/machined-1.13", "real-talos/machined-1.14"] {
            let folder = Folder::read(name).expect("a folder");
            let text = folder.file("edits.txt").expect("edits");
            assert!(parse(&text).expect("readable").len() > 3, "{name}");
        }
    }
}
