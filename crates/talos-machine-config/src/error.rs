//! Errors of a configuration; none of them quotes its content (rule 14).

use thiserror::Error;

use crate::yaml::YamlError;

/// A configuration that cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The text is not YAML.
    #[error(
        "machine configuration, line {line}: this is not YAML; apply one that Talos accepts, \
         then continue"
    )]
    Unreadable {
        /// From 1.
        line: usize,
    },
    /// There is no place for the value.
    #[error(
        "machine configuration: there is no v1alpha1 document to hold {path}; apply a complete \
         configuration, then continue"
    )]
    NoPlace {
        /// What has no place.
        path: &'static str,
    },
    /// A key or a document appears twice, and it is not defined which one Talos takes.
    #[error("machine configuration, line {line}: {what} appears twice; keep one of them")]
    Twice {
        /// The key or kind.
        what: String,
        /// The second one's line, from 1.
        line: usize,
    },
    /// A scalar or a list stands where a section should be.
    #[error("machine configuration, line {line}: {path} is not a section with keys; make it one")]
    NotASection {
        /// The path of the value.
        path: String,
        /// From 1.
        line: usize,
    },
    /// The value is shared with other places through an anchor or a merge key.
    #[error(
        "machine configuration, line {line}: {path} is shared with other places through a YAML \
         anchor, which would change them too; write it out, then continue"
    )]
    Shared {
        /// The path of the value.
        path: String,
        /// From 1.
        line: usize,
    },
    /// The value is not a text on one line.
    #[error(
        "machine configuration, line {line}: {path} is not an image reference on one line; \
         write it as registry/name:tag"
    )]
    NotAnImage {
        /// The path of the value.
        path: String,
        /// From 1.
        line: usize,
    },
    /// The changed text does not read as intended, so it is not used.
    #[error(
        "machine configuration: {path} could not be changed without changing more than it; \
         set it with talosctl, then continue"
    )]
    Entangled {
        /// The path of the value.
        path: &'static str,
    },
}

impl From<YamlError> for ConfigError {
    fn from(error: YamlError) -> Self {
        match error {
            YamlError::Duplicate { line, key } => Self::Twice { what: key, line },
            YamlError::Syntax { line, .. } | YamlError::TooDeep { line } => {
                Self::Unreadable { line }
            }
        }
    }
}
