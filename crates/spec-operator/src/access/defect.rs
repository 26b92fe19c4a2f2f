//! What is wrong with a source of credentials, without anything of its content (rule 14).

use thiserror::Error;

/// What is wrong with a source of credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Defect {
    /// There is nothing.
    #[error("it is not there")]
    Absent,
    /// The hub did not let it be read. The text is of the hub, and contains nothing of the
    /// source.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is not text.
    #[error("it is not text")]
    NotText,
    /// It is not YAML, or has other fields.
    #[error("it cannot be read as {expected}, line {line}")]
    NotYaml {
        /// What it should be.
        expected: &'static str,
        /// Where it ends to be that.
        line: u64,
    },
    /// A field is missing.
    #[error("it has no {field}")]
    NoField {
        /// The field.
        field: &'static str,
    },
    /// The configuration of a worker, which has no key of the authority.
    #[error(
        "it is the machine configuration of a worker, without a key for the Talos API; name that \
         of a control plane"
    )]
    OfWorker,
    /// A field is not the base64 form of PEM.
    #[error("{field} is not a {expected} as base64 of PEM")]
    NotPem {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The certificate is not one of an authority.
    #[error("{field} is not the certificate of an authority")]
    NotAnAuthority {
        /// The field.
        field: &'static str,
    },
    /// The authority is not valid now, so that no node accepts what it signs.
    #[error("the authority in {field} is not valid now; check the clock, or rotate it")]
    NotValidNow {
        /// The field.
        field: &'static str,
    },
    /// Certificate and key are not a pair.
    #[error("the key in {key} does not belong to the certificate in {certificate}")]
    NotAPair {
        /// The field of the certificate.
        certificate: &'static str,
        /// The field of the key.
        key: &'static str,
    },
    /// The cryptography failed.
    #[error("no client certificate can be made with it")]
    CannotSign,
    /// No context is selected, and there are several or none.
    #[error("it selects no context; write one of its contexts into `context`")]
    NoContext,
    /// No address of a control plane is known.
    #[error("no address of a control plane is known yet")]
    NoEndpoints,
}
