//! Errors in a talosconfig: where, what, and what to do next. They never quote the file, because it
//! contains keys (rule 14).

use std::fmt::{self, Display};

use thiserror::Error;

use super::MAX_SIZE;
use crate::address::AddressError;
use crate::settings;

/// An error in a talosconfig, with its place.
#[derive(Debug, Error)]
pub struct ConfigError {
    /// The file, or another source.
    pub origin: String,
    /// The context, if it was found.
    pub context: Option<String>,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, context, problem: _ } = self;
        match context {
            None => write!(f, "cannot use the talosconfig {origin}"),
            Some(context) => {
                write!(f, "cannot use context `{context}` of the talosconfig {origin}")
            }
        }
    }
}

/// What is wrong with a talosconfig.
#[derive(Debug, Error)]
pub enum Problem {
    /// No default location has one.
    #[error(
        "no such file; name one with --talosconfig or ${}, or write one with `talosctl config merge`",
        settings::VARIABLE
    )]
    Missing,
    /// It exists but cannot be read.
    #[error("cannot read it; check that it is a file and that you may read it")]
    Read(#[source] std::io::Error),
    /// It is larger than any talosconfig.
    #[error("it has more than {MAX_SIZE} bytes; is it another file?")]
    TooLarge,
    /// It is not UTF-8.
    #[error("it is not text; is it another file?")]
    NotText,
    /// It is not a valid talosconfig in YAML.
    #[error("line {line}, column {column}: {what}; compare it with what `talosctl config` writes")]
    Yaml {
        /// From 1.
        line: u64,
        /// From 1.
        column: u64,
        /// The parser's message.
        what: String,
    },
    /// It has no contexts.
    #[error("it has no contexts; merge one with `talosctl config merge`")]
    NoContexts,
    /// No context is selected.
    #[error("field `context` is empty; choose one of {} with --context", list(known))]
    NotChosen {
        /// The available names.
        known: Vec<String>,
    },
    /// There is no context with that name.
    #[error("there is no such context; the file has {}", list(known))]
    NoSuchContext {
        /// The available names.
        known: Vec<String>,
    },
    /// A required field is missing.
    #[error("field `{field}` is missing; {next}")]
    NoField {
        /// Its name.
        field: &'static str,
        /// What to do.
        next: &'static str,
    },
    /// An endpoint or a node is not a valid address.
    #[error("field `{field}`, entry {number}")]
    Address {
        /// `endpoints` or `nodes`.
        field: &'static str,
        /// From 1.
        number: usize,
        /// Why it is invalid.
        #[source]
        source: AddressError,
    },
    /// A field is not base64.
    #[error("field `{field}` is not base64; copy the whole value again, it has no spaces inside")]
    Base64 {
        /// Its name.
        field: &'static str,
    },
    /// A field does not contain the expected PEM block.
    #[error("field `{field}` holds no {expected} in PEM; copy the whole value again")]
    Pem {
        /// Its name.
        field: &'static str,
        /// The expected content.
        expected: &'static str,
    },
    /// Certificate and key do not match, or the TLS library rejects them.
    #[error("fields `crt` and `key` cannot be used together ({why}); copy both again")]
    Identity {
        /// The error of the TLS library.
        why: String,
    },
    /// The authority's certificate cannot be used.
    #[error("field `ca` holds no usable certificate ({why}); copy it again")]
    Authority {
        /// The error of the TLS library.
        why: String,
    },
    /// An unsupported way to connect.
    #[error("field `{field}` is not supported: {next}")]
    Unsupported {
        /// Its name.
        field: &'static str,
        /// What to do instead.
        next: &'static str,
    },
}

fn list(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
