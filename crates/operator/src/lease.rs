//! A Lease that says who drives a cluster (rule 9).
//!
//! Nobody trusts another machine's clock: a lease of somebody else counts as
//! over when *we* have seen it unchanged for its whole duration. Our own counts
//! as lost, by our clock, a good while before anybody may think so: counted from
//! before the renewal was sent, and with a margin for what is on its way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt as _};
use thiserror::Error;
use tokio::task::JoinHandle;
use upgrade_core::jiff::Timestamp;
use upgrade_engine::journal::{Fence, Lost};

use crate::clock;

/// How long a lease lasts, usually, without being renewed. Long enough for an
/// API server to be restarted, short enough that a killed process is missed soon.
pub const DURATION: Duration = Duration::from_secs(20);

/// How often a lease is renewed in its time.
const RENEWALS: u32 = 4;

/// Which part of its time before its end we count ours as lost: what was sent in
/// the last moment should have arrived before anybody else acts.
const MARGIN: u32 = 5;

/// One call.
const CALL: Duration = Duration::from_secs(5);

/// The annotation that says which cluster a lease is about.
const ABOUT: &str = "upgrade.vitistack.io/about";

/// Why there is no lease.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// Somebody else has it.
    #[error("{0} drives it")]
    Held(String),
    /// The API server did not do it.
    #[error("the lease {name}: {source}")]
    Api {
        /// Which.
        name: String,
        /// What it said.
        source: kube::Error,
    },
    /// The API server did not answer.
    #[error("the lease {0}: no answer")]
    Silent(String),
}

/// Whose lease, and under which name.
#[derive(Clone, Debug)]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The lease's name.
    pub lease: String,
    /// Who we are.
    pub holder: String,
    /// Which cluster, for people.
    pub about: String,
    /// How long it lasts without being renewed, in whole seconds.
    pub lasts: Duration,
}

/// What was last seen of a lease that somebody else has.
#[derive(Debug, Default)]
pub struct Watched(Mutex<Option<(String, Duration)>>);

impl Watched {
    /// Whether what is seen now has been unchanged for a lease's duration.
    fn is_over(&self, version: &str, duration: Duration, now: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref() {
            Some((seen, since)) if seen == version => now.saturating_sub(*since) >= duration,
            _ => {
                *last = Some((version.to_owned(), now));
                false
            }
        }
    }
}

/// A lease that we have, renewed in the background until it is dropped.
#[derive(Debug)]
pub struct Hold {
    api: Api<Lease>,
    name: Name,
    until: Arc<Until>,
    renewing: JoinHandle<()>,
}

/// Until when.
#[derive(Debug)]
struct Until {
    /// In milliseconds since the machine started.
    until: AtomicU64,
    /// How long a renewal lasts.
    lasts: Duration,
}

impl Until {
    /// What was never had is not held.
    const fn new(lasts: Duration) -> Self {
        Self { until: AtomicU64::new(0), lasts }
    }

    fn set(&self, sent: Duration) {
        let until = sent + self.lasts.saturating_sub(self.lasts / MARGIN);
        self.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// It is somebody else's.
    fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    fn has_passed(&self) -> bool {
        let now = u64::try_from(clock::since_boot().as_millis()).unwrap_or(u64::MAX);
        now >= self.until.load(Ordering::Acquire)
    }
}

impl Fence for Until {
    fn holds(&self) -> Result<(), Lost> {
        if self.has_passed() {
            return Err(Lost("its lease ran out before it could be renewed".to_owned()));
        }
        Ok(())
    }
}

impl Hold {
    /// Takes the lease, if nobody has it.
    pub async fn take(client: Client, name: Name, watched: &Watched) -> Result<Self, LeaseError> {
        let api: Api<Lease> = Api::namespaced(client, &name.namespace);
        let sent = clock::since_boot();
        let lease = claim(&api, &name, watched).await?;
        let until = Arc::new(Until::new(name.lasts));
        until.set(sent);
        let renewing = renew(api.clone(), name.clone(), lease, Arc::clone(&until));
        Ok(Self { api, name, until, renewing: tokio::spawn(renewing) })
    }

    /// Whether it is still ours; asked before every act.
    pub fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.until) as Arc<dyn Fence>
    }

    /// Whether its time is over.
    pub fn is_lost(&self) -> bool {
        self.until.has_passed()
    }

    /// Gives it to whoever asks next. Call it when nothing is done any more.
    pub async fn release(self) {
        self.renewing.abort();
        if self.is_lost() {
            return;
        }
        let name = &self.name;
        let given = tokio::time::timeout(CALL, async {
            let Some(lease) = self.api.get_opt(&name.lease).await? else { return Ok(()) };
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            if holder != Some(&name.holder) {
                return Ok(());
            }
            // Deleted rather than emptied: nothing is left of clusters that go.
            let only_ours =
                Preconditions { resource_version: lease.resource_version(), uid: lease.uid() };
            let params = DeleteParams { preconditions: Some(only_ours), ..DeleteParams::default() };
            self.api.delete(&name.lease, &params).await.map(|_| ())
        });
        if !matches!(given.await, Ok(Ok(()))) {
            tracing::info!(lease = name.lease, "not released; it runs out by itself");
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// Writes our name into the lease, if that is allowed.
async fn claim(api: &Api<Lease>, name: &Name, watched: &Watched) -> Result<Lease, LeaseError> {
    let failed = |source| LeaseError::Api { name: name.lease.clone(), source };
    let silent = |_| LeaseError::Silent(name.lease.clone());
    let found = tokio::time::timeout(CALL, api.get_opt(&name.lease)).await.map_err(silent)?;
    let post = PostParams::default();
    let written = match found.map_err(failed)? {
        None => {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(name.lease.clone()),
                    namespace: Some(name.namespace.clone()),
                    annotations: Some(BTreeMap::from([(ABOUT.to_owned(), name.about.clone())])),
                    ..ObjectMeta::default()
                },
                spec: Some(ours(name, None)),
            };
            tokio::time::timeout(CALL, api.create(&post, &lease)).await.map_err(silent)?
        }
        Some(mut lease) => {
            let spec = lease.spec.clone().unwrap_or_default();
            let holder = spec.holder_identity.clone().unwrap_or_default();
            if !holder.is_empty() && holder != name.holder {
                let lasts = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok());
                let lasts = lasts.map_or(name.lasts, Duration::from_secs);
                let version = lease.resource_version().unwrap_or_default();
                if !watched.is_over(&version, lasts, clock::since_boot()) {
                    return Err(LeaseError::Held(holder));
                }
            }
            lease.spec = Some(ours(name, Some(&spec)));
            // The resourceVersion that came with it lets only one of us win.
            let replaced = api.replace(&name.lease, &post, &lease);
            tokio::time::timeout(CALL, replaced).await.map_err(silent)?
        }
    };
    written.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 409 => {
            LeaseError::Held("another process".to_owned())
        }
        _ => failed(error),
    })
}

fn ours(name: &Name, before: Option<&LeaseSpec>) -> LeaseSpec {
    let at = MicroTime(now());
    let mine = before.is_some_and(|spec| spec.holder_identity.as_deref() == Some(&name.holder));
    let changes = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let acquired = before.and_then(|spec| spec.acquire_time.clone()).filter(|_| mine);
    LeaseSpec {
        holder_identity: Some(name.holder.clone()),
        lease_duration_seconds: i32::try_from(name.lasts.as_secs()).ok(),
        acquire_time: Some(acquired.unwrap_or_else(|| at.clone())),
        renew_time: Some(at),
        lease_transitions: Some(if mine { changes } else { changes + 1 }),
        ..LeaseSpec::default()
    }
}

fn now() -> Timestamp {
    // Kubernetes keeps microseconds.
    let now = clock::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// Renews until somebody else has it, or its time is over.
async fn renew(api: Api<Lease>, name: Name, mut lease: Lease, until: Arc<Until>) {
    let every = name.lasts / RENEWALS;
    let mut pause = every;
    loop {
        tokio::time::sleep(pause).await;
        if until.has_passed() {
            return;
        }
        let sent = clock::since_boot();
        let spec = lease.spec.clone().unwrap_or_default();
        lease.spec = Some(ours(&name, Some(&spec)));
        let post = PostParams::default();
        let replaced = api.replace(&name.lease, &post, &lease);
        let replaced = tokio::time::timeout(CALL.min(every), replaced).await;
        match replaced {
            Ok(Ok(renewed)) => {
                until.set(sent);
                lease = renewed;
                pause = every;
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                // Ours after all, if a renewal arrived whose answer did not.
                match tokio::time::timeout(CALL, api.get(&name.lease)).await {
                    Ok(Ok(found)) => {
                        let holder = found.spec.as_ref().and_then(|it| it.holder_identity.clone());
                        if holder.as_deref() != Some(&name.holder) {
                            until.end();
                            return;
                        }
                        lease = found;
                        pause = Duration::ZERO;
                    }
                    _ => pause = Duration::from_secs(1),
                }
            }
            _ => pause = Duration::from_secs(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_over_when_we_saw_it_unchanged_for_long() {
        // Rule 9: no other machine's clock is believed.
        let watched = Watched::default();
        let second = Duration::from_secs;
        assert!(!watched.is_over("1", DURATION, second(100)));
        assert!(!watched.is_over("1", DURATION, second(119)));
        assert!(watched.is_over("1", DURATION, second(120)));
        // It was renewed: we wait again.
        assert!(!watched.is_over("2", DURATION, second(121)));
        assert!(!watched.is_over("2", DURATION, second(140)));
        assert!(watched.is_over("2", DURATION, second(141)));
    }

    #[test]
    fn ours_is_lost_before_anybody_else_may_think_so() {
        let until = Until::new(DURATION);
        assert!(until.holds().is_err(), "what was never had is not held");
        until.set(clock::since_boot());
        assert!(until.holds().is_ok());
        let late = clock::since_boot().saturating_sub(DURATION.saturating_sub(DURATION / MARGIN));
        until.set(late);
        assert!(until.holds().is_err());
    }
}
