//! A lease that its holder renews itself, for a process without a heartbeat that replicas
//! read: one that drives a single run, such as a Kubernetes Job. It is not a replica, so no
//! cluster is sharded to it, and it needs rights on this one lease only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use upgrade_engine::journal::Fence;

use super::{
    ABOUT, AGAIN, CALL, Claim, Held, LeaseError, LeaseRequest, ObservedLease, RENEWED, claim, now,
};
use crate::api_call::{CallError, within};
use crate::clock::Clock;
use crate::heartbeat::Heartbeat;

/// How often the lease is renewed in the time that it lasts.
const RENEWALS: u32 = 4;

/// A lease that is renewed until it is released or dropped.
#[derive(Debug)]
pub struct RenewedLease {
    held: Arc<Held>,
    release: oneshot::Sender<()>,
    renewing: JoinHandle<()>,
}

impl RenewedLease {
    /// Takes the lease if it is free, and renews it. `process` names this process among all,
    /// as no other one is ever named.
    pub async fn take(
        client: Client,
        request: LeaseRequest,
        process: String,
        lasts: Duration,
        clock: Clock,
        observed: &ObservedLease,
    ) -> Result<Self, LeaseError> {
        let api: Api<Lease> = Api::namespaced(client, &request.namespace);
        let heartbeat = Arc::new(Heartbeat::new(process.clone(), lasts, clock));
        let marks = BTreeMap::from([
            (ABOUT.to_owned(), request.about.clone()),
            (RENEWED.to_owned(), process),
        ]);
        let sent = clock.since_boot();
        let lease = claim(&api, &request, &heartbeat, &marks, observed).await?;
        heartbeat.beaten(sent, clock.since_boot());
        let session = heartbeat.current(clock.since_boot());
        let session = session.ok_or_else(|| LeaseError::Late(request.lease.clone()))?;
        let held = Arc::new(Held { heartbeat, session });
        let (release, released) = oneshot::channel();
        let claim = Claim { api, lease };
        let renewing = tokio::spawn(renew(claim, Arc::clone(&held), released));
        Ok(Self { held, release, renewing })
    }

    /// Whether it is still ours; asked before every act.
    pub fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.held) as Arc<dyn Fence>
    }

    /// Gives it back. Call it once nothing is done any more.
    pub async fn release(self) {
        let Self { held: _, release, renewing } = self;
        let _ = release.send(());
        let _ = tokio::time::timeout(CALL, renewing).await;
    }
}

/// Renews a lease until it is released; one that is dropped runs out by itself, since what
/// its holder did may not have ended.
async fn renew(mut claim: Claim, held: Arc<Held>, mut released: oneshot::Receiver<()>) {
    let usual = held.heartbeat.lasts() / RENEWALS;
    let mut pause = usual;
    let clock = held.heartbeat.clock();
    loop {
        tokio::select! {
            released = &mut released => {
                if released.is_ok() {
                    claim.delete_lease(held).await;
                }
                return;
            }
            () = tokio::time::sleep(pause) => {}
        }
        let sent = clock.since_boot();
        pause = match claim.renew(clock).await {
            Ok(()) if held.heartbeat.beaten(sent, clock.since_boot()) => {
                tracing::warn!(lease = claim.lease.name_any(), "the lease was renewed too late");
                return;
            }
            Ok(()) => usual,
            Err(error) if matches!(error.code(), Some(404 | 409)) => {
                tracing::warn!(lease = claim.lease.name_any(), %error, "the lease was lost");
                held.heartbeat.end();
                return;
            }
            Err(error) => {
                tracing::debug!(lease = claim.lease.name_any(), %error, "retrying a renewal");
                AGAIN.min(usual)
            }
        };
    }
}

impl Claim {
    /// Writes a new time. After a conflict the lease is ours if only others' fields changed.
    async fn renew(&mut self, clock: Clock) -> Result<(), CallError> {
        let name = self.lease.name_any();
        let mut lease = self.lease.clone();
        if let Some(spec) = &mut lease.spec {
            spec.renew_time = Some(MicroTime(now(clock)));
        }
        let replaced = within(CALL, self.api.replace(&name, &PostParams::default(), &lease)).await;
        match replaced {
            Ok(lease) => {
                self.lease = lease;
                Ok(())
            }
            Err(error) if error.code() == Some(409) => {
                let found = within(CALL, self.api.get(&name)).await?;
                // The write may also have been our own, with a lost answer.
                let ours = [&self.lease.spec, &lease.spec].contains(&&found.spec);
                if !ours || found.uid() != self.lease.uid() {
                    return Err(error);
                }
                self.lease = found;
                Err(CallError::TimedOut)
            }
            Err(error) => Err(error),
        }
    }
}
