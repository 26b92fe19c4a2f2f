//! What a failed call means to the engine. This crate only knows how to read the
//! client's errors; what they mean is decided in [`upgrade_engine::io::trouble`].

use talos_client::install::InstallError;
use talos_client::{ActError, Error};
use upgrade_core::text::chain;
use upgrade_engine::io::{Trouble, trouble};

/// A look that failed.
pub(crate) fn look(error: &Error) -> Trouble {
    trouble::look(error.failure().class(), &chain(error))
}

/// An act that failed.
pub(crate) fn act(error: &ActError) -> Trouble {
    trouble::act(error.error.failure().class(), error.outcome, &chain(error))
}

/// A pull that failed.
pub(crate) fn pull(error: &Error) -> Trouble {
    trouble::pull(error.failure().class(), &chain(error))
}

/// An installation that failed.
pub(crate) fn install(error: &InstallError) -> Trouble {
    match error {
        InstallError::Call(call) => {
            trouble::install(call.error.failure().class(), call.outcome, &chain(error))
        }
        InstallError::Exit { code, last } => trouble::exit(*code, last),
    }
}
