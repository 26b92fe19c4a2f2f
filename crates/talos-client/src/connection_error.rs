//! Why a connection failed, as a type.
//!
//! With each of these the request never left, so nothing happened on the node. That is why they
//! have their own type; `recover` relies on it.

use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};
use thiserror::Error;

/// Why connecting to an endpoint failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The machine is up, but nothing listens on the port.
    #[error(
        "connection refused; the node may be booting, or the endpoint's port is not the Talos API"
    )]
    Refused,
    /// The name does not resolve.
    #[error("the name cannot be resolved ({0}); check the endpoint's spelling, or use its address")]
    Unresolved(String),
    /// Nothing answered before the deadline.
    #[error("no connection within {}s; check the network, firewalls and whether the node runs", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The network is unreachable.
    #[error("it cannot be reached ({0}); check the network")]
    Unreachable(String),
    /// The endpoint's certificate is from another authority than the talosconfig's: the endpoint
    /// belongs to another cluster, or something intercepts the connection.
    #[error(
        "its certificate was not issued by the `ca` of the talosconfig: wrong talosconfig for this \
         cluster, or another server answers at this address"
    )]
    WrongAuthority,
    /// The endpoint's certificate is for other names and addresses.
    #[error(
        "its certificate is not valid for this address; use an address that the node itself has, \
         or add this one to `machine.certSANs`"
    )]
    WrongName,
    /// The endpoint's certificate has expired or is not valid yet, or our clock is wrong.
    #[error("its certificate has expired or is not valid yet; compare the clocks of both machines")]
    ServerCertificateExpired,
    /// Our client certificate has expired.
    #[error(
        "the endpoint says that the client certificate in `crt` has expired; create a new \
         talosconfig with `talosctl config new` from one that still works, or from the cluster's \
         secrets"
    )]
    ClientCertificateExpired,
    /// Our client certificate was rejected for another reason.
    #[error(
        "the endpoint rejected the client certificate in `crt` ({0}); the talosconfig belongs to \
         another cluster, or its authority was replaced"
    )]
    ClientCertificateRejected(String),
    /// The handshake failed for another reason.
    #[error("the TLS handshake failed ({0}); is it the Talos API?")]
    Handshake(String),
}

impl ConnectionError {
    /// Whether it may recover by itself. Certificates and names do not change during a wait; nodes
    /// come back.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Refused
            | Self::TimedOut(_)
            | Self::Unreachable(_)
            | Self::Unresolved(_)
            // A node that is shutting down may abort a handshake.
            | Self::Handshake(_) => true,
            Self::WrongAuthority
            | Self::WrongName
            | Self::ServerCertificateExpired
            | Self::ClientCertificateExpired
            | Self::ClientCertificateRejected(_) => false,
        }
    }

    /// Classifies an error of the socket or of TLS.
    pub(crate) fn of_io(error: &io::Error) -> Self {
        if let Some(tls) = tls_error(error) {
            return Self::of_tls(tls);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Handshake("the connection was cut".to_owned()),
            _ => Self::Unreachable(error.to_string()),
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(problem) => match problem {
                // All authorities of Talos have the same name, so a foreign one shows as a bad
                // signature.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Self::WrongAuthority
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Self::ServerCertificateExpired,
                other => Self::Handshake(format!("its certificate: {other:?}")),
            },
            rustls::Error::AlertReceived(alert) => Self::of_alert(*alert),
            other => Self::Handshake(other.to_string()),
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::CertificateExpired => Self::ClientCertificateExpired,
            AlertDescription::UnknownCA => {
                Self::ClientCertificateRejected("unknown authority".to_owned())
            }
            AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => {
                Self::ClientCertificateRejected(format!("{alert:?}"))
            }
            other => Self::Handshake(format!("{other:?}")),
        }
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_identify_the_wrong_certificate() {
        for (alert, expected) in [
            (AlertDescription::CertificateExpired, ConnectionError::ClientCertificateExpired),
            (
                AlertDescription::UnknownCA,
                ConnectionError::ClientCertificateRejected("unknown authority".to_owned()),
            ),
            (
                AlertDescription::BadCertificate,
                ConnectionError::ClientCertificateRejected("BadCertificate".to_owned()),
            ),
            (
                AlertDescription::InternalError,
                ConnectionError::Handshake("InternalError".to_owned()),
            ),
        ] {
            let error = io::Error::other(rustls::Error::AlertReceived(alert));
            assert_eq!(ConnectionError::of_io(&error), expected);
        }
    }

    #[test]
    fn socket_errors_identify_the_network_problem() {
        assert_eq!(
            ConnectionError::of_io(&io::ErrorKind::ConnectionRefused.into()),
            ConnectionError::Refused
        );
        assert!(matches!(
            ConnectionError::of_io(&io::ErrorKind::HostUnreachable.into()),
            ConnectionError::Unreachable(_)
        ));
        assert!(matches!(
            ConnectionError::of_io(&io::ErrorKind::UnexpectedEof.into()),
            ConnectionError::Handshake(_)
        ));
    }
}
