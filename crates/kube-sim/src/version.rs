//! The simulated version of Kubernetes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A version of Kubernetes, such as `v1.36.4`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Version(String);

impl Default for Version {
    fn default() -> Self {
        Self("v1.36.4".to_owned())
    }
}

impl Version {
    /// Parses a version; adds a missing `v`.
    pub(crate) fn new(text: &str) -> Self {
        Self(format!("v{}", text.trim_start_matches('v')))
    }

    /// The reply to `/version`.
    pub(crate) fn to_value(&self) -> Value {
        let mut parts = self.0.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or("1"), parts.next().unwrap_or("0"));
        json!({
            "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
            "gitVersion": self.0, "gitCommit": "0000000000000000000000000000000000000000",
            "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
            "goVersion": "go1.26.0", "compiler": "gc", "platform": "linux/amd64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_in_parts() {
        let value = Version::new("1.35.2").to_value();
        assert_eq!((&value["major"], &value["minor"]), (&json!("1"), &json!("35")));
        assert_eq!(value["gitVersion"], "v1.35.2");
    }
}
