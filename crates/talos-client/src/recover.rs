//! Which failures may be retried: decided only here.
//!
//! There are two kinds of calls, and their types differ. A *read* is a closure that may be called
//! many times (`Fn`); [`again`] decides whether it is retried. An *act* changes something and is a
//! closure that can be called only once (`FnOnce`), so no code can send it twice; [`outcome`] says
//! what is known afterwards. Calls that change nothing when repeated, such as pulling an image,
//! count as reads.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use tonic::Code;

use crate::connection_error::ConnectionError;
use crate::error::{Failure, Outcome};

/// How often a read tries all endpoints. A failure in the third round is not transient; a caller
/// that waits for a node polls or watches.
pub(crate) const ROUNDS: u32 = 3;

/// What to do after a failed read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Retry immediately through another endpoint: this one is the problem.
    Elsewhere,
    /// Retry after a pause: the node is the problem, and may recover.
    Later,
    /// Do not retry.
    Never,
}

/// Whether a read may be retried.
pub(crate) const fn again(failure: &Failure) -> Again {
    match failure {
        // Our own certificate is equally invalid at every other endpoint. Data of a stream that the
        // caller already has cannot be revoked.
        Failure::Connect(
            ConnectionError::ClientCertificateExpired
            | ConnectionError::ClientCertificateRejected(_),
        )
        | Failure::Idle(_)
        | Failure::Truncated(_)
        | Failure::NotAuthorised(_)
        | Failure::NotSupported(_)
        | Failure::NotFound(_)
        | Failure::Malformed(_) => Again::Never,
        Failure::Connect(_)
        | Failure::Broken(_)
        | Failure::Deadline(_)
        | Failure::NotForwarded(_) => Again::Elsewhere,
        Failure::Status { code, .. } => match code {
            // The endpoint returns these when it cannot reach the node; both return them while they
            // shut down or are overloaded.
            Code::Unavailable
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted => Again::Later,
            _ => Again::Never,
        },
    }
}

/// Whether a watch continues after a failure. It retries longer than a read: a watch outlives
/// reboots, so it waits for everything that may recover.
pub(crate) const fn watch_continues(failure: &Failure) -> bool {
    match failure {
        Failure::Connect(fault) => fault.may_pass(),
        Failure::Broken(_)
        | Failure::Deadline(_)
        | Failure::Idle(_)
        | Failure::Truncated(_)
        // A booting node rejects every request until it knows its own state.
        | Failure::NotForwarded(_) => true,
        Failure::Status { code, .. } => !matches!(code, Code::InvalidArgument | Code::OutOfRange),
        Failure::NotAuthorised(_)
        | Failure::NotSupported(_)
        | Failure::NotFound(_)
        | Failure::Malformed(_) => false,
    }
}

/// What is known after a failed act.
pub(crate) fn outcome(failure: &Failure) -> Outcome {
    failure.class().outcome()
}

/// Pauses between attempts: they double, with jitter so that the clients of one node do not return
/// at the same instant.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
    seed: u64,
}

impl Backoff {
    /// From `first` up to `most`; `who` seeds the jitter.
    pub(crate) fn new(first: Duration, most: Duration, who: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        who.hash(&mut hasher);
        Self { next: first, most, seed: hasher.finish() }
    }

    /// The pause before the next attempt: three quarters of the step, plus up to one quarter of
    /// jitter.
    pub(crate) fn pause(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.most);
        // A linear congruential step; it only has to vary.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let spread = u32::try_from((self.seed >> 33) % 256).expect("less than 256");
        step * 3 / 4 + step * spread / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: Code) -> Failure {
        Failure::Status { code, message: String::new() }
    }

    /// Every failure, the reaction of a read, and the outcome of an act.
    fn table() -> Vec<(Failure, Again, Outcome, bool)> {
        use Again::{Elsewhere, Later, Never};
        use Outcome::{NotSent, Refused, Unknown};
        let text = String::new;
        let time = Duration::from_secs(1);
        vec![
            (Failure::Connect(ConnectionError::Refused), Elsewhere, NotSent, true),
            (Failure::Connect(ConnectionError::Unresolved(text())), Elsewhere, NotSent, true),
            (Failure::Connect(ConnectionError::TimedOut(time)), Elsewhere, NotSent, true),
            (Failure::Connect(ConnectionError::Unreachable(text())), Elsewhere, NotSent, true),
            (Failure::Connect(ConnectionError::Handshake(text())), Elsewhere, NotSent, true),
            (Failure::Connect(ConnectionError::WrongAuthority), Elsewhere, NotSent, false),
            (Failure::Connect(ConnectionError::WrongName), Elsewhere, NotSent, false),
            (
                Failure::Connect(ConnectionError::ServerCertificateExpired),
                Elsewhere,
                NotSent,
                false,
            ),
            (Failure::Connect(ConnectionError::ClientCertificateExpired), Never, NotSent, false),
            (
                Failure::Connect(ConnectionError::ClientCertificateRejected(text())),
                Never,
                NotSent,
                false,
            ),
            (Failure::Broken(text()), Elsewhere, Unknown, true),
            (Failure::Deadline(time), Elsewhere, Unknown, true),
            (Failure::Idle(time), Never, Unknown, true),
            (Failure::Truncated(""), Never, Unknown, true),
            (Failure::NotAuthorised(text()), Never, Refused, false),
            (Failure::NotForwarded(text()), Elsewhere, Refused, true),
            (Failure::NotSupported(text()), Never, Refused, false),
            (Failure::NotFound(text()), Never, Refused, false),
            (Failure::Malformed(text()), Never, Unknown, false),
            (status(Code::Cancelled), Later, Unknown, true),
            (status(Code::Unknown), Never, Unknown, true),
            (status(Code::InvalidArgument), Never, Refused, false),
            (status(Code::DeadlineExceeded), Later, Unknown, true),
            (status(Code::AlreadyExists), Never, Refused, true),
            (status(Code::ResourceExhausted), Later, Unknown, true),
            (status(Code::FailedPrecondition), Never, Refused, true),
            (status(Code::Aborted), Later, Unknown, true),
            (status(Code::OutOfRange), Never, Unknown, false),
            (status(Code::Internal), Never, Unknown, true),
            (status(Code::Unavailable), Later, Unknown, true),
            (status(Code::DataLoss), Never, Unknown, true),
        ]
    }

    #[test]
    fn the_table() {
        for (failure, read, act, watch) in table() {
            assert_eq!(again(&failure), read, "{failure:?}");
            assert_eq!(outcome(&failure), act, "{failure:?}");
            assert_eq!(watch_continues(&failure), watch, "{failure:?}");
        }
    }

    #[test]
    fn an_act_that_may_have_happened_is_never_refused() {
        // Rule 8: a broken connection, a deadline and an internal error.
        for (failure, _, act, _) in table() {
            let sent_for_sure_refused = act == Outcome::Refused;
            let connection_lost = matches!(
                failure,
                Failure::Broken(_)
                    | Failure::Deadline(_)
                    | Failure::Idle(_)
                    | Failure::Truncated(_)
            );
            assert!(!(sent_for_sure_refused && connection_lost), "{failure:?}");
        }
    }

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        let mut first = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), "a");
        let mut second = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), "b");
        let firsts: Vec<_> = (0..10).map(|_| first.pause()).collect();
        let seconds: Vec<_> = (0..10).map(|_| second.pause()).collect();
        assert_ne!(firsts, seconds);
        for pause in firsts.iter().chain(&seconds) {
            assert!(*pause >= Duration::from_millis(75) && *pause <= Duration::from_secs(1));
        }
        assert!(firsts[9] >= Duration::from_millis(750));
    }
}
