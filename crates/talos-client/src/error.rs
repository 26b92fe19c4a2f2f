//! Errors of calls.
//!
//! [`struct@Error`] names the call, the node and the endpoint; its source is a [`Failure`], which
//! says what happened and what to do next. [`ActError`] is the error of calls that change
//! something: the caller must check first whether the change may have happened (rule 8).

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, ConnectError, Status};
use upgrade_core::call::{self, Class};
use upgrade_core::secret::scrub;

use crate::address::{EndpointAddress, NodeAddress};
use crate::connection_error::ConnectionError;

pub use upgrade_core::call::Outcome;

/// The call, its node and its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) node: Option<NodeAddress>,
    pub(crate) endpoint: Option<EndpointAddress>,
}

impl Call {
    pub(crate) fn failed(&self, failure: Failure) -> Error {
        Error(Box::new((self.clone(), failure)))
    }
}

/// A call that failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<(Call, Failure)>);

impl Error {
    /// What went wrong.
    pub const fn failure(&self) -> &Failure {
        &self.0.1
    }

    /// The method, without its package.
    pub const fn method(&self) -> &'static str {
        self.0.0.method
    }

    /// The node that the call was for; `None` for the endpoint itself.
    pub const fn node(&self) -> Option<&NodeAddress> {
        self.0.0.node.as_ref()
    }

    /// The endpoint that the call went through.
    pub const fn endpoint(&self) -> Option<&EndpointAddress> {
        self.0.0.endpoint.as_ref()
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { method, node, endpoint } = &self.0.0;
        f.debug_struct("Error")
            .field("method", method)
            .field("node", node)
            .field("endpoint", endpoint)
            .field("failure", &self.0.1)
            .finish()
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { method, node, endpoint } = &self.0.0;
        write!(f, "{method} failed")?;
        if let Some(node) = node {
            write!(f, " on node {node}")?;
        }
        if let Some(endpoint) = endpoint {
            write!(f, " through endpoint {endpoint}")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0.1)
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// There was no connection, so nothing was sent.
    #[error("cannot connect to the endpoint")]
    Connect(#[source] ConnectionError),
    /// The connection broke during the call.
    #[error("the connection broke ({0}); the endpoint may be rebooting")]
    Broken(String),
    /// No reply before the deadline.
    #[error("no answer within {}s", .0.as_secs_f32())]
    Deadline(Duration),
    /// A stream was silent for too long.
    #[error("received nothing for {}s", .0.as_secs_f32())]
    Idle(Duration),
    /// A stream ended before it was complete.
    #[error("the reply ended early: {0}")]
    Truncated(&'static str),
    /// The client's role does not allow the call.
    #[error(
        "not authorised ({0}); the talosconfig's role does not allow this: upgrades need `os:admin`"
    )]
    NotAuthorised(String),
    /// The endpoint does not forward requests, so it is a worker.
    #[error(
        "the endpoint does not forward requests ({0}); it is a worker: list control plane nodes \
         as `endpoints`"
    )]
    NotForwarded(String),
    /// The node's version does not support the method or the resource type.
    #[error("not supported by the node's version ({0})")]
    NotSupported(String),
    /// The requested object does not exist.
    #[error("not found ({0})")]
    NotFound(String),
    /// Any other error from the node.
    #[error("the node answered {code:?}: {message}")]
    Status {
        /// The gRPC code.
        code: Code,
        /// The node's message.
        message: String,
    },
    /// A malformed reply.
    #[error("malformed reply: {0}")]
    Malformed(String),
}

impl Failure {
    /// One word for logs, whatever the text says.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Broken(_) => "broken",
            Self::Deadline(_) => "deadline",
            Self::Idle(_) => "idle",
            Self::Truncated(_) => "truncated",
            Self::NotAuthorised(_) => "not-authorised",
            Self::NotForwarded(_) => "not-forwarded",
            Self::NotSupported(_) => "not-supported",
            Self::NotFound(_) => "not-found",
            Self::Status { .. } => "status",
            Self::Malformed(_) => "malformed",
        }
    }

    /// Whether the same request may succeed later without anyone's intervention.
    pub fn may_pass(&self) -> bool {
        self.class().may_pass()
    }

    /// The class of the failure, for callers that react to it.
    pub fn class(&self) -> Class {
        match self {
            Self::Connect(_) => Class::NotConnected,
            Self::Broken(_) => Class::Broken,
            Self::Deadline(_) => Class::Deadline,
            Self::Idle(_) => Class::Idle,
            Self::Truncated(_) => Class::Truncated,
            Self::NotAuthorised(_) => Class::NotAuthorised,
            Self::NotForwarded(_) => Class::NotForwarded,
            Self::NotSupported(_) => Class::NotSupported,
            Self::NotFound(_) => Class::NotFound,
            Self::Status { code, .. } => Class::Status(call::Code::of(i32::from(*code))),
            Self::Malformed(_) => Class::Malformed,
        }
    }

    /// Classifies a status.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(fault) = connect_fault(status) {
            return Self::Connect(fault);
        }
        // A status sent by the node has no source; one with a source was created on this side from
        // a connection error.
        if status.source().is_some() {
            return Self::Broken(scrub(status.message()).into_owned());
        }
        Self::of_code(status.code(), status.message())
    }

    /// Classifies a code and a message from the node.
    pub(crate) fn of_code(code: Code, message: &str) -> Self {
        let message = scrub(message).into_owned();
        match Class::of(call::Code::of(i32::from(code)), &message) {
            Class::NotForwarded => Self::NotForwarded(message),
            Class::NotSupported => Self::NotSupported(message),
            Class::NotAuthorised => Self::NotAuthorised(message),
            Class::NotFound => Self::NotFound(message),
            _ => Self::Status { code, message },
        }
    }
}

/// The connect error inside a failed connection attempt.
fn connect_fault(status: &Status) -> Option<ConnectionError> {
    let mut source = status.source();
    let mut connecting = false;
    while let Some(error) = source {
        if let Some(fault) = error.downcast_ref::<ConnectionError>() {
            return Some(fault.clone());
        }
        if let Some(ConnectError(inner)) = error.downcast_ref::<ConnectError>() {
            connecting = true;
            if let Some(fault) = inner.downcast_ref::<ConnectionError>() {
                return Some(fault.clone());
            }
        }
        source = error.source();
    }
    connecting.then(|| ConnectionError::Handshake(status.message().to_owned()))
}

/// The failure of a call that changes something. Such a call is sent at most once; before another
/// one, the node's state has to be checked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{outcome}")]
pub struct ActError {
    /// Whether it may have been applied.
    pub outcome: Outcome,
    /// Why the call failed.
    #[source]
    pub error: Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_refine_the_meaning_of_codes() {
        let of = |code, message: &str| Failure::of_code(code, message);
        assert!(matches!(of(Code::PermissionDenied, "not authorized"), Failure::NotAuthorised(_)));
        assert!(matches!(
            of(Code::PermissionDenied, "no request forwarding"),
            Failure::NotForwarded(_)
        ));
        assert!(matches!(
            of(Code::PermissionDenied, "resource type \"X\" is not supported"),
            Failure::NotSupported(_)
        ));
        assert!(matches!(of(Code::Unimplemented, ""), Failure::NotSupported(_)));
        assert!(matches!(of(Code::NotFound, ""), Failure::NotFound(_)));
        assert!(matches!(
            of(Code::FailedPrecondition, ""),
            Failure::Status { code: Code::FailedPrecondition, .. }
        ));
    }

    #[test]
    fn messages_from_nodes_are_scrubbed() {
        // Rule 14: validation errors quote the configuration.
        let failure = Failure::of_code(Code::InvalidArgument, "bad value token: abcdef");
        assert!(!format!("{failure} {failure:?}").contains("abcdef"));
    }

    #[test]
    fn an_error_says_where_and_its_source_says_what() {
        let call = Call {
            method: "Version",
            node: Some("10.5.0.3".parse().unwrap()),
            endpoint: Some("10.5.0.2".parse().unwrap()),
        };
        let error = call.failed(Failure::Connect(ConnectionError::Refused));
        assert_eq!(
            error.to_string(),
            "Version failed on node 10.5.0.3 through endpoint 10.5.0.2:50000"
        );
        let failure = error.source().unwrap();
        assert_eq!(failure.to_string(), "cannot connect to the endpoint");
        let fault = failure.source().unwrap();
        assert!(fault.to_string().starts_with("connection refused"));
    }
}
