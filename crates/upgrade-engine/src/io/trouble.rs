//! What a failed call to a machine means to the engine: the one place that says
//! so. The live cluster, the worlds in memory and the doubles of tests all end
//! here; they differ only in how they learn the [`Class`].

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::call::{Class, ExitCode, Outcome};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::FailureKind;

use super::{Happened, Trouble};

/// A look that failed.
pub fn look(class: Class, words: &str) -> Trouble {
    Trouble::new(kind(class), words)
}

/// An act that failed; `outcome` is what is known of it.
pub fn act(class: Class, outcome: Outcome, words: &str) -> Trouble {
    let mut trouble = look(class, words);
    if !outcome.nothing_happened() {
        trouble.happened = Happened::Maybe;
    }
    trouble
}

/// A pull that failed. It changes nothing when repeated, so it is like a look.
pub fn pull(class: Class, words: &str) -> Trouble {
    let kind = match (kind(class), class) {
        // The node is well and said no: the registry is the problem.
        (FailureKind::Refused, Class::Status(_) | Class::NotFound) => FailureKind::Pull,
        // What containerd says of a registry that does not answer.
        (FailureKind::Unavailable, class) if class.is_unclassified() => FailureKind::Pull,
        (kind, _) => kind,
    };
    Trouble::new(kind, words)
}

/// A call for an installation that failed; `outcome` is what is known of it. A
/// node that has begun does not refuse, so that is not for the class to say.
pub fn install(class: Class, outcome: Outcome, words: &str) -> Trouble {
    // It was collected since it was pulled; no installer ran.
    if words.contains("not found in containerd store") {
        return Trouble::new(FailureKind::Pull, words);
    }
    let mut trouble = look(class, words);
    if !outcome.nothing_happened() {
        // An error of the node's own is the end of its installer. Anything else
        // is a stream that was lost, and the installer may run on.
        let ended = class.is_answer();
        trouble.happened = if ended { Happened::Failed } else { Happened::Maybe };
    }
    trouble
}

/// An installer that ran and failed. How far it came is not known: it may exit
/// after it has made its version the default (rule 5).
pub fn exit(code: ExitCode, last: &[String]) -> Trouble {
    let mut text = format!("the installer failed with {code}");
    if !last.is_empty() {
        text.push_str("; its last words: ");
        text.push_str(&last.join(" | "));
    }
    if mutant::is(Mutant::InstallerRepeated) {
        return look(Class::NotConnected, &text);
    }
    let mut trouble = Trouble::new(FailureKind::Installer, &text);
    let fix = Fix::Installer(Some(code.number()));
    trouble.failure = trouble.failure.advise(Advice::retry_after(fix));
    trouble.happened = Happened::Failed;
    trouble
}

/// What kind of failure it is to somebody who may try again.
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
            let trouble = exit(code, &["it ends here".to_owned()]);
            assert_eq!(trouble.failure.kind, FailureKind::Installer);
            assert_eq!(trouble.happened, Happened::Failed, "it is over, and nobody knows how far");
            let Advice::FixThenRetry(fixes) = trouble.failure.advice() else { panic!("{trouble}") };
            assert!(fixes[0].to_string().contains(todo), "{fixes:?}");
            for part in [&format!("exit code {number}"), meaning, "it ends here"] {
                assert!(trouble.to_string().contains(part), "{part}: {trouble}");
            }
            assert!(!trouble.to_string().contains("whole"), "{trouble}");
        }
    }

    #[test]
    fn a_lost_stream_is_told_from_an_error_of_the_node() {
        // Rules 5 and 8.
        let install = |class: Class| install(class, class.outcome(), "").happened;
        for lost in [
            Class::Broken,
            Class::Deadline,
            Class::Idle,
            Class::Truncated,
            Class::Status(Code::Unavailable),
            Class::Status(Code::Cancelled),
        ] {
            assert_eq!(install(lost), Happened::Maybe, "{lost:?}");
        }
        assert_eq!(install(Class::Status(Code::Internal)), Happened::Failed);
        assert_eq!(install(Class::Status(Code::FailedPrecondition)), Happened::No);
        assert_eq!(install(Class::NotConnected), Happened::No);
    }

    #[test]
    fn an_image_that_was_collected_is_pulled_again() {
        let words = "upgrade failed: installer image \"a:v1\" not found in containerd store: gone";
        let class = Class::Status(Code::Internal);
        let trouble = super::install(class, class.outcome(), words);
        assert_eq!((trouble.failure.kind, trouble.happened), (FailureKind::Pull, Happened::No));
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
