//! What a failed call means to the engine. This crate only knows how to read the
//! client's errors; what they mean is decided in [`upgrade_engine::io::trouble`].

use std::error::Error as StdError;

use talos_client::install::InstallError;
use talos_client::{ActError, Error};
use upgrade_engine::io::{Trouble, trouble};

/// An error and everything it has to say about its cause. The same words are
/// often in several of them; they are said once.
pub(crate) fn words(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

/// A look that failed.
pub(crate) fn look(error: &Error) -> Trouble {
    trouble::look(error.failure().class(), &words(error))
}

/// An act that failed.
pub(crate) fn act(error: &ActError) -> Trouble {
    trouble::act(error.error.failure().class(), error.outcome, &words(error))
}

/// A pull that failed.
pub(crate) fn pull(error: &Error) -> Trouble {
    trouble::pull(error.failure().class(), &words(error))
}

/// An installation that failed.
pub(crate) fn install(error: &InstallError) -> Trouble {
    match error {
        InstallError::Call(call) => {
            trouble::install(call.error.failure().class(), call.outcome, &words(error))
        }
        InstallError::Exit { code, last } => trouble::exit(*code, last),
    }
}
