//! A Lease that says who drives a cluster (rule 9).
//!
//! A replica writes it when it takes a cluster, and does not renew it: it lasts as long as the
//! heartbeat of that replica, in the session that it names ([`crate::heartbeat`]). A lease
//! without such a heartbeat, as a Job has it ([`RenewedLease`]), is over when *we* have seen
//! it unchanged for its whole duration.

mod renewed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt as _};
use thiserror::Error;
use tokio::runtime::Handle;
use upgrade_core::jiff::Timestamp;
use upgrade_engine::journal::{Fence, Lost};

use crate::api_call::{CallError, within};
use crate::clock::Clock;
use crate::heartbeat::Heartbeat;

pub use renewed::RenewedLease;

/// How long a replica that fell silent keeps its leases, usually. Long enough for an
/// API server to be restarted, short enough that a killed process is missed soon.
pub const DURATION: Duration = Duration::from_secs(20);

/// How long a call may take that a lease waits for: a quarter of the usual lease, so that a
/// call that is lost can be repeated before the lease runs out.
pub const CALL: Duration = Duration::from_secs(DURATION.as_secs() / 4);

/// How soon a release that failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// The annotation that says which cluster a lease is about.
const ABOUT: &str = "upgrade.vitistack.io/about";

/// The annotation that says in which session its replica took it.
pub const SESSION: &str = "upgrade.vitistack.io/session";

/// The annotation of a lease that its holder renews itself.
const RENEWED: &str = "upgrade.vitistack.io/renewed";

/// Why there is no lease.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// Another process has it.
    #[error("{0} drives it")]
    Held(String),
    /// A process with a late heartbeat takes nothing.
    #[error("the lease {0}: this replica's own heartbeat is late")]
    Late(String),
    /// The API server did not do it.
    #[error("the lease {name}: {error}")]
    Call {
        /// Its name.
        name: String,
        /// What went wrong.
        error: CallError,
    },
}

/// Whose lease, and under which name.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    /// The namespace.
    pub namespace: String,
    /// The lease's name.
    pub lease: String,
    /// Who we are.
    pub holder: String,
    /// Which cluster, for people.
    pub about: String,
}

/// The last observation of a lease whose holder has no heartbeat.
#[derive(Debug, Default)]
pub struct ObservedLease(Mutex<Option<(String, Duration)>>);

impl ObservedLease {
    /// Whether what is seen now has been unchanged for a lease's duration, when the
    /// heartbeats were asked for last.
    fn is_over(&self, version: &str, lasts: Duration, asked: Duration, now: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref() {
            Some((seen, since)) if seen == version => asked.saturating_sub(*since) >= lasts,
            _ => {
                *last = Some((version.to_owned(), now));
                false
            }
        }
    }

    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A lease that we hold until our heartbeat stops or it is released.
#[derive(Debug)]
pub struct HeldLease {
    held: Arc<Held>,
    /// As it was written; `None` once it is released.
    claim: Option<Claim>,
}

/// A lease as we wrote it.
#[derive(Debug)]
struct Claim {
    api: Api<Lease>,
    lease: Lease,
}

/// In which session.
#[derive(Debug)]
struct Held {
    heartbeat: Arc<Heartbeat>,
    session: u64,
}

impl Fence for Held {
    fn holds(&self) -> Result<(), Lost> {
        if self.heartbeat.holds(self.session, self.heartbeat.clock().since_boot()) {
            return Ok(());
        }
        Err(Lost("its lease ran out before it could be renewed".to_owned()))
    }
}

impl HeldLease {
    /// Takes the lease, if it is free.
    pub async fn take(
        client: Client,
        name: LeaseRequest,
        heartbeat: &Arc<Heartbeat>,
        watched: &ObservedLease,
    ) -> Result<Self, LeaseError> {
        let api: Api<Lease> = Api::namespaced(client, &name.namespace);
        let session = heartbeat.current(heartbeat.clock().since_boot());
        let session = session.ok_or_else(|| LeaseError::Late(name.lease.clone()))?;
        let marks = BTreeMap::from([
            (ABOUT.to_owned(), name.about.clone()),
            (SESSION.to_owned(), heartbeat.named(session)),
        ]);
        let lease = claim(&api, &name, heartbeat, &marks, watched).await?;
        let held = Arc::new(Held { heartbeat: Arc::clone(heartbeat), session });
        Ok(Self { held, claim: Some(Claim { api, lease }) })
    }

    /// Whether it is still ours; asked before every act.
    pub fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.held) as Arc<dyn Fence>
    }

    /// Whether its time is over.
    pub fn is_lost(&self) -> bool {
        self.held.holds().is_err()
    }

    /// Releases it. Call it once nothing is done any more.
    pub async fn release(mut self) {
        let Some(claim) = self.claim.take() else { return };
        // In a task of its own: it continues if the hub does not answer in time.
        let giving = tokio::spawn(claim.delete_lease(Arc::clone(&self.held)));
        let _ = tokio::time::timeout(CALL, giving).await;
    }
}

impl Drop for HeldLease {
    /// An owner that dropped it may not have ended yet what it did. No other process takes it
    /// while our heartbeat continues, so it is released a while later.
    fn drop(&mut self) {
        let (Some(claim), Ok(runtime)) = (self.claim.take(), Handle::try_current()) else {
            return;
        };
        let held = Arc::clone(&self.held);
        runtime.spawn(async move {
            tokio::time::sleep(held.heartbeat.lasts()).await;
            claim.delete_lease(held).await;
        });
    }
}

impl Claim {
    /// Deletes the lease, as long as it is this claim; until that is done, or our
    /// session is over and the lease with it.
    async fn delete_lease(mut self, held: Arc<Held>) {
        let name = self.lease.name_any();
        let mut logged = false;
        while held.holds().is_ok() {
            let now = &self.lease;
            let only_this =
                Preconditions { resource_version: now.resource_version(), uid: now.uid() };
            // Deleted rather than emptied: nothing is left of clusters that go.
            let params = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
            match within(CALL, self.api.delete(&name, &params)).await {
                Ok(_) => return,
                Err(error) if error.code() == Some(404) => return,
                Err(error) if error.code() == Some(409) => {
                    match within(CALL, self.api.get_opt(&name)).await {
                        // Only a label or the like changed: it is still this one.
                        Ok(Some(found)) if found.spec == self.lease.spec => {
                            self.lease = found;
                            continue;
                        }
                        // Taken again, by us or by another process, or gone.
                        Ok(_) => return,
                        Err(_) => {}
                    }
                }
                Err(_) => {}
            }
            if !std::mem::replace(&mut logged, true) {
                tracing::info!(lease = name, "the lease could not be released; retrying");
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Writes our name into the lease, if that is allowed.
async fn claim(
    api: &Api<Lease>,
    name: &LeaseRequest,
    heartbeat: &Heartbeat,
    marks: &BTreeMap<String, String>,
    watched: &ObservedLease,
) -> Result<Lease, LeaseError> {
    let failed = |error| LeaseError::Call { name: name.lease.clone(), error };
    let another = || LeaseError::Held("another process".to_owned());
    let post = PostParams::default();
    let new = Lease {
        metadata: ObjectMeta {
            name: Some(name.lease.clone()),
            namespace: Some(name.namespace.clone()),
            annotations: Some(marks.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(ours(name, heartbeat, None)),
    };
    // Most clusters have no lease: they rested.
    match within(CALL, api.create(&post, &new)).await {
        Err(error) if error.code() == Some(409) => {}
        made => return made.map_err(failed),
    }
    let found = within(CALL, api.get_opt(&name.lease)).await;
    let mut lease = found.map_err(failed)?.ok_or_else(another)?;
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.clone().unwrap_or_default();
    if !holder.is_empty()
        && holder != name.holder
        && !is_over(&lease, &holder, heartbeat, watched, heartbeat.clock().since_boot())
    {
        return Err(LeaseError::Held(holder));
    }
    lease.spec = Some(ours(name, heartbeat, Some(&spec)));
    let annotations = lease.annotations_mut();
    annotations.retain(|key, _| ![SESSION, RENEWED].contains(&key.as_str()));
    annotations.extend(marks.clone());
    // The resourceVersion that came with it lets only one of us win.
    let replaced = within(CALL, api.replace(&name.lease, &post, &lease)).await;
    replaced.map_err(|error| match error.code() {
        Some(409) => another(),
        _ => failed(error),
    })
}

/// Whether the lease of another process is over (rule 9).
fn is_over(
    lease: &Lease,
    holder: &str,
    heartbeat: &Heartbeat,
    observed: &ObservedLease,
    now: Duration,
) -> bool {
    let annotation = |key: &str| lease.annotations().get(key).map_or("", String::as_str);
    let asked = match heartbeat.asked() {
        Some(asked) => {
            if let Some(silent) = heartbeat.is_silent(holder, annotation(SESSION)) {
                observed.forget();
                return silent;
            }
            asked
        }
        // This process reads no heartbeats. A lease that lasts by one looks unchanged all
        // the time, and only a replica may say that it is over.
        None if annotation(RENEWED).is_empty() => return false,
        None => now,
    };
    let lasts = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    let lasts = lasts.and_then(|it| u64::try_from(it).ok());
    let lasts = lasts.map_or(heartbeat.lasts(), Duration::from_secs);
    let version = lease.resource_version().unwrap_or_default();
    observed.is_over(&version, lasts, asked, now)
}

fn ours(name: &LeaseRequest, heartbeat: &Heartbeat, before: Option<&LeaseSpec>) -> LeaseSpec {
    let at = MicroTime(now(heartbeat.clock()));
    let mine = before.is_some_and(|spec| spec.holder_identity.as_deref() == Some(&name.holder));
    let changes = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let acquired = before.and_then(|spec| spec.acquire_time.clone()).filter(|_| mine);
    LeaseSpec {
        holder_identity: Some(name.holder.clone()),
        lease_duration_seconds: i32::try_from(heartbeat.lasts().as_secs()).ok(),
        acquire_time: Some(acquired.unwrap_or_else(|| at.clone())),
        renew_time: Some(at),
        lease_transitions: Some(if mine { changes } else { changes + 1 }),
        ..LeaseSpec::default()
    }
}

fn now(clock: Clock) -> Timestamp {
    // Kubernetes keeps microseconds.
    let now = clock.now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::heartbeat::PeerHeartbeat;

    #[test]
    fn a_lease_without_a_heartbeat_is_over_when_we_saw_it_unchanged_for_long() {
        // Rule 9: no other machine's clock is believed.
        let watched = ObservedLease::default();
        let at = |version: &str, second| {
            let second = Duration::from_secs(second);
            watched.is_over(version, DURATION, second, second)
        };
        assert!(!at("1", 100));
        assert!(!at("1", 119));
        assert!(at("1", 120));
        // Another process took it: we wait again.
        assert!(!at("2", 121));
        assert!(!at("2", 140));
        assert!(at("2", 141));
    }

    #[test]
    fn a_lease_lasts_as_long_as_the_heartbeat_of_its_session() {
        // Rule 9.
        let lease: Lease = serde_json::from_value(json!({
            "metadata": {"name": "l", "resourceVersion": "7", "annotations": {SESSION: "s"}},
            "spec": {"holderIdentity": "b", "leaseDurationSeconds": 20},
        }))
        .unwrap();
        let heartbeat = Heartbeat::new("p".to_owned(), DURATION, Clock::SYSTEM);
        let watched = ObservedLease::default();
        let begun = Clock::SYSTEM.since_boot();
        let is_over_at = |session: &str, version: &str, seconds| {
            let (session, version) = (session.to_owned(), version.to_owned());
            let at = begun + Duration::from_secs(seconds);
            let beat = PeerHeartbeat { holder: "b".to_owned(), session, version, lasts: DURATION };
            heartbeat.found(vec![beat], at, at);
            is_over(&lease, "b", &heartbeat, &watched, heartbeat.clock().since_boot())
        };
        for beat in 0..10 {
            assert!(
                !is_over_at("s", &beat.to_string(), beat * 5),
                "it was taken long ago, and it beats"
            );
        }
        assert!(is_over_at("s", "9", 65), "silent for its time");
        // Its replica came back in another session, which does not hold it.
        assert!(!is_over_at("t", "11", 70), "seen for the first time");
        assert!(is_over_at("t", "13", 95));
        assert!(!is_over_at("s", "14", 96), "it beats, whatever was thought");
    }

    #[test]
    fn a_process_that_reads_no_heartbeats_takes_no_lease_that_lasts_by_one() {
        // Rule 9: to a Job the lease of a replica looks unchanged all the time.
        let lease = |mark: &str| -> Lease {
            serde_json::from_value(json!({
                "metadata": {"name": "l", "resourceVersion": "7", "annotations": {mark: "s"}},
                "spec": {"holderIdentity": "b", "leaseDurationSeconds": 20},
            }))
            .unwrap()
        };
        let heartbeat = Heartbeat::new("job".to_owned(), DURATION, Clock::SYSTEM);
        let over = |lease: &Lease, observed: &ObservedLease, second| {
            is_over(lease, "b", &heartbeat, observed, Duration::from_secs(second))
        };
        let (of_replica, of_job) = (lease(SESSION), lease(RENEWED));
        let observed = ObservedLease::default();
        assert!([100, 120, 3600].iter().all(|second| !over(&of_replica, &observed, *second)));
        assert!(!over(&of_job, &observed, 100));
        assert!(!over(&of_job, &observed, 119));
        assert!(over(&of_job, &observed, 120), "another Job did not renew it");
    }
}
