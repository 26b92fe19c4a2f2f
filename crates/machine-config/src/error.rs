//! What can be wrong with a configuration, without a word of its content.

use thiserror::Error;

/// A configuration that cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The text is not YAML.
    #[error(
        "machine configuration, line {line}: this is not YAML; apply one that Talos accepts, \
         then go on"
    )]
    Unreadable {
        /// Where it ends to make sense, from 1.
        line: usize,
    },
    /// There is no place for the value.
    #[error(
        "machine configuration: there is no v1alpha1 document to hold {path}; apply a complete \
         configuration, then go on"
    )]
    NoPlace {
        /// What has no place.
        path: &'static str,
    },
    /// A key or a document is there twice, so nobody knows which one counts.
    #[error("machine configuration, line {line}: {what} is there twice; keep one of them")]
    Twice {
        /// The key or kind.
        what: String,
        /// The second one's line, from 1.
        line: usize,
    },
    /// A scalar or a list stands where a section should be.
    #[error("machine configuration, line {line}: {path} is not a section with keys; make it one")]
    NotASection {
        /// Which.
        path: String,
        /// From 1.
        line: usize,
    },
    /// The value is shared with other places through an anchor or a merge key.
    #[error(
        "machine configuration, line {line}: {path} is shared with other places through a YAML \
         anchor, and would change there too; write it out, then go on"
    )]
    Shared {
        /// Which.
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
        /// Which.
        path: String,
        /// From 1.
        line: usize,
    },
    /// The changed text does not read as it should. Nothing of it may be used.
    #[error(
        "machine configuration: {path} could not be changed without changing more than it; \
         set it with talosctl, then go on"
    )]
    Entangled {
        /// Which.
        path: &'static str,
    },
}
