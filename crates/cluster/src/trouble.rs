//! What a failed call means to the engine.

use std::error::Error as StdError;

use talos_client::install::{ExitCode, InstallError};
use talos_client::{ActError, Error, Failure};
use upgrade_core::reason::FailureKind;
use upgrade_engine::io::{Happened, Trouble};

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
    Trouble::new(kind(error.failure()), &words(error))
}

/// An act that failed.
pub(crate) fn act(error: &ActError) -> Trouble {
    let mut trouble = Trouble::new(kind(error.error.failure()), &words(error));
    if !error.outcome.nothing_happened() {
        trouble.happened = Happened::Maybe;
    }
    trouble
}

/// A pull that failed. It changes nothing when repeated, so it is like a look.
pub(crate) fn pull(error: &Error) -> Trouble {
    let failure = error.failure();
    let kind = match kind(failure) {
        // The node is well and said no: the registry is the problem.
        FailureKind::Refused
            if matches!(failure, Failure::Status { .. } | Failure::NotFound(_)) =>
        {
            FailureKind::Pull
        }
        // What containerd says of a registry that does not answer.
        FailureKind::Unavailable if matches!(failure, Failure::Status { code, .. } if format!("{code:?}") == "Unknown") => {
            FailureKind::Pull
        }
        kind => kind,
    };
    Trouble::new(kind, &words(error))
}

/// An installation that failed.
pub(crate) fn install(error: &InstallError) -> Trouble {
    let mut trouble = match error {
        InstallError::Call(call) => Trouble::new(kind(call.error.failure()), &words(error)),
        InstallError::Exit { code, .. } => {
            let text = format!("{error}. What to do: {}", advice(*code));
            Trouble::new(FailureKind::Installer, &text)
        }
    };
    if !error.nothing_happened() {
        trouble.happened = Happened::Maybe;
    }
    trouble
}

/// What kind of failure it is to somebody who may try again.
fn kind(failure: &Failure) -> FailureKind {
    match failure {
        Failure::NotAuthorised(_) | Failure::NotSupported(_) | Failure::NotFound(_) => {
            FailureKind::Refused
        }
        Failure::Status { code, .. } => {
            // By name, so that this crate needs no gRPC library for one enum.
            match format!("{code:?}").as_str() {
                "Unavailable" | "Cancelled" | "DeadlineExceeded" | "ResourceExhausted"
                | "Aborted" | "Unknown" => FailureKind::Unavailable,
                _ => FailureKind::Refused,
            }
        }
        _ => FailureKind::Unavailable,
    }
}

/// What a person should do about an installer's exit code.
const fn advice(code: ExitCode) -> &'static str {
    match code {
        ExitCode::InvalidInput => {
            "compare the machine config, and the Kubernetes version in it, with what the new Talos \
             accepts, then plan again"
        }
        ExitCode::Unsupported => {
            "look into the release notes of the new Talos for what it no longer supports"
        }
        ExitCode::Environment => {
            "go through the versions in between, or look at what the installer says of the machine"
        }
        ExitCode::Dependency => "look at what it names, mend it, then resume",
        ExitCode::Io => "look at the disk and at its free space, then resume",
        ExitCode::Install => {
            "look at the boot disk and at the firmware's variables; the running version is whole"
        }
        _ => "read its last words, and the node's console",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_brings_its_meaning_and_advice() {
        for (number, meaning, todo) in [
            (2, "not valid for the new Talos", "compare the machine config"),
            (4, "does not allow the upgrade", "versions in between"),
            (6, "could not read or write", "free space"),
            (7, "boot loader", "firmware"),
            (99, "not known", "last words"),
        ] {
            let error = InstallError::Exit {
                code: ExitCode::of(number).unwrap(),
                last: vec!["it ends here".to_owned()],
            };
            let trouble = install(&error);
            assert_eq!(trouble.failure.kind, FailureKind::Installer);
            assert_eq!(trouble.happened, Happened::Maybe, "how far it came is not known");
            for part in [&format!("exit code {number}"), meaning, "it ends here", todo] {
                assert!(trouble.to_string().contains(part), "{part}: {trouble}");
            }
        }
    }
}
