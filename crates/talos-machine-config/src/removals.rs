//! What the next Kubernetes no longer has, compared with what a cluster uses.
//!
//! The table is in `removals.toml`; a caller may bring a newer one of the same form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use serde::Deserialize;
use thiserror::Error;
use upgrade_core::snapshot::Component;
use upgrade_core::version::Minor;

use crate::settings::Settings;

const BUILTIN: &str = include_str!("removals.toml");

/// What one minor removed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kubernetes: Minor,
    /// Common to all components.
    #[serde(default)]
    feature_gates: BTreeSet<String>,
    #[serde(default)]
    admission_plugins: BTreeSet<String>,
    #[serde(default)]
    flags: BTreeMap<Component, BTreeSet<String>>,
    /// `resource.version.group`, where no newer version holds the objects.
    #[serde(default)]
    resources: Vec<Resource>,
}

/// A resource of the API that is gone, written `resource.version.group`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Resource {
    /// Group and version, such as `scheduling.k8s.io/v1alpha2`.
    pub api_version: String,
    /// The resource's name in the plural.
    pub name: String,
}

impl TryFrom<String> for Resource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut parts = text.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(name), Some(version), Some(group)) => {
                Ok(Self { api_version: format!("{group}/{version}"), name: name.to_owned() })
            }
            _ => Err(format!("`{text}` is not written like resource.version.group")),
        }
    }
}

impl Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.name)
    }
}

/// The whole table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removals {
    #[serde(rename = "minor")]
    rows: Vec<Row>,
}

/// A table that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("table of removals: {0}")]
pub struct RemovalsError(String);

/// Something in use that the next minor does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A flag of a component: it would not start.
    Flag {
        /// The component.
        component: Component,
        /// Where it is set in the machine configuration.
        place: &'static str,
        /// The flag, without dashes.
        name: String,
        /// The minor that removed it.
        gone: Minor,
    },
    /// A feature gate: the component would not start.
    FeatureGate {
        /// The component.
        component: Component,
        /// Where it is set.
        place: &'static str,
        /// The gate.
        name: String,
        /// The minor that removed it.
        gone: Minor,
    },
    /// An admission plugin: the API server would not start.
    AdmissionPlugin {
        /// Where it is set.
        place: &'static str,
        /// The plugin.
        name: String,
        /// The minor that removed it.
        gone: Minor,
    },
    /// Objects that would no longer be reachable.
    Objects {
        /// Group, version and resource.
        resource: String,
        /// How many there are.
        count: usize,
        /// The minor that removed it.
        gone: Minor,
    },
    /// A version of the API that a client has used. Its objects live on in a newer version, and
    /// the client may no longer exist.
    Requested {
        /// Group, version and resource.
        resource: String,
        /// The minor that removed it.
        gone: Minor,
    },
}

impl Finding {
    /// Whether the upgrade must not start: only for what breaks Kubernetes itself. The request
    /// of a client is reported.
    pub const fn is_fatal(&self) -> bool {
        !matches!(self, Self::Requested { .. })
    }

    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Flag { .. } | Self::AdmissionPlugin { .. } => "remove it from extraArgs",
            Self::FeatureGate { .. } => "remove it, since its feature is always on or gone",
            Self::Objects { .. } => "delete them, or migrate them to their replacement",
            Self::Requested { .. } => "update the client that uses it",
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag { component, place, name, gone } => {
                write!(f, "{component} {gone} has no flag --{name} (set in {place})")
            }
            Self::FeatureGate { component, place, name, gone } => {
                write!(f, "{component} {gone} has no feature gate {name} (set in {place})")
            }
            Self::AdmissionPlugin { place, name, gone } => {
                write!(f, "kube-apiserver {gone} has no admission plugin {name} (set in {place})")
            }
            Self::Objects { resource, count, gone } => {
                write!(f, "Kubernetes {gone} has no {resource}, but {count} objects exist")
            }
            Self::Requested { resource, gone } => {
                write!(f, "Kubernetes {gone} has no {resource}, but a client has used it")
            }
        }
    }
}

impl Removals {
    /// The built-in table.
    pub fn builtin() -> Self {
        Self::from_toml(BUILTIN).expect("the built-in table is checked by a test")
    }

    /// Reads a table of the same form as the built-in one.
    pub fn from_toml(text: &str) -> Result<Self, RemovalsError> {
        let table: Self = toml::from_str(text).map_err(|error| RemovalsError(error.to_string()))?;
        for pair in table.rows.windows(2) {
            if pair[0].kubernetes >= pair[1].kubernetes {
                let minor = pair[1].kubernetes;
                let text = format!("{minor} is out of order; list each minor once, oldest first");
                return Err(RemovalsError(text));
            }
        }
        Ok(table)
    }

    /// The rows after `from`, up to `to`.
    fn between(&self, from: Minor, to: Minor) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| from < row.kubernetes && row.kubernetes <= to)
    }

    /// The resources that are removed on the way, and by which minor.
    pub fn resources(&self, from: Minor, to: Minor) -> Vec<(&Resource, Minor)> {
        let rows = self.between(from, to);
        rows.flat_map(|row| row.resources.iter().map(|one| (one, row.kubernetes))).collect()
    }

    /// The settings of one machine that are removed on the way.
    pub fn findings(&self, from: Minor, to: Minor, settings: &[Settings]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for row in self.between(from, to) {
            let gone = row.kubernetes;
            for Settings { component, place, flags, feature_gates, admission_plugins } in settings {
                let (component, place) = (*component, *place);
                let removed = row.flags.get(&component).into_iter().flatten();
                findings.extend(
                    removed.filter(|name| flags.contains(*name)).map(|name| Finding::Flag {
                        component,
                        place,
                        name: name.clone(),
                        gone,
                    }),
                );
                findings.extend(row.feature_gates.intersection(feature_gates).map(|name| {
                    Finding::FeatureGate { component, place, name: name.clone(), gone }
                }));
                if component == Component::KubeApiserver {
                    let removed = row.admission_plugins.intersection(admission_plugins);
                    findings.extend(removed.map(|name| Finding::AdmissionPlugin {
                        place,
                        name: name.clone(),
                        gone,
                    }));
                }
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::settings;

    const TEXT: &str = "\
machine: {kubelet: {extraArgs: {pod-infra-container-image: x, v: '2'}}}
cluster:
  apiServer: {extraArgs: {feature-gates: 'MemoryManager=true,KMSv2=true', cloud-config: x}}
";

    fn found(from: u64, to: u64) -> Vec<String> {
        let settings = settings(TEXT).unwrap();
        let found = Removals::builtin().findings(Minor::new(1, from), Minor::new(1, to), &settings);
        assert!(found.iter().all(|finding| finding.is_fatal() && !finding.advice().is_empty()));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn removals_between_two_minors_are_found() {
        assert_eq!(
            found(34, 35),
            ["kubelet 1.35 has no flag --pod-infra-container-image (set in machine.kubelet)"]
        );
        assert_eq!(
            found(35, 36),
            ["kube-apiserver 1.36 has no feature gate MemoryManager (set in cluster.apiServer)"]
        );
        assert_eq!(found(34, 34), Vec::<String>::new());
        assert_eq!(found(36, 37), Vec::<String>::new());
        assert_eq!(found(31, 36).len(), 4);
    }

    #[test]
    fn the_table_covers_every_released_minor_of_the_matrix() {
        use upgrade_core::matrix::Matrix;
        let matrix = Matrix::builtin();
        let newest = matrix.rows().iter().filter(|row| row.released);
        let newest = newest.map(|row| row.kubernetes_minors().1).max();
        let rows = Removals::builtin().rows;
        assert_eq!(rows.last().map(|row| row.kubernetes), newest);
    }

    #[test]
    fn invalid_tables_are_refused() {
        let table = Removals::builtin();
        let gone = table.resources(Minor::new(1, 36), Minor::new(1, 37));
        let names: Vec<_> = gone.iter().map(|(one, _)| one.to_string()).collect();
        assert!(names.contains(&"scheduling.k8s.io/v1alpha2 workloads".to_owned()), "{names:?}");
        for (text, hint) in [
            ("[[minor]]\nkubernetes = \"1.35\"\nresources = [\"pods\"]", "resource.version.group"),
            ("[[minor]]\nkubernetes = \"1.36\"\n[[minor]]\nkubernetes = \"1.35\"", "out of order"),
            ("[[minor]]\nkubernetes = \"1.36\"\nflagz = {}", "flagz"),
        ] {
            let error = Removals::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
