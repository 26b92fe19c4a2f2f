//! Chooses between several binaries, or a build.

use std::fmt;
use std::path::{Path, PathBuf};

use semver::Version;

use super::version::fits;

/// Where a binary comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The environment variable of that name.
    Variable(String),
    /// The folder that `KUBEBUILDER_ASSETS` names.
    Assets,
    /// Our own earlier build.
    Cache,
    /// A folder on the PATH.
    Path,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad`, not `write`: the names are shown in columns.
        formatter.pad(match self {
            Self::Variable(name) => name,
            Self::Assets => "KUBEBUILDER_ASSETS",
            Self::Cache => "cache",
            Self::Path => "PATH",
        })
    }
}

/// An existing file that might be the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) source: Source,
    pub(crate) path: PathBuf,
}

/// What to do for one tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Our own earlier build, exactly as pinned.
    Cached { path: PathBuf },
    /// Another binary that is good enough.
    Use { source: Source, path: PathBuf, found: Version },
    /// None fits; `passed_over` has the reason for each candidate.
    Build { passed_over: Vec<String> },
    /// The user named a file for this tool that does not fit. Using another one would test
    /// something else than the user asked for.
    Refuse { reason: String },
}

/// Chooses the first candidate that fits. They come in order of preference, and `probe`, which runs
/// the program, is called only as far as needed.
pub(crate) fn choose(
    wanted: &Version,
    candidates: &[Candidate],
    mut probe: impl FnMut(&Path) -> Result<Version, String>,
) -> Choice {
    let mut passed_over = Vec::new();
    for Candidate { source, path } in candidates {
        // Its version was checked when it was built.
        if *source == Source::Cache {
            return Choice::Cached { path: path.clone() };
        }
        let shown = path.display();
        let problem = match probe(path) {
            Ok(found) if fits(wanted, &found) => {
                return Choice::Use { source: source.clone(), path: path.clone(), found };
            }
            Ok(found) => {
                let Version { major, minor, .. } = wanted;
                format!("is {found}, not {wanted} or a later {major}.{minor}")
            }
            Err(problem) => problem,
        };
        let reason = format!("{shown} ({source}) {problem}");
        if matches!(source, Source::Variable(_)) {
            return Choice::Refuse { reason: format!("{reason}; correct or unset the variable") };
        }
        passed_over.push(reason);
    }
    Choice::Build { passed_over }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Version = Version::new(1, 14, 1);

    fn candidate(source: Source) -> Candidate {
        let path = PathBuf::from(format!("/{source}/talosctl"));
        Candidate { source, path }
    }

    fn variable() -> Source {
        Source::Variable("VARIABLE".to_owned())
    }

    /// Every candidate prints this version.
    fn printing(version: Version) -> impl FnMut(&Path) -> Result<Version, String> {
        move |_| Ok(version.clone())
    }

    #[test]
    fn without_candidates_the_tool_is_built() {
        let choice = choose(&WANTED, &[], |_| panic!("nothing to run"));
        assert_eq!(choice, Choice::Build { passed_over: vec![] });
    }

    #[test]
    fn the_first_that_fits_is_used() {
        for source in [variable(), Source::Assets, Source::Path] {
            let candidates = [candidate(source.clone()), candidate(Source::Cache)];
            let found = Version::new(1, 14, 3);
            let Candidate { source, path } = candidate(source);
            assert_eq!(
                choose(&WANTED, &candidates, printing(found.clone())),
                Choice::Use { source, path, found },
            );
        }
    }

    #[test]
    fn the_cache_is_taken_without_running_it() {
        let candidates = [candidate(Source::Cache), candidate(Source::Path)];
        let choice = choose(&WANTED, &candidates, |_| panic!("not to be run"));
        assert_eq!(choice, Choice::Cached { path: candidate(Source::Cache).path });
    }

    #[test]
    fn unsuitable_candidates_are_skipped_with_a_reason() {
        let candidates = [candidate(Source::Assets), candidate(Source::Path)];
        let Choice::Build { passed_over } =
            choose(&WANTED, &candidates, printing(Version::new(1, 13, 9)))
        else {
            panic!("nothing fits")
        };
        assert_eq!(
            passed_over,
            [
                "/KUBEBUILDER_ASSETS/talosctl (KUBEBUILDER_ASSETS) is 1.13.9, \
                 not 1.14.1 or a later 1.14",
                "/PATH/talosctl (PATH) is 1.13.9, not 1.14.1 or a later 1.14",
            ],
        );
    }

    #[test]
    fn a_named_file_is_never_replaced_silently() {
        let candidates = [candidate(variable()), candidate(Source::Cache)];
        for outcome in [Ok(Version::new(1, 13, 9)), Err("does not start".to_owned())] {
            let choice = choose(&WANTED, &candidates, |_| outcome.clone());
            assert!(matches!(choice, Choice::Refuse { .. }), "{choice:?}");
        }
    }
}
