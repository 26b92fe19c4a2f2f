//! What a failed call to a machine means to the engine, defined in this one place. The live
//! cluster, the simulated worlds and the test doubles all use it; they differ only in how they
//! learn the [`Class`].

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::call::{Class, ExitCode, Outcome};
use upgrade_core::guard;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::FailureKind;

use super::{Applied, IoError};

/// A read that failed.
pub fn read(class: Class, words: &str) -> IoError {
    IoError::new(kind(class), words)
}

/// An act that failed; `outcome` says what is known about it.
pub fn act(class: Class, outcome: Outcome, words: &str) -> IoError {
    let mut error = read(class, words);
    if !outcome.nothing_happened() {
        error.applied = Applied::Unknown;
    }
    error
}

/// A pull that failed. Repeating it changes nothing, so it is like a read.
pub fn pull(class: Class, words: &str) -> IoError {
    let kind = match (kind(class), class) {
        // The node works and refused: the cause is the registry.
        (FailureKind::Refused, Class::Status(_) | Class::NotFound) => FailureKind::Pull,
        // The error of containerd for a registry that does not answer.
        (FailureKind::Unavailable, class) if class.is_unclassified() => FailureKind::Pull,
        (kind, _) => kind,
    };
    IoError::new(kind, words)
}

/// An installation that failed; `outcome` says what is known about it. A node that has started does
/// not refuse, so the class alone cannot tell.
pub fn install(class: Class, outcome: Outcome, words: &str) -> IoError {
    // The image was deleted since it was pulled; no installer ran.
    if words.contains("not found in containerd store") {
        return IoError::new(FailureKind::Pull, words);
    }
    let mut error = read(class, words);
    if !outcome.nothing_happened() {
        // An error of the node itself ends its installer. Anything else is a lost stream, and the
        // installer may still be running.
        let ended = class.is_answer();
        error.applied = if ended { Applied::Failed } else { Applied::Unknown };
    }
    error
}

/// An installer that ran and failed. How far it came is not known: it may exit after it has made
/// its version the default (rule 5).
pub fn exit(code: ExitCode, last: &[String]) -> IoError {
    let mut text = format!("the installer failed with {code}");
    if !last.is_empty() {
        text.push_str("; its last words: ");
        text.push_str(&last.join(" | "));
    }
    if !guard!(Mutant::InstallerRepeated) {
        return read(Class::NotConnected, &text);
    }
    let mut error = IoError::new(FailureKind::Installer, &text);
    let fix = Fix::Installer(Some(code.number()));
    error.failure = error.failure.advise(Advice::retry_after(fix));
    error.applied = Applied::Failed;
    error
}

/// The kind of failure, by whether a retry may help.
const fn kind(class: Class) -> FailureKind {
    if class.may_pass() { FailureKind::Unavailable } else { FailureKind::Refused }
}

#[cfg(test)]
mod tests {
    use upgrade_core::call::Code;

    use super::*;

    #[test]
    fn an_exit_is_final_and_brings_its_meaning_and_advice() {
        // Rule 5.
        for (number, meaning, todo) in [
            (2, "not valid for the new Talos", "compare the machine config"),
            (4, "does not allow the upgrade", "versions in between"),
            (6, "could not read or write", "free space"),
            (7, "boot loader", "firmware"),
            (99, "not known", "last lines"),
        ] {
            let code = ExitCode::of(number).unwrap();
            let error = exit(code, &["it ends here".to_owned()]);
            assert_eq!(error.failure.kind, FailureKind::Installer);
            assert_eq!(error.applied, Applied::Failed, "it has ended; its effect is unknown");
            let Advice::FixThenRetry(fixes) = error.failure.advice() else { panic!("{error}") };
            assert!(fixes[0].to_string().contains(todo), "{fixes:?}");
            for part in [&format!("exit code {number}"), meaning, "it ends here"] {
                assert!(error.to_string().contains(part), "{part}: {error}");
            }
            assert!(!error.to_string().contains("whole"), "{error}");
        }
    }

    #[test]
    fn a_lost_stream_is_told_from_an_error_of_the_node() {
        // Rules 5 and 8.
        let install = |class: Class| install(class, class.outcome(), "").applied;
        for lost in [
            Class::Broken,
            Class::Deadline,
            Class::Idle,
            Class::Truncated,
            Class::Status(Code::Unavailable),
            Class::Status(Code::Cancelled),
        ] {
            assert_eq!(install(lost), Applied::Unknown, "{lost:?}");
        }
        assert_eq!(install(Class::Status(Code::Internal)), Applied::Failed);
        assert_eq!(install(Class::Status(Code::FailedPrecondition)), Applied::No);
        assert_eq!(install(Class::NotConnected), Applied::No);
    }

    #[test]
    fn an_image_that_was_collected_is_pulled_again() {
        let words = "upgrade failed: installer image \"a:v1\" not found in containerd store: gone";
        let class = Class::Status(Code::Internal);
        let error = super::install(class, class.outcome(), words);
        assert_eq!((error.failure.kind, error.applied), (FailureKind::Pull, Applied::No));
    }

    #[test]
    fn a_registry_is_told_from_a_node() {
        let pull = |class| pull(class, "").failure.kind;
        assert_eq!(pull(Class::NotFound), FailureKind::Pull);
        assert_eq!(pull(Class::Status(Code::Unknown)), FailureKind::Pull);
        assert_eq!(pull(Class::Status(Code::Unavailable)), FailureKind::Unavailable);
        assert_eq!(pull(Class::NotAuthorised), FailureKind::Refused);
    }
}
