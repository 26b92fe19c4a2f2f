//! What can be wrong with a talosconfig: where it is, what it is, and what to do
//! next. Nothing here quotes the file, which holds keys (rule 14).

use std::fmt::{self, Display};

use thiserror::Error;

use super::MAX_SIZE;
use crate::address::AddressError;
use crate::settings;

/// What is wrong with a talosconfig, and where.
#[derive(Debug, Error)]
pub struct ConfigError {
    /// The file, or what else it was read from.
    pub origin: String,
    /// The context, if it got that far.
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

/// What can be wrong with a talosconfig.
#[derive(Debug, Error)]
pub enum Problem {
    /// None of the usual places has one.
    #[error(
        "no such file; name one with --talosconfig or ${}, or write one with `talosctl config merge`",
        settings::VARIABLE
    )]
    Missing,
    /// It exists and cannot be read.
    #[error("cannot read it; check that it is a file and that you may read it")]
    Read(#[source] std::io::Error),
    /// It is larger than any talosconfig.
    #[error("it has more than {MAX_SIZE} bytes; is it another file?")]
    TooLarge,
    /// It is not UTF-8.
    #[error("it is not text; is it another file?")]
    NotText,
    /// It is not the YAML of a talosconfig.
    #[error("line {line}, column {column}: {what}; compare it with what `talosctl config` writes")]
    Yaml {
        /// From 1.
        line: u64,
        /// From 1.
        column: u64,
        /// What the reader stumbled over.
        what: String,
    },
    /// It has no contexts.
    #[error("it has no contexts; merge one with `talosctl config merge`")]
    NoContexts,
    /// Nothing says which context to use.
    #[error("field `context` is empty; choose one of {} with --context", list(known))]
    NotChosen {
        /// The names there are.
        known: Vec<String>,
    },
    /// There is no context of that name.
    #[error("there is no such context; the file has {}", list(known))]
    NoSuchContext {
        /// The names there are.
        known: Vec<String>,
    },
    /// A field is needed and is not there.
    #[error("field `{field}` is missing; {next}")]
    NoField {
        /// Which one.
        field: &'static str,
        /// What to do about it.
        next: &'static str,
    },
    /// An endpoint or a node is not an address.
    #[error("field `{field}`, entry {number}")]
    Address {
        /// `endpoints` or `nodes`.
        field: &'static str,
        /// From 1.
        number: usize,
        /// What is wrong with it.
        #[source]
        source: AddressError,
    },
    /// A field does not hold base64.
    #[error("field `{field}` is not base64; copy the whole value again, it has no spaces inside")]
    Base64 {
        /// Which one.
        field: &'static str,
    },
    /// A field does not hold what it should, encoded as PEM.
    #[error("field `{field}` holds no {expected} in PEM; copy the whole value again")]
    Pem {
        /// Which one.
        field: &'static str,
        /// What was looked for.
        expected: &'static str,
    },
    /// Certificate and key do not belong together, or the TLS library refuses
    /// them.
    #[error("fields `crt` and `key` cannot be used together ({why}); copy both again")]
    Identity {
        /// What the TLS library said.
        why: String,
    },
    /// The authority's certificate cannot be used.
    #[error("field `ca` holds no usable certificate ({why}); copy it again")]
    Authority {
        /// What the TLS library said.
        why: String,
    },
    /// A way to connect that this program does not know.
    #[error("field `{field}` is set, and this program cannot do that: {next}")]
    Unsupported {
        /// Which one.
        field: &'static str,
        /// What to do instead.
        next: &'static str,
    },
}

fn list(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
