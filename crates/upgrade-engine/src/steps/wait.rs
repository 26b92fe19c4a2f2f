//! Waits for something to become true: probe; if it is not true yet, wait until something may have
//! changed or the fallback interval has passed; probe again, until the deadline.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use jiff::{SignedDuration, Timestamp};
use upgrade_core::event::StepProgress;
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::{Failure, FailureKind};

use super::Step;
use crate::io::{Changes, Clock, Io, IoError, ProgressSink as _};

/// The longest time between two probes.
const FALLBACK_INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// The shortest time between two probes, however much changes meanwhile.
const MIN_INTERVAL: SignedDuration = SignedDuration::from_millis(500);

/// How long one probe may take before it counts as unanswered.
const PROBE_LIMIT: SignedDuration = SignedDuration::from_secs(30);

/// The result of a probe.
#[derive(Debug)]
pub(crate) enum Probe<T> {
    /// It is true.
    Found(T),
    /// Not yet, and why.
    NotYet(String),
    /// Not yet, with a count of what is done.
    Counting(StepProgress),
}

impl<T> Probe<T> {
    /// A failed read means not yet; its error is the reason.
    pub(crate) fn of(answer: Result<T, IoError>) -> Self {
        match answer {
            Ok(value) => Self::Found(value),
            Err(error) => Self::NotYet(error.to_string()),
        }
    }

    /// The same for errors that may pass. Any other error ends the step.
    pub(crate) fn or_fail(answer: Result<T, IoError>) -> Result<Self, Failure> {
        match answer {
            Err(error) if !error.failure.kind.may_pass() => Err(error.failure),
            answer => Ok(Self::of(answer)),
        }
    }
}

/// A wait, and how it fails at its deadline.
pub(crate) struct Wait {
    /// Probes again whenever one of these grows.
    pub(crate) changes: Vec<Changes>,
    /// The kind of failure at the deadline.
    pub(crate) kind: FailureKind,
    /// What did not happen, such as `worker-1 did not become ready`.
    pub(crate) timeout_text: String,
    /// When the wait ends, if before the deadline of the step.
    pub(crate) until: Option<Timestamp>,
}

impl Wait {
    /// A wait until the deadline of the step.
    pub(crate) fn new(kind: FailureKind, timeout_text: impl Into<String>) -> Self {
        Self { changes: Vec::new(), kind, timeout_text: timeout_text.into(), until: None }
    }

    /// Probes again whenever this grows.
    pub(crate) fn on(mut self, changes: Changes) -> Self {
        self.changes.push(changes);
        self
    }

    /// Ends earlier than the step.
    pub(crate) fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// Probes until it finds something. The last reason why it did not is reported while the wait
    /// lasts, and is part of the failure (rule 11).
    pub(crate) async fn poll<I, T, F, P>(
        mut self,
        step: &Step<I>,
        mut probe: F,
    ) -> Result<T, Failure>
    where
        I: Io,
        F: FnMut() -> P + Send,
        P: Future<Output = Result<Probe<T>, Failure>> + Send,
        T: Send,
    {
        let clock = step.io.clock();
        let until = self.until.map_or(step.deadline, |until| until.min(step.deadline));
        let left = || until.duration_since(clock.now());
        loop {
            // What changes from here on is seen by the next probe.
            for changes in &mut self.changes {
                changes.mark_unchanged();
            }
            let asked = clock.now();
            let reason = tokio::select! {
               biased;
                found = probe() => match found? {
                    Probe::Found(found) => return Ok(found),
                    Probe::NotYet(reason) => StepProgress::text(reason),
                    Probe::Counting(progress) => progress,
                },
                () = clock.sleep(left().clamp(MIN_INTERVAL, PROBE_LIMIT)) => StepProgress::text("no answer"),
            };
            if guard!(Mutant::WaitUnreported) {
                step.report(reason.clone());
            }
            if left() <= SignedDuration::ZERO {
                let Self { kind, timeout_text, .. } = self;
                return Err(Failure::new(
                    kind,
                    &format!("{timeout_text} in time: {}", reason.message),
                ));
            }
            clock.sleep(MIN_INTERVAL.min(left())).await;
            let rest = FALLBACK_INTERVAL.saturating_sub(clock.now().duration_since(asked));
            any_change(clock, &mut self.changes, rest.min(left())).await;
        }
    }
}

/// Returns when one of the numbers has grown, or after this long.
pub(crate) async fn any_change<C: Clock>(
    clock: &C,
    changes: &mut [Changes],
    longest: SignedDuration,
) {
    type Grown<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
    let mut grown: Vec<Grown<'_>> = changes
        .iter_mut()
        .map(|changes| {
            let grown: Grown<'_> = Box::pin(async move {
                // The sender is gone: only the fallback interval is left.
                if changes.changed().await.is_err() {
                    pending::<()>().await;
                }
            });
            grown
        })
        .collect();
    let one = poll_fn(|context| {
        let ready = grown.iter_mut().any(|grown| grown.as_mut().poll(context).is_ready());
        if ready { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::select! {
        biased;
        () = one => {}
        () = clock.sleep(longest) => {}
    }
}

/// Repeats a call that changes nothing while the other side is only unavailable, until the deadline
/// of the step.
pub(crate) async fn retry_read<I, T, F, P>(
    step: &Step<I>,
    what: &str,
    mut call: F,
) -> Result<T, Failure>
where
    I: Io,
    F: FnMut() -> P + Send,
    P: Future<Output = Result<T, IoError>> + Send,
    T: Send,
{
    let wait = Wait::new(FailureKind::Unavailable, format!("{what} could not be read"));
    wait.poll(step, || {
        let answer = call();
        async move { Probe::or_fail(answer.await) }
    })
    .await
}
