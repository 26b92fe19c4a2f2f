//! Drives the run: takes the lease, begins or takes it up, passes the user's
//! word on, and takes its end in.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::time::Instant;
use upgrade_core::journal::Arming;
use upgrade_core::product::Product;
use upgrade_core::snapshot::NodeName;
use upgrade_core::text::chain;
use upgrade_engine::control::Word;
use upgrade_engine::drive::{DriveError, End};
use vitistack_api::KubernetesCluster;
use vitistack_api::run::RunPhase;

use super::begin::soon;
use super::known::Reached;
use super::{Next, SOON, Task};
use crate::decide::Act;
use crate::drive::{Drive, Start};
use crate::http::{Drives, RunEnd};
use crate::hub::answer;
use crate::lease::{Hold, LeaseError, Name};
use crate::run::{RecordError, Unread, halted};

/// How often the keys of a run that waits for something are compared, so that new
/// ones are used soon.
const KEYS: Duration = Duration::from_secs(15);

/// And of one that gets on: old keys may work for long.
const KEYS_IN_USE: Duration = Duration::from_mins(1);

/// How long a run may not be drivable at all, for want of keys or the like
/// (rule 11).
const STUCK: Duration = Duration::from_mins(15);

/// How often a drive may break off by a mistake of this program.
const PANICS: u32 = 3;

impl Task {
    /// Takes the cluster's lease, or waits for whoever has it.
    pub(super) async fn take_lease(&mut self, object: &KubernetesCluster) -> Result<Next, String> {
        let name = Name {
            namespace: self.shared.namespace.clone(),
            // A cluster made anew under an old name is another one.
            lease: format!("upgrade-{}", object.uid().unwrap_or_default()),
            holder: self.shared.identity.clone(),
            about: self.key.clone(),
        };
        let client = self.shared.client.clone();
        match Hold::take(client, name, &self.shared.pulse, &self.watched).await {
            Ok(hold) => {
                self.hold = Some(hold);
                // What was read before may be somebody else's past.
                self.loaded = false;
                Ok(Next::Now)
            }
            Err(LeaseError::Held(by)) => {
                tracing::debug!(cluster = self.key, by, "somebody else drives");
                self.loaded = false;
                // Seen to be unchanged for its whole time, it is free.
                Ok(Next::At(Some(Instant::now() + SOON.min(self.shared.pulse.lasts() / 4))))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The lease ran out: whatever this process drove is not its any more.
    pub(super) async fn lost(&mut self) {
        tracing::warn!(cluster = self.key, "the lease ran out");
        self.shared.metrics.lease_lost();
        self.let_go().await;
    }

    /// Whoever drives next begins with what is written, this process included.
    async fn let_go(&mut self) {
        self.stop_driving(Duration::from_secs(1)).await;
        self.hold = None;
        self.forget();
    }

    /// Begins to drive, or tells the drive what the user wants.
    pub(super) async fn keep_driving(
        &mut self,
        object: &Arc<KubernetesCluster>,
        act: &Act,
    ) -> Result<Next, String> {
        self.cancelling = *act == Act::Cancel;
        let word = match act {
            Act::Pause { by } => Word::Pause { by: by.clone() },
            Act::Cancel => Word::Pause { by: "the end of its target".to_owned() },
            _ => Word::Go,
        };
        let Some(drive) = &self.drive else {
            return self.take_up(object, word).await;
        };
        drive.say(word);
        if Instant::now() < self.keys_at {
            return Ok(Next::At(Some(self.keys_at)));
        }
        let waits = drive.waits.borrow().is_some();
        self.keys_at = Instant::now() + if waits { KEYS } else { KEYS_IN_USE };
        // New keys: what is under way is resumed with them.
        if let Ok(keys) = self.shared.connector.keys(object).await
            && keys.digest() != drive.keys
        {
            tracing::info!(cluster = self.key, "new keys; the run is resumed with them");
            self.stop_driving(Duration::from_secs(2)).await;
            return Ok(Next::Now);
        }
        Ok(Next::At(Some(self.keys_at)))
    }

    /// Reads the run, reaches the cluster, and lets the engine drive.
    async fn take_up(
        &mut self,
        object: &Arc<KubernetesCluster>,
        word: Word,
    ) -> Result<Next, String> {
        let (Some(last), Some(hold)) = (&self.last, &self.hold) else {
            return Ok(Next::Now);
        };
        if let Some(until) = self.waits_for_others() {
            self.lets_others_begin = true;
            return Ok(Next::At(Some(until)));
        }
        let store = self.store(object);
        let (run, reached) = match self.made.take().filter(|it| it.run.name_any() == last.name) {
            Some(made) => (Some(made.run), made.reached),
            None => (answer(store.get(&last.name)).await?, None),
        };
        let Some(run) = run else {
            // Somebody deleted it: what was under way is looked at anew.
            self.forget();
            return Ok(Next::Now);
        };
        if run.spec.hash.is_empty() {
            // Its first status never arrived, and with it why there is no plan.
            answer(store.close(&run, &self.shared.identity, "it was never begun")).await?;
            self.loaded = false;
            return Ok(Next::Now);
        }
        let mut open = match self.held(object, hold).open(run).await {
            Ok(open) => open,
            Err(RecordError::Broken { name, why }) => {
                tracing::error!(run = name, why, "a run cannot be read");
                return self.broken(object, &why).await;
            }
            Err(error) => return Err(error.to_string()),
        };
        let reached = match reached {
            Some(reached) => Ok(reached),
            None => self.reach(object).await,
        };
        let Reached { keys, live } = match reached {
            Ok(reached) => reached,
            Err(why) => {
                let (since, _) = *self.stuck.get_or_insert((Instant::now(), why.clone()));
                self.stuck = Some((since, why.clone()));
                if since.elapsed() < STUCK {
                    return Ok(soon());
                }
                let why = format!("it could not be driven: {why}");
                let record = open.journal.record();
                let halted = record.lock().await.set_phase(RunPhase::Halted, &why).await;
                halted.map_err(|error| error.to_string())?;
                (self.stuck, self.loaded) = (None, false);
                return Ok(Next::Now);
            }
        };
        self.stuck = None;
        open.inherited = match store.inherited(open.plan.parent.clone()).await {
            Ok(left) => left,
            Err(Unread::Broken(why)) => return self.broken(object, &why).await,
            Err(Unread::Away(why)) => return Err(why),
        };
        let drives = Drives::begin(Arc::clone(&self.shared.metrics), last.view.product);
        let runner = self.shared.identity.clone();
        self.drive = Some(Drive::start(Start { open, live, runner, word, keys, drives }));
        self.keys_at = Instant::now() + KEYS_IN_USE;
        if let Some(last) = &mut self.last {
            last.view.phase = RunPhase::Running;
        }
        Ok(Next::Now)
    }

    /// A run that cannot be read is over; a person decides what comes next.
    async fn broken(&mut self, object: &KubernetesCluster, why: &str) -> Result<Next, String> {
        let Some(last) = &self.last else { return Ok(Next::Now) };
        let store = self.store(object);
        let why = format!("the run cannot be read: {why}");
        answer(store.halt(&last.name, &self.shared.identity, &why)).await?;
        self.loaded = false;
        Ok(Next::Now)
    }

    /// Ends the drive, if there is one; what is under way is in doubt.
    pub(super) async fn stop_driving(&mut self, limit: Duration) {
        if let Some(drive) = self.drive.take() {
            drive.stop(limit).await;
        }
    }

    /// Takes the end of a drive in.
    pub(super) async fn ended(&mut self) -> Result<(), String> {
        let Some(mut drive) = self.drive.take() else { return Ok(()) };
        let drives = drive.drives.take();
        let product = self.last.as_ref().map_or(Product::Talos, |last| last.view.product);
        let record = Arc::clone(&drive.record);
        let end = drive.end().await;
        let mut record = record.lock().await;
        let phase = match end {
            Ok(Ok(End::Done)) => Some((RunPhase::Completed, String::new())),
            Ok(Ok(End::Halted { reason, armed, cordoned })) => {
                let mut text = halted(&reason, product);
                let (sure, unsure): (Vec<_>, Vec<_>) =
                    armed.into_iter().partition(|(_, state)| state.is_certain());
                let names = |nodes: Vec<(NodeName, Arming)>| {
                    list(&nodes.into_iter().map(|(node, _)| node).collect::<Vec<_>>())
                };
                if !sure.is_empty() {
                    let nodes = names(sure);
                    text =
                        format!("{text}. Armed: the next boot of {nodes} is into the new version");
                }
                if !unsure.is_empty() {
                    let nodes = names(unsure);
                    text = format!(
                        "{text}. Not known: the next boot of {nodes} may be into the new version"
                    );
                }
                if !cordoned.is_empty() {
                    text = format!("{text}. {} stays cordoned", list(&cordoned));
                }
                Some((RunPhase::Halted, text))
            }
            Ok(Ok(End::Paused { .. })) if self.cancelling => {
                Some((RunPhase::Cancelled, "the user took its target away".to_owned()))
            }
            Ok(Ok(End::Paused { by })) => Some((RunPhase::Paused, format!("paused by {by}"))),
            Ok(Ok(End::Stopped)) => None,
            Ok(Err(DriveError::Fold(error))) => {
                Some((RunPhase::Halted, format!("its journal makes no sense: {error}")))
            }
            Ok(Err(error)) => {
                // The journal, or the fence: somebody else may drive by now.
                drop(record);
                self.let_go().await;
                return Err(format!("the run ended early: {}", chain(&error)));
            }
            Err(panic) => {
                self.panics += 1;
                tracing::error!(cluster = self.key, panic, "a mistake of this program");
                let text = format!("this program failed: {panic}");
                (self.panics >= PANICS).then_some((RunPhase::Halted, text))
            }
        };
        if let (Some(drives), Some((phase, _))) = (drives, &phase) {
            drives.end(match phase {
                RunPhase::Completed => RunEnd::Completed,
                RunPhase::Halted => RunEnd::Halted,
                RunPhase::Cancelled => RunEnd::Cancelled,
                RunPhase::Paused => RunEnd::Paused,
                RunPhase::Pending | RunPhase::Running => RunEnd::HandedOver,
            });
        }
        if let Some((phase, message)) = phase {
            let written = record.set_phase(phase, &message).await;
            drop(record);
            if let Err(error) = written {
                tracing::warn!(cluster = self.key, %error, "the end of the run is not written yet");
            }
        }
        // What counts is what the object says.
        self.loaded = false;
        Ok(())
    }
}

fn list(nodes: &[NodeName]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
