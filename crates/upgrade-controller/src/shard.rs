//! Sharding: every replica has a Lease of its own, reads those of the others, and each cluster
//! belongs to the replica with the highest hash of both names. There is no leader, and when a
//! replica comes or goes only its own clusters move.
//!
//! Two replicas may disagree for a moment without harm: a driver needs the cluster's own Lease
//! ([`crate::lease`]), which lasts as long as the Lease of its replica does, its heartbeat
//! ([`crate::heartbeat`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use upgrade_core::jiff::Timestamp;

use crate::api_call::within;
use crate::error_log::ErrorLog;
use crate::heartbeat::{Heartbeat, PeerHeartbeat};
use crate::lease::{CALL, SESSION};

/// How often a replica says that it is there, and looks who else is, in the time
/// after which it is missed.
const BEATS: u32 = 4;

/// How soon a beat that failed is tried again: everything that is held hangs on it.
const AGAIN: Duration = Duration::from_secs(1);

/// A replica that said nothing for this long has left its Lease behind.
const LEFT_BEHIND: Duration = Duration::from_mins(10);

/// Marks the Leases of replicas.
const LABEL: &str = "upgrade.vitistack.io/replica";

/// The replicas that are there, oneself included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas(BTreeSet<String>);

impl Replicas {
    /// These.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Whose cluster it is. Highest hash wins.
    pub fn owner(&self, cluster: &str) -> Option<&str> {
        self.0.iter().map(String::as_str).max_by_key(|member| weight(member, cluster))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn weight(member: &str, cluster: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(member.as_bytes());
    hasher.update([0]);
    hasher.update(cluster.as_bytes());
    hasher.finalize().into()
}

/// Keeps our own Lease and reads those of the others.
pub struct Registration {
    api: Api<Lease>,
    holder: String,
    heartbeat: Arc<Heartbeat>,
    seen: BTreeMap<String, (String, Duration)>,
    sender: watch::Sender<Replicas>,
}

impl Registration {
    /// Starts without replicas: our clusters are known after the first beat.
    pub fn new(
        client: Client,
        namespace: &str,
        holder: &str,
        heartbeat: Arc<Heartbeat>,
    ) -> (Self, watch::Receiver<Replicas>) {
        let (sender, receiver) = watch::channel(Replicas::default());
        let api = Api::namespaced(client, namespace);
        (
            Self { api, holder: holder.to_owned(), heartbeat, seen: BTreeMap::new(), sender },
            receiver,
        )
    }

    /// The Lease of a replica.
    fn lease(holder: &str) -> String {
        format!("talos-operator-{holder}")
    }

    /// Beats until it is dropped.
    pub async fn beat(mut self) {
        let mut trouble = ErrorLog::new("the heartbeat fails", "the heartbeat recovered");
        loop {
            let beaten = within(CALL, self.once()).await;
            let well = beaten.is_ok();
            match beaten {
                Ok(()) => trouble.recovered(),
                Err(error) => trouble.failed(&error.to_string()),
            }
            let usual = self.heartbeat.lasts() / BEATS;
            tokio::time::sleep(if well { usual } else { AGAIN.min(usual) }).await;
        }
    }

    async fn once(&mut self) -> Result<(), kube::Error> {
        self.say().await?;
        let asked = self.heartbeat.clock().since_boot();
        let all = self.api.list(&ListParams::default().labels(LABEL)).await?;
        let replicas = self.count(all.items, asked).await;
        self.sender.send_if_modified(|known| {
            let changed = *known != replicas;
            if changed {
                tracing::info!(replicas = replicas.len(), "replicas changed");
                *known = replicas;
            }
            changed
        });
        Ok(())
    }

    /// Says that we are there; twice, if that begins a new session.
    async fn say(&self) -> Result<(), kube::Error> {
        let name = Self::lease(&self.holder);
        let apply = PatchParams::apply("talos-operator").force();
        let clock = self.heartbeat.clock();
        loop {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
                    annotations: Some(BTreeMap::from([(
                        SESSION.to_owned(),
                        self.heartbeat.session(),
                    )])),
                    ..ObjectMeta::default()
                },
                spec: Some(LeaseSpec {
                    holder_identity: Some(self.holder.clone()),
                    lease_duration_seconds: i32::try_from(self.heartbeat.lasts().as_secs()).ok(),
                    renew_time: Some(MicroTime(clock.now())),
                    ..LeaseSpec::default()
                }),
            };
            let sent = clock.since_boot();
            self.api.patch(&name, &apply, &Patch::Apply(&lease)).await?;
            if !self.heartbeat.beaten(sent, clock.since_boot()) {
                return Ok(());
            }
        }
    }

    /// Who is there, of all Leases of replicas.
    async fn count(&mut self, all: Vec<Lease>, asked: Duration) -> Replicas {
        let clock = self.heartbeat.clock();
        let now = clock.since_boot();
        self.heartbeat.found(all.iter().filter_map(beat).collect(), asked, now);
        let mut replicas = BTreeSet::from([self.holder.clone()]);
        let mut seen = BTreeMap::new();
        for lease in all {
            let Some(PeerHeartbeat { holder, version, lasts, .. }) = beat(&lease) else { continue };
            let since = match self.seen.get(&holder) {
                Some((known, since)) if *known == version => *since,
                Some(_) => now,
                // At first sight its own time is all there is. Should its clock
                // be off, its next beat sets it right.
                None => now.saturating_sub(age(&lease, clock.now())),
            };
            let quiet = now.saturating_sub(since);
            // As its own Lease says: replicas may have different durations.
            if quiet < lasts {
                replicas.insert(holder.clone());
            } else if quiet > LEFT_BEHIND {
                // A replica that is alive after all writes it again.
                let _ = self.api.delete(&lease.name_any(), &DeleteParams::default()).await;
            }
            seen.insert(holder, (version, since));
        }
        self.seen = seen;
        Replicas(replicas)
    }
}

/// What a replica's Lease says.
fn beat(lease: &Lease) -> Option<PeerHeartbeat> {
    let spec = lease.spec.as_ref()?;
    let lasts = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok());
    Some(PeerHeartbeat {
        holder: spec.holder_identity.clone()?,
        session: lease.annotations().get(SESSION).cloned().unwrap_or_default(),
        version: lease.resource_version().unwrap_or_default(),
        lasts: lasts.map_or(crate::lease::DURATION, Duration::from_secs),
    })
}

/// How long ago a replica beat, by its own clock.
fn age(lease: &Lease, now: Timestamp) -> Duration {
    let beat = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    let age = beat.map(|beat| now.duration_since(beat.0));
    age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
}

/// Leaves: the others take over at their next beat.
pub async fn leave(client: Client, namespace: &str, holder: &str) {
    let api: Api<Lease> = Api::namespaced(client, namespace);
    let name = Registration::lease(holder);
    let _ = tokio::time::timeout(CALL, api.delete(&name, &DeleteParams::default())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(count: usize) -> Replicas {
        Replicas::of((0..count).map(|number| format!("replica-{number}")))
    }

    #[test]
    fn every_cluster_has_one_owner_and_they_are_shared() {
        let three = replicas(3);
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..300 {
            let owner = three.owner(&format!("ns/cluster-{number}")).unwrap();
            *shares.entry(owner.to_owned()).or_default() += 1;
        }
        assert_eq!(shares.len(), 3);
        assert!(shares.values().all(|share| (60..140).contains(share)), "{shares:?}");
        assert_eq!(Replicas::default().owner("ns/a"), None);
    }

    #[test]
    fn only_the_clusters_of_a_replica_that_left_move() {
        let (three, two) = (replicas(3), replicas(2));
        for number in 0..300 {
            let cluster = format!("ns/cluster-{number}");
            let before = three.owner(&cluster).unwrap();
            if before != "replica-2" {
                assert_eq!(two.owner(&cluster), Some(before));
            }
        }
    }
}
