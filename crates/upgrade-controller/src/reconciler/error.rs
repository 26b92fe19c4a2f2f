//! Why one round of a reconciler failed. It is repeated soon.

use thiserror::Error;
use upgrade_engine::drive::DriveError;

use crate::api_call::CallError;
use crate::lease::LeaseError;
use crate::run::{InheritError, RunObjectError};

/// Why a round failed.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The cluster's object could not be read.
    #[error("the cluster's object cannot be read: {0}")]
    Object(CallError),
    /// The status could not be written.
    #[error("the cluster's object cannot be written: {0}")]
    Show(CallError),
    /// What changed before this process watched could not be read.
    #[error("earlier changes of the object cannot be read: {0}")]
    Missed(CallError),
    /// Runs could not be read.
    #[error("the runs cannot be read: {0}")]
    Read(CallError),
    /// A run could not be created.
    #[error("the run cannot be created: {0}")]
    Create(CallError),
    /// A run could not be closed.
    #[error("the run cannot be closed: {0}")]
    Close(CallError),
    /// The lease could not be taken.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The object of a run could not be read or written.
    #[error(transparent)]
    RunObject(#[from] RunObjectError),
    /// It is not known what earlier runs left.
    #[error(transparent)]
    Inherit(#[from] InheritError),
    /// The driver lost the journal, or the lease.
    #[error("the run was interrupted: {0}")]
    Drive(DriveError),
}
