//! Waiting for something to become true: look; if it is not so yet, wait until
//! something may have changed, or a while; look again, until the deadline.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use jiff::{SignedDuration, Timestamp};
use upgrade_core::event::StepProgress;
use upgrade_core::jiff;
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::{Failure, FailureKind};

use super::Step;
use crate::io::{Changes, Clock, Io, ProgressSink as _, Trouble};

/// How long nothing may be told before it is looked again all the same.
const FALLBACK: SignedDuration = SignedDuration::from_secs(5);

/// The shortest time between two looks, however much changes meanwhile.
const BREATH: SignedDuration = SignedDuration::from_millis(500);

/// How long one look may take before it counts as unanswered.
const LOOK: SignedDuration = SignedDuration::from_secs(30);

/// What a look found.
#[derive(Debug)]
pub(crate) enum Look<T> {
    /// It is so.
    Found(T),
    /// It is not so yet, and why.
    NotYet(String),
    /// It is not so yet, and how far it is.
    Counting(StepProgress),
}

impl<T> Look<T> {
    /// What could not be seen is not so yet; the reason is the trouble.
    pub(crate) fn of(seen: Result<T, Trouble>) -> Self {
        match seen {
            Ok(value) => Self::Found(value),
            Err(trouble) => Self::NotYet(trouble.to_string()),
        }
    }
}

/// A wait, and what to say should it be in vain.
pub(crate) struct Wait {
    /// Looked again whenever one of these grows.
    pub(crate) changes: Vec<Changes>,
    /// The kind of failure at the deadline.
    pub(crate) kind: FailureKind,
    /// What did not happen, such as `worker-1 did not become ready`.
    pub(crate) in_vain: String,
    /// When to give up, if not at the deadline of the step.
    pub(crate) until: Option<Timestamp>,
}

impl Wait {
    /// A wait until the step's deadline.
    pub(crate) fn new(kind: FailureKind, in_vain: impl Into<String>) -> Self {
        Self { changes: Vec::new(), kind, in_vain: in_vain.into(), until: None }
    }

    /// Looks again whenever this grows, too.
    pub(crate) fn on(mut self, changes: Changes) -> Self {
        self.changes.push(changes);
        self
    }

    /// Gives up earlier than the step.
    pub(crate) fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// Looks until it is so. The last reason why it is not is told while it
    /// lasts, and is in the words of the failure (rule 11).
    pub(crate) async fn look<I, T, F, L>(
        mut self,
        step: &Step<I>,
        mut look: F,
    ) -> Result<T, Failure>
    where
        I: Io,
        F: FnMut() -> L + Send,
        L: Future<Output = Result<Look<T>, Failure>> + Send,
        T: Send,
    {
        let clock = step.io.clock();
        let until = self.until.map_or(step.deadline, |until| until.min(step.deadline));
        let left = || until.duration_since(clock.now());
        loop {
            // What changes from here on is seen by the next look.
            for changes in &mut self.changes {
                changes.mark_unchanged();
            }
            let asked = clock.now();
            let reason = tokio::select! {
               biased;
                found = look() => match found? {
                    Look::Found(found) => return Ok(found),
                    Look::NotYet(reason) => StepProgress::text(reason),
                    Look::Counting(progress) => progress,
                },
                () = clock.sleep(left().clamp(BREATH, LOOK)) => StepProgress::text("no answer"),
            };
            if !mutant::is(Mutant::WaitUntold) {
                step.report(reason.clone());
            }
            if left() <= SignedDuration::ZERO {
                let Self { kind, in_vain, .. } = self;
                return Err(Failure::new(kind, &format!("{in_vain} in time: {}", reason.message)));
            }
            clock.sleep(BREATH.min(left())).await;
            let rest = FALLBACK.saturating_sub(clock.now().duration_since(asked));
            any(clock, &mut self.changes, rest.min(left())).await;
        }
    }
}

/// Comes back when one of the numbers has grown, or after this long.
pub(crate) async fn any<C: Clock>(clock: &C, changes: &mut [Changes], longest: SignedDuration) {
    type Grown<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
    let mut grown: Vec<Grown<'_>> = changes
        .iter_mut()
        .map(|changes| {
            let grown: Grown<'_> = Box::pin(async move {
                // Nobody tells any more: only the fallback is left.
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

/// Repeats a call that changes nothing while the other side is merely
/// unavailable, until the deadline of the step.
pub(crate) async fn ask<I, T, F, L>(step: &Step<I>, what: &str, mut call: F) -> Result<T, Failure>
where
    I: Io,
    F: FnMut() -> L + Send,
    L: Future<Output = Result<T, Trouble>> + Send,
    T: Send,
{
    let wait = Wait::new(FailureKind::Unavailable, format!("{what} could not be read"));
    wait.look(step, || {
        let answer = call();
        async move {
            match answer.await {
                Err(trouble) if !trouble.failure.kind.may_pass() => Err(trouble.failure),
                answer => Ok(Look::of(answer)),
            }
        }
    })
    .await
}
