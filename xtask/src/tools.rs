//! `cargo xtask tools`: the real programs that the tests run against.
//!
//! Talos clients, etcd and the Kubernetes control plane are built from Go modules pinned in the
//! folders below `tools/`. Results go into a cache of the user, in a folder named after the version
//! and a hash of all build inputs: a changed pin gives a new folder, and two checkouts with the
//! same pins share one.
//!
//! Other commands call [`ensure`] and hand the paths to the tests through
//! [`variable`]; the same variables let a user bring a binary of their own.

mod build;
mod catalog;
mod edit;
mod folder;
pub(crate) mod host;
mod source;
pub(crate) mod version;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use semver::Version;

use self::build::Job;
use self::catalog::Tool;
use self::folder::Folder;
use self::host::Host;
use self::source::{Choice, Source};

/// Builds the real programs the tests run against, where they are missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tools, or folders below `tools/`; all if omitted
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Only show each tool, its version and where it comes from
    #[arg(long)]
    list: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let Args { names, list } = args;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if !list {
        ensure_with(&names, host::is_watched())?;
    }
    let rows = plan(&names)?.into_iter().map(Planned::into_row).collect::<Vec<_>>();
    host::print_table(["TOOL", "VERSION", "FROM", "PATH"], &rows);
    Ok(())
}

/// The path of every requested tool (all if `names` is empty); builds the missing ones.
pub(crate) fn ensure(names: &[&str]) -> Result<BTreeMap<&'static str, PathBuf>> {
    ensure_with(names, host::is_watched())
}

/// The same while another task uses the terminal: progress is a line now and then.
pub(crate) fn ensure_beside(names: &[&str]) -> Result<BTreeMap<&'static str, PathBuf>> {
    ensure_with(names, false)
}

fn ensure_with(names: &[&str], redrawn: bool) -> Result<BTreeMap<&'static str, PathBuf>> {
    let planned = plan(names)?;
    // Report a wrong file from the user before minutes of builds.
    for Planned { tool, choice, .. } in &planned {
        if let Choice::Refuse { reason } = choice {
            bail!("{}: {reason}", tool.name);
        }
    }

    let total = planned.iter().filter(|p| matches!(p.choice, Choice::Build { .. })).count();
    let mut position = 0;
    let mut paths = BTreeMap::new();
    for Planned { tool, folder, wanted, entry, choice } in planned {
        let path = match choice {
            Choice::Cached { path } => path,
            Choice::Use { source, path, found } => {
                let path_shown = path.display();
                host::note(&format!("{}: using {path_shown} ({source}, {found})", tool.name));
                path
            }
            Choice::Build { passed_over } => {
                position += 1;
                for reason in passed_over {
                    host::note(&format!("{}: {reason}", tool.name));
                }
                build::build(&Job {
                    tool,
                    folder: &folder,
                    wanted,
                    entry,
                    position,
                    total,
                    redrawn,
                })?
            }
            Choice::Refuse { reason } => bail!("{}: {reason}", tool.name),
        };
        paths.insert(tool.name, path);
    }
    Ok(paths)
}

/// The version of a tool that its `go.mod` pins.
pub(crate) fn pinned(name: &str) -> Result<Version> {
    match &plan(&[name])?[..] {
        [Planned { wanted, .. }] => Ok(wanted.clone()),
        _ => bail!("{name} is not one tool"),
    }
}

/// A folder of the module that a tool is built from, in Go's cache.
pub(crate) fn sources(name: &str, module: &str) -> Result<PathBuf> {
    match &plan(&[name])?[..] {
        [Planned { folder, .. }] => edit::fetched(module, folder),
        _ => bail!("{name} is not one tool"),
    }
}

/// The environment variable that carries a tool's path: to us from the user,
/// and from us to the tests.
pub(crate) fn variable(name: &str) -> String {
    let upper = name.to_ascii_uppercase().replace(['-', '.'], "_");
    format!("TALOS_OPERATOR_TOOL_{upper}")
}

/// One tool, and what to do about it.
struct Planned {
    tool: &'static Tool,
    folder: Folder,
    wanted: Version,
    /// Its folder in the cache, which may not exist.
    entry: PathBuf,
    choice: Choice,
}

impl Planned {
    fn into_row(self) -> [String; 4] {
        let Self { tool, folder: _, wanted, entry: _, choice } = self;
        let (version, from, path) = match choice {
            Choice::Cached { path } => (wanted, "cache".to_owned(), path.display().to_string()),
            Choice::Use { source, path, found } => {
                (found, source.to_string(), path.display().to_string())
            }
            Choice::Build { passed_over } => {
                (wanted, "missing".to_owned(), parenthesised(&passed_over))
            }
            Choice::Refuse { reason } => (wanted, "refused".to_owned(), parenthesised(&[reason])),
        };
        [tool.name.to_owned(), version.to_string(), from, path]
    }
}

fn parenthesised(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!("({})", reasons.join("; ")) }
}

fn plan(names: &[&str]) -> Result<Vec<Planned>> {
    let tools = catalog::select(names)?;
    let host = Host::read(&tools)?;
    tools
        .into_iter()
        .map(|tool| {
            let folder = Folder::read(tool.folder)?;
            let wanted = match tool.module {
                // Our own programs have no version; their cache entry has a hash.
                "" => Version::new(0, 1, 0),
                module => folder.version_of(module)?,
            };
            let hash = folder.fingerprint(&tool.recipe(&wanted));
            let entry = host.cache.join(format!("{}-{wanted}-{hash}", tool.name));
            let mut candidates = host.candidates(tool, &entry);
            if tool.on_request {
                // The nodes must not run a containerd or kubelet of the host.
                candidates.retain(|candidate| candidate.source == Source::Cache);
            }
            let choice = source::choose(&wanted, &candidates, |path| {
                version::probe(path, tool.version_arguments)
            });
            Ok(Planned { tool, folder, wanted, entry, choice })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_spelled_like_shell_names() {
        assert_eq!(variable("talosctl-1.14"), "TALOS_OPERATOR_TOOL_TALOSCTL_1_14");
        assert_eq!(variable("kube-apiserver"), "TALOS_OPERATOR_TOOL_KUBE_APISERVER");
    }

    #[test]
    fn every_tool_has_a_pinned_version_in_its_folder() {
        for tool in catalog::select(&[]).expect("all tools") {
            let folder = Folder::read(tool.folder).expect("a readable folder");
            folder.version_of(tool.module).expect("a pinned version");
        }
    }

    /// The parts of the nodes and the control plane of the tests have the same release.
    #[test]
    fn the_kubelet_is_of_the_same_version_as_the_control_plane() {
        let version = |folder| {
            Folder::read(folder).and_then(|folder| folder.version_of("k8s.io/kubernetes")).ok()
        };
        assert!(version("kubernetes").is_some());
        assert_eq!(version("kubernetes"), version("real-talos/kubelet"));
    }

    /// The client prints the tag embedded in this module, not the version of the module that we pin
    /// by name; the two drift apart if a dependency raises it.
    #[test]
    fn the_talos_tag_comes_from_the_pinned_version() {
        for name in [
            "talosctl-1.12",
            "talosctl-1.13",
            "talosctl-1.14",
            "real-talos/machined-1.13",
            "real-talos/machined-1.14",
        ] {
            let folder = Folder::read(name).expect("a readable folder");
            assert_eq!(
                folder.version_of("github.com/siderolabs/talos").expect("the client"),
                folder.version_of("github.com/siderolabs/talos/pkg/machinery").expect("its tag"),
            );
        }
    }
}
