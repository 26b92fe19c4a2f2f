//! This command's access to the machine: environment, clock and terminal. No other file uses them.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::catalog::Tool;
use super::source::{Candidate, Source};
use super::variable;

/// Where tools are searched and stored.
#[derive(Debug)]
pub(crate) struct Host {
    /// The folder that holds one folder for each built tool.
    pub(crate) cache: PathBuf,
    /// The files that the user named, by tool.
    named: BTreeMap<&'static str, PathBuf>,
    assets: Option<PathBuf>,
    path: Vec<PathBuf>,
}

impl Host {
    /// Reads the environment once, for these tools.
    pub(crate) fn read(tools: &[&'static Tool]) -> Result<Self> {
        let named = |tool: &&'static Tool| {
            environment(&variable(tool.name)).map(|value| (tool.name, PathBuf::from(value)))
        };
        Ok(Self {
            cache: cache_folder()?,
            named: tools.iter().filter_map(named).collect(),
            assets: environment("KUBEBUILDER_ASSETS").map(PathBuf::from),
            path: environment("PATH").iter().flat_map(env::split_paths).collect(),
        })
    }

    /// The candidates for this tool, best first: the file that the user named, the installed test
    /// binaries, our own exact build, then the PATH.
    pub(crate) fn candidates(&self, tool: &Tool, entry: &Path) -> Vec<Candidate> {
        let Self { cache: _, named, assets, path } = self;
        let in_folder = |source: Source, folder: &Path| {
            let path = folder.join(tool.binary);
            path.is_file().then_some(Candidate { source, path })
        };
        // Included even if it does not exist: the user has to know.
        let named = named.get(tool.name).map(|path| Candidate {
            source: Source::Variable(variable(tool.name)),
            path: path.clone(),
        });
        let assets = assets.as_deref().and_then(|folder| in_folder(Source::Assets, folder));
        let cached = in_folder(Source::Cache, entry);
        // Like a shell: only the first match on the PATH counts.
        let on_path = path.iter().find_map(|folder| in_folder(Source::Path, folder));
        [named, assets, cached, on_path].into_iter().flatten().collect()
    }
}

/// The cache of the built tools.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    // A relative XDG_CACHE_HOME is invalid by its specification, and would mean another cache for
    // each working directory.
    let cache = environment("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("no cache folder for the tools: set XDG_CACHE_HOME or HOME")?;
    Ok(cache.join("talos-operator/tools"))
}

/// An empty variable counts as unset.
#[expect(clippy::disallowed_methods, reason = "the one place where this command reads settings")]
fn environment(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The time, for showing how long a build takes and ending one that hangs.
#[expect(clippy::disallowed_methods, reason = "the one place where this command reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Results go to stdout. A closed pipe is not an error.
pub(crate) fn print_table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) {
    let mut out = io::stdout().lock();
    for line in table(header, rows) {
        writeln!(out, "{line}").ok();
    }
}

/// One line of a result.
pub(crate) fn print_line(line: &str) {
    writeln!(io::stdout().lock(), "{line}").ok();
}

/// Everything except results goes to stderr.
pub(crate) fn note(line: &str) {
    writeln!(io::stderr().lock(), "{line}").ok();
}

/// A line that the next one overwrites; for terminals only.
pub(crate) fn overwrite(line: &str) {
    let mut err = io::stderr().lock();
    write!(err, "\r\x1b[2K{line}").ok();
    err.flush().ok();
}

pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

fn table<const COLUMNS: usize>(header: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> Vec<String> {
    let mut widths = header.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let line = |cells: [&str; COLUMNS]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(header)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::catalog;
    use super::*;

    #[test]
    fn candidates_come_best_first_and_only_if_they_are_there() {
        let root = env::temp_dir().join(format!("xtask-candidates-{}", std::process::id()));
        for folder in ["assets", "entry", "first", "second"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
            fs::write(root.join(folder).join("etcd"), "").expect("a file");
        }
        let host = Host {
            cache: root.clone(),
            named: BTreeMap::from([("etcd", root.join("nowhere"))]),
            assets: Some(root.join("assets")),
            path: vec![root.join("empty"), root.join("first"), root.join("second")],
        };
        let found = |name: &str| {
            let [tool] = catalog::select(&[name]).expect("a tool")[..] else { panic!("one tool") };
            host.candidates(tool, &root.join("entry"))
        };
        let expected = [
            (Source::Variable("TALOS_OPERATOR_TOOL_ETCD".to_owned()), "nowhere"),
            (Source::Assets, "assets/etcd"),
            (Source::Cache, "entry/etcd"),
            (Source::Path, "first/etcd"),
        ]
        .map(|(source, path)| Candidate { source, path: root.join(path) });
        assert_eq!(found("etcd"), expected);
        assert_eq!(found("etcdutl"), []);
        fs::remove_dir_all(&root).expect("cleaning up");
    }

    #[test]
    fn columns_line_up_and_lines_end_clean() {
        let rows = [["etcd".to_owned(), String::new()], ["a".to_owned(), "b".to_owned()]];
        assert_eq!(table(["T", "PATH"], &rows), ["T     PATH", "etcd", "a     b"]);
    }
}
