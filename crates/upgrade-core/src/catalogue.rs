//! The releases a caller knows of. Data, never looked up: the planner takes the
//! newest patch of a line from here when a path passes through that line.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::version::{Minor, Version};

const BUILTIN: &str = include_str!("catalogue.toml");

/// A Talos release that should not be run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broken {
    /// The release.
    pub talos: Version,
    /// What is wrong with it.
    pub why: String,
}

/// Known releases of both products.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Talos releases, in any order.
    #[serde(default)]
    pub talos: Vec<Version>,
    /// Kubernetes releases, in any order.
    #[serde(default)]
    pub kubernetes: Vec<Version>,
    /// Releases that are never chosen.
    #[serde(default)]
    pub broken: Vec<Broken>,
}

/// A catalogue that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("version catalogue: {0}")]
pub struct CatalogueError(String);

impl Catalogue {
    /// What was known when this program was built.
    pub fn builtin() -> Self {
        Self::from_toml(BUILTIN).expect("the built-in catalogue is checked by a test")
    }

    /// Reads a catalogue of the same form as the built-in one.
    pub fn from_toml(text: &str) -> Result<Self, CatalogueError> {
        toml::from_str(text).map_err(|error| CatalogueError(error.to_string()))
    }

    /// The newest release of a Talos line that may be chosen unasked: no
    /// prerelease, nothing broken.
    pub fn newest_talos(&self, line: Minor) -> Option<&Version> {
        newest(&self.talos, line, |version| self.broken(version).is_none())
    }

    /// The newest release of a Kubernetes line.
    pub fn newest_kubernetes(&self, line: Minor) -> Option<&Version> {
        newest(&self.kubernetes, line, |_| true)
    }

    /// Why a Talos release should not be run, if it should not.
    pub fn broken(&self, talos: &Version) -> Option<&Broken> {
        self.broken.iter().find(|broken| broken.talos == *talos)
    }
}

fn newest(versions: &[Version], line: Minor, fit: impl Fn(&Version) -> bool) -> Option<&Version> {
    versions
        .iter()
        .filter(|version| version.minor() == line && !version.is_prerelease() && fit(version))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;

    #[test]
    fn builtin_covers_the_matrix() {
        let catalogue = Catalogue::builtin();
        for row in Matrix::builtin().rows().iter().filter(|row| row.released) {
            assert!(catalogue.newest_talos(row.talos).is_some(), "Talos {}", row.talos);
            let (mut line, last) = row.kubernetes_minors();
            while line <= last {
                assert!(catalogue.newest_kubernetes(line).is_some(), "Kubernetes {line}");
                line = line.next();
            }
        }
    }

    #[test]
    fn prereleases_and_broken_releases_are_never_chosen() {
        let catalogue = Catalogue::from_toml(
            "talos = [\"1.13.2\", \"1.13.3\", \"1.13.4-beta.0\"]\n\
             [[broken]]\ntalos = \"1.13.3\"\nwhy = \"panics\"\n",
        )
        .unwrap();
        let line = Minor::new(1, 13);
        assert_eq!(catalogue.newest_talos(line), Some(&Version::new(1, 13, 2)));
        assert_eq!(catalogue.broken(&Version::new(1, 13, 3)).unwrap().why, "panics");
        assert_eq!(catalogue.newest_talos(Minor::new(1, 14)), None);
    }

    #[test]
    fn a_bad_catalogue_names_its_fault() {
        let error = Catalogue::from_toml("talos = [\"1.13\"]").unwrap_err();
        assert!(error.to_string().contains("patch number is missing"), "{error}");
    }
}
