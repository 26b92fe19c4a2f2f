//! What a failed call means to the engine. This crate only knows how to read the
//! client's errors; what they mean is decided in [`upgrade_engine::io::error`].

use talos_client::install::InstallError;
use talos_client::{ActError, Error};
use upgrade_core::text::chain;
use upgrade_engine::io::{IoError, talos_error};

/// A read that failed.
pub(crate) fn read(error: &Error) -> IoError {
    talos_error::read(error.failure().class(), &chain(error))
}

/// An act that failed.
pub(crate) fn act(error: &ActError) -> IoError {
    talos_error::act(error.error.failure().class(), error.outcome, &chain(error))
}

/// A pull that failed.
pub(crate) fn pull(error: &Error) -> IoError {
    talos_error::pull(error.failure().class(), &chain(error))
}

/// An installation that failed.
pub(crate) fn install(error: &InstallError) -> IoError {
    match error {
        InstallError::Call(call) => {
            talos_error::install(call.error.failure().class(), call.outcome, &chain(error))
        }
        InstallError::Exit { code, last } => talos_error::exit(*code, last),
    }
}
