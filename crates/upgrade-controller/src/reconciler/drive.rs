//! Drives the run: takes the lease, starts or resumes it, passes the user's command on, and
//! records its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upgrade_api::run::RunPhase;
use upgrade_core::advice::Advice;
use upgrade_core::guard;
use upgrade_core::journal::Arming;
use upgrade_core::mutant::Mutant;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::control::Command;
use upgrade_engine::drive::{DriveError, End};

use super::begin::{Created, soon};
use super::rules::{self, SOON};
use super::{Next, ReconcileError, Reconciler};
use crate::api_call::with_timeout;
use crate::connect::{ConnectError, Connection, Connector};
use crate::drive::{Drive, DriveStart, DriverPanic};
use crate::front_end::{Desired, FrontEnd, NextAction};
use crate::http::{DriveMetrics, RunEnd};
use crate::lease::{HeldLease, LeaseError, LeaseRequest};
use crate::run::{InheritError, RunObjectError, halted};

impl<F: FrontEnd, C: Connector> Reconciler<F, C> {
    /// Takes the cluster's lease, or waits for its holder.
    pub(super) async fn take_lease(&mut self, desired: &Desired) -> Result<Next, ReconcileError> {
        let context = &self.context;
        let request = LeaseRequest {
            namespace: context.namespace.clone(),
            lease: desired.cluster.lease(),
            holder: context.identity.clone(),
            about: self.key.clone(),
        };
        let client = context.client.clone();
        let taken =
            HeldLease::take(client, request, &context.heartbeat, &self.observed_lease).await;
        // Runs that were read without the lease may be out of date.
        self.loaded &= matches!(&taken, Err(error) if !matches!(error, LeaseError::Held(_)));
        match taken {
            Ok(lease) => {
                self.lease = Some(lease);
                Ok(Next::Now)
            }
            Err(LeaseError::Held(by)) => {
                tracing::debug!(cluster = self.key, by, "another process drives the cluster");
                // Observed unchanged for its whole duration, it is free.
                let pause = SOON.min(context.heartbeat.lasts() / 4);
                Ok(Next::At(Some(Instant::now() + pause)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The lease ran out: another process may drive what this one drove.
    pub(super) async fn lost(&mut self) {
        tracing::warn!(cluster = self.key, "the lease ran out");
        self.context.metrics.lease_lost();
        self.abandon().await;
    }

    /// Stops, and keeps nothing: the next driver starts from what is written, this process
    /// included.
    async fn abandon(&mut self) {
        self.stop_driving(Duration::from_secs(1)).await;
        self.lease = None;
        self.forget();
    }

    /// What the user wants of the run, for its driver.
    fn user_command(&mut self, next: &NextAction) -> Command {
        self.cancelling = *next == NextAction::Cancel;
        match next {
            NextAction::Pause { by } => Command::Pause { by: by.clone() },
            NextAction::Cancel if guard!(Mutant::CancelIgnored) => {
                Command::Pause { by: "the end of its target".to_owned() }
            }
            _ => Command::Continue,
        }
    }

    /// Passes on what the user wants, and sees that the driver has the newest credentials.
    pub(super) async fn command(
        &mut self,
        object: &Arc<F::Object>,
        next: &NextAction,
        compare_credentials: bool,
    ) -> Result<Next, ReconcileError> {
        let command = self.user_command(next);
        let Some(drive) = &self.drive else { return Ok(Next::Now) };
        drive.send(command);
        if !compare_credentials {
            return Ok(Next::At(Some(self.credentials_at)));
        }
        let waits = drive.waits.borrow().is_some();
        self.credentials_at = rules::compare_credentials(waits, Instant::now());
        if let Ok(access) = self.context.front_end.access(object).await
            && access.digest() != drive.credentials
        {
            tracing::info!(cluster = self.key, "new credentials; resuming the run with them");
            self.stop_driving(Duration::from_secs(2)).await;
            return Ok(Next::Now);
        }
        Ok(Next::At(Some(self.credentials_at)))
    }

    /// Reads the run, connects to the cluster, and lets the engine drive.
    pub(super) async fn resume(
        &mut self,
        object: &Arc<F::Object>,
        desired: &Desired,
        next: &NextAction,
    ) -> Result<Next, ReconcileError> {
        let command = self.user_command(next);
        let (Some(last), Some(lease)) = (&self.last, &self.lease) else {
            return Ok(Next::Now);
        };
        let store = self.store(desired);
        let created = self.created.take();
        let is_last = |it: &Created<C::Io>| it.run.metadata.name.as_ref() == Some(&last.view.name);
        let (run, connection) = if let Some(created) = created.filter(is_last) {
            (Some(created.run), created.connection)
        } else {
            let run = with_timeout(store.get(&last.view.name)).await;
            (run.map_err(ReconcileError::Read)?, None)
        };
        let Some(run) = run else {
            // It was deleted: the cluster is observed again.
            self.forget();
            return Ok(Next::Now);
        };
        if run.spec.hash.is_empty() {
            // Its first status was lost, and with it why there is no plan.
            let closed = store.close(&run, &self.context.identity, "it was never started");
            with_timeout(closed).await.map_err(ReconcileError::Close)?;
            self.loaded = false;
            return Ok(Next::Now);
        }
        let mut open = match self.leased(desired, lease).open(run).await {
            Ok(open) => open,
            Err(RunObjectError::Broken { name, why }) => {
                tracing::error!(run = name, why, "a run cannot be read");
                return self.halt_broken(desired, &why).await;
            }
            Err(error) => return Err(error.into()),
        };
        let connected = match connection {
            Some(connection) => Ok(connection),
            None => self.connect(object).await,
        };
        let Connection { digest, live } = match connected {
            Ok(connection) => connection,
            Err(error) => {
                if let Some(why) = self.is_stuck(error) {
                    let run = open.journal.object();
                    run.lock().await.set_phase(RunPhase::Halted, &why).await?;
                    (self.stuck, self.loaded) = (None, false);
                    return Ok(Next::Now);
                }
                return Ok(soon());
            }
        };
        self.stuck = None;
        open.inherited = match store.inherited(open.plan.parent.clone()).await {
            Ok(inherited) => inherited,
            Err(InheritError::Corrupt(why)) => return self.halt_broken(desired, &why).await,
            Err(error) => return Err(error.into()),
        };
        let metrics = Arc::clone(&self.context.metrics);
        let start = DriveStart {
            open,
            live,
            runner: self.context.identity.clone(),
            resumed_by: F::RESUMED_BY,
            command,
            credentials: digest,
            metrics: DriveMetrics::begin(metrics, last.view.product()),
        };
        self.drive = Some(Drive::start(start));
        self.credentials_at = rules::compare_credentials(false, Instant::now());
        if let Some(last) = &mut self.last {
            last.view.phase = RunPhase::Running;
        }
        Ok(Next::Now)
    }

    /// Notes that the run cannot be driven now; why it is halted, once that took too long
    /// (rule 11).
    fn is_stuck(&mut self, error: ConnectError) -> Option<String> {
        let now = Instant::now();
        let since = self.stuck.as_ref().map_or(now, |(since, _)| *since);
        let why = format!("it could not be driven: {error}");
        self.stuck = Some((since, error));
        rules::is_stuck(since, now).then_some(why)
    }

    /// Halts a run that cannot be read; a person decides what comes next.
    async fn halt_broken(&mut self, desired: &Desired, why: &str) -> Result<Next, ReconcileError> {
        let Some(last) = &self.last else { return Ok(Next::Now) };
        let why = format!("the run cannot be read: {why}");
        let store = self.store(desired);
        let halted = with_timeout(store.halt(&last.view.name, &self.context.identity, &why)).await;
        halted.map_err(ReconcileError::Close)?;
        self.loaded = false;
        Ok(Next::Now)
    }

    /// Stops the driver, if there is one; steps in flight are in doubt.
    pub(super) async fn stop_driving(&mut self, limit: Duration) {
        if let Some(drive) = self.drive.take() {
            drive.stop(limit).await;
        }
    }

    /// Records how a drive ended.
    pub(super) async fn ended(&mut self) -> Result<(), ReconcileError> {
        let Some(mut drive) = self.drive.take() else { return Ok(()) };
        let metrics = drive.metrics.take();
        let run = Arc::clone(&drive.run);
        let end = drive.end().await;
        let phase = match end {
            Ok(Err(error)) if !matches!(error, DriveError::Fold(_)) => {
                // The journal, or the fence: another process may drive by now.
                self.abandon().await;
                return Err(ReconcileError::Drive(error));
            }
            Ok(end) => {
                let advice = |advice: &Advice| {
                    self.last.as_ref().map_or_else(String::new, |last| {
                        self.context.front_end.advice(advice, &last.view)
                    })
                };
                end_phase(end, self.cancelling, advice)
            }
            Err(DriverPanic(panic)) => {
                self.panics += 1;
                tracing::error!(cluster = self.key, panic, "the run driver panicked");
                let text = format!("this program failed: {panic}");
                rules::halts_after(self.panics).then_some((RunPhase::Halted, text))
            }
        };
        if let (Some(metrics), Some((phase, _))) = (metrics, &phase) {
            metrics.end(match phase {
                RunPhase::Completed => RunEnd::Completed,
                RunPhase::Halted => RunEnd::Halted,
                RunPhase::Cancelled => RunEnd::Cancelled,
                RunPhase::Paused => RunEnd::Paused,
                RunPhase::Pending | RunPhase::Running => RunEnd::HandedOver,
            });
        }
        if let Some((phase, message)) = phase
            && let Err(error) = run.lock().await.set_phase(phase, &message).await
        {
            tracing::warn!(cluster = self.key, %error, "the end of the run is not written yet");
        }
        // The object is the truth.
        self.loaded = false;
        Ok(())
    }
}

/// The phase of a run whose driver ended, and why; `None` if another process continues.
fn end_phase(
    end: Result<End, DriveError>,
    cancelling: bool,
    advice: impl Fn(&Advice) -> String,
) -> Option<(RunPhase, String)> {
    match end {
        Ok(End::Done) => Some((RunPhase::Completed, String::new())),
        Ok(End::Halted { reason, armed, cordoned }) => {
            let mut text = halted(&reason, &advice(&reason.advice()));
            let (sure, unsure): (Vec<_>, Vec<_>) =
                armed.into_iter().partition(|(_, state)| state.is_certain());
            if !sure.is_empty() {
                let nodes = names(sure);
                text = format!("{text}. Armed: the next boot of {nodes} is into the new version");
            }
            if !unsure.is_empty() {
                let nodes = names(unsure);
                text = format!(
                    "{text}. Unknown: the next boot of {nodes} may be into the new version"
                );
            }
            if !cordoned.is_empty() {
                text = format!("{text}. {} stays cordoned", list(&cordoned));
            }
            Some((RunPhase::Halted, text))
        }
        Ok(End::Paused { .. }) if cancelling => {
            Some((RunPhase::Cancelled, "its target was removed".to_owned()))
        }
        Ok(End::Paused { by }) => Some((RunPhase::Paused, format!("paused by {by}"))),
        Ok(End::Stopped) => None,
        Err(error) => Some((RunPhase::Halted, format!("its journal is not valid: {error}"))),
    }
}

fn names(nodes: Vec<(NodeName, Arming)>) -> String {
    list(&nodes.into_iter().map(|(node, _)| node).collect::<Vec<_>>())
}

fn list(nodes: &[NodeName]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(end: End, cancelling: bool) -> Option<RunPhase> {
        end_phase(Ok(end), cancelling, |_| String::new()).map(|(phase, _)| phase)
    }

    #[test]
    fn a_cancelled_run_reaches_a_safe_state_first() {
        // Rule 12.
        let paused = || End::Paused { by: "anna".to_owned() };
        assert_eq!(phase(paused(), true), Some(RunPhase::Cancelled));
        assert_eq!(phase(paused(), false), Some(RunPhase::Paused));
        assert_eq!(phase(End::Done, true), Some(RunPhase::Completed), "it was faster");
    }

    #[test]
    fn a_run_that_another_process_continues_keeps_its_phase() {
        // Rule 8: the next driver resumes from the journal.
        assert_eq!(phase(End::Stopped, false), None);
        assert_eq!(phase(End::Stopped, true), None);
    }
}
