//! Why a cluster did not start.

use std::path::PathBuf;

use crate::address::AddressError;
use crate::kubernetes::WorkloadError;
use crate::kubernetes::remote::RemoteError;
use crate::pki::PkiError;
use crate::schedule::FaultError;
use crate::store::StoreError;
use crate::tls::TlsError;

/// Why a cluster did not start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The addresses.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A fault that was asked for.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The workloads that were asked for.
    #[error("the workloads: {0}")]
    Workloads(#[from] WorkloadError),
    /// The real Kubernetes API.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The control port.
    #[error("cannot open the control port")]
    Control(#[source] std::io::Error),
    /// The kubelets of a real Kubernetes API.
    #[error("cannot start the kubelets")]
    Kubelets(#[source] std::io::Error),
    /// No cluster can have that shape.
    #[error("{0}")]
    Shape(&'static str),
    /// The folder holds another cluster.
    #[error("{} holds a cluster that differs: {what}", folder.display())]
    Differs {
        /// The folder.
        folder: PathBuf,
        /// In what.
        what: String,
    },
}
