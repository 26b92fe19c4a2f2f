//! What a call may fail with.
//!
//! [`struct@Error`] says which call it was, of which node, through which endpoint;
//! its source is a [`Failure`], which says what happened and what to do next.
//! [`ActError`] is the error of calls that change something: it has to be
//! asked first whether the change may have happened (rule 8).

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, ConnectError, Status};
use upgrade_core::call::{self, Class};
use upgrade_core::secret::scrub;

use crate::address::{EndpointAddress, NodeAddress};
use crate::fault::Fault;

pub use upgrade_core::call::Outcome;

/// Which call, of which node, through which endpoint.
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
    /// What happened.
    pub const fn failure(&self) -> &Failure {
        &self.0.1
    }

    /// The method, without its package.
    pub const fn method(&self) -> &'static str {
        self.0.0.method
    }

    /// The node that was asked; `None` if it was the endpoint itself.
    pub const fn node(&self) -> Option<&NodeAddress> {
        self.0.0.node.as_ref()
    }

    /// The endpoint that it failed through.
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

/// What happened to a call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// There was no connection, so nothing was asked.
    #[error("the endpoint could not be talked to")]
    Connect(#[source] Fault),
    /// The connection broke while the call was under way.
    #[error("the connection broke ({0}); the endpoint may be rebooting")]
    Broken(String),
    /// No answer in time.
    #[error("no answer within {}s", .0.as_secs_f32())]
    Deadline(Duration),
    /// A stream fell silent.
    #[error("nothing came for {}s", .0.as_secs_f32())]
    Idle(Duration),
    /// A stream ended before it was complete.
    #[error("the answer ended early: {0}")]
    Truncated(&'static str),
    /// Our role does not allow the call.
    #[error(
        "not authorised ({0}); the talosconfig's role does not allow this: upgrades need `os:admin`"
    )]
    NotAuthorised(String),
    /// The endpoint does not forward requests: it is a worker.
    #[error(
        "the endpoint does not forward requests ({0}); it is a worker: list control plane nodes \
         as `endpoints`"
    )]
    NotForwarded(String),
    /// The node's version does not know the method or the resource type.
    #[error("not supported by the node's version ({0})")]
    NotSupported(String),
    /// What was asked for does not exist.
    #[error("not found ({0})")]
    NotFound(String),
    /// Any other answer that is an error.
    #[error("the node answered {code:?}: {message}")]
    Status {
        /// The gRPC code.
        code: Code,
        /// What the node said.
        message: String,
    },
    /// An answer that cannot be understood.
    #[error("the answer makes no sense: {0}")]
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

    /// Whether the same question may have an answer later, without anybody's
    /// help.
    pub fn may_pass(&self) -> bool {
        self.class().may_pass()
    }

    /// What it is without its words, as whoever acts on it is told.
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

    /// What a status means.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(fault) = connect_fault(status) {
            return Self::Connect(fault);
        }
        // A status that the node sent has no source; one that has a source was
        // made on this side, from an error of the connection.
        if status.source().is_some() {
            return Self::Broken(scrub(status.message()).into_owned());
        }
        Self::of_code(status.code(), status.message())
    }

    /// What a code and a message mean that a node sent.
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

/// Our own fault inside the error of a connection attempt.
fn connect_fault(status: &Status) -> Option<Fault> {
    let mut source = status.source();
    let mut connecting = false;
    while let Some(error) = source {
        if let Some(fault) = error.downcast_ref::<Fault>() {
            return Some(fault.clone());
        }
        if let Some(ConnectError(inner)) = error.downcast_ref::<ConnectError>() {
            connecting = true;
            if let Some(fault) = inner.downcast_ref::<Fault>() {
                return Some(fault.clone());
            }
        }
        source = error.source();
    }
    connecting.then(|| Fault::Handshake(status.message().to_owned()))
}

/// The failure of a call that changes something. Such a call is sent at most
/// once; whether to send another is for somebody who has looked at the node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{outcome}")]
pub struct ActError {
    /// Whether it may have happened all the same.
    pub outcome: Outcome,
    /// What happened to the call.
    #[source]
    pub error: Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_mean_more_than_they_say() {
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
    fn what_a_node_quotes_is_scrubbed() {
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
        let error = call.failed(Failure::Connect(Fault::Refused));
        assert_eq!(
            error.to_string(),
            "Version failed on node 10.5.0.3 through endpoint 10.5.0.2:50000"
        );
        let failure = error.source().unwrap();
        assert_eq!(failure.to_string(), "the endpoint could not be talked to");
        let fault = failure.source().unwrap();
        assert!(fault.to_string().starts_with("connection refused"));
    }
}
