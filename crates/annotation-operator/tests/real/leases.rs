//! Leases of clusters on a real API server (rule 9): one holder at a time, for as long
//! as its heartbeat lasts, and never forever.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use upgrade_controller::clock::Clock;
use upgrade_controller::heartbeat::{Heartbeat, PeerHeartbeat};
use upgrade_controller::lease::{HeldLease, LeaseError, LeaseRequest, ObservedLease};

use crate::world::World;

const LASTS: Duration = Duration::from_secs(2);

/// Far more than this test takes.
const LONG: Duration = Duration::from_hours(1);

const LEASE: &str = "lease upgrade-x";

/// A replica without a process. The test says when its heartbeats are sent, so a busy
/// machine makes none of them late.
struct Replica<'a> {
    world: &'a World,
    name: &'static str,
    heartbeat: Arc<Heartbeat>,
    client: kube::Client,
    watched: ObservedLease,
}

impl<'a> Replica<'a> {
    async fn new(world: &'a World, name: &'static str) -> Self {
        let heartbeat = Arc::new(Heartbeat::new(name.to_owned(), LASTS, Clock::SYSTEM));
        let (client, watched) = (world.client().await, ObservedLease::default());
        let replica = Self { world, name, heartbeat, client, watched };
        replica.beat();
        replica
    }

    /// Its heartbeat is fresh from now on.
    fn beat(&self) {
        let now = Clock::SYSTEM.since_boot();
        self.heartbeat.beaten(now + LONG, now);
    }

    /// Its last heartbeat expires: it was sent too long ago.
    fn falls_silent(&self) {
        let now = Clock::SYSTEM.since_boot();
        self.heartbeat.beaten(now.saturating_sub(LASTS), now);
    }

    /// Reads another's heartbeat, so long after the test started.
    fn sees(&self, other: &Self, version: u64, at: Duration) {
        let beat = PeerHeartbeat {
            holder: other.name.to_owned(),
            session: other.heartbeat.session(),
            version: version.to_string(),
            lasts: LASTS,
        };
        self.heartbeat.found(vec![beat], at, at);
    }

    async fn take(&self) -> Result<HeldLease, LeaseError> {
        let name = LeaseRequest {
            namespace: self.world.namespace.clone(),
            lease: "upgrade-x".to_owned(),
            holder: self.name.to_owned(),
            about: "default/x".to_owned(),
        };
        HeldLease::take(self.client.clone(), name, &self.heartbeat, &self.watched).await
    }
}

/// Waits until the lease is deleted.
async fn goes_away(world: &World) {
    let is_it = |it: &Value| it["metadata"]["name"] == "upgrade-x";
    let gone = |list: &Value| !list["items"].as_array().is_some_and(|it| it.iter().any(is_it));
    world.until("leases", "without it", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_held_by_one_and_never_for_ever() {
    let world = World::start("leases").await;
    let (first, second) =
        (Replica::new(&world, "first").await, Replica::new(&world, "second").await);

    // Held as long as the heartbeat continues, although the lease itself is not renewed.
    let hold = first.take().await.expect("no replica has it");
    let mut at = Clock::SYSTEM.since_boot();
    for version in 1..=6 {
        second.sees(&first, version, at);
        let why = second.take().await.expect_err("the first has it").to_string();
        assert_eq!(why, "first drives it");
        at += LASTS / 2;
    }
    assert!(!hold.is_lost());

    // It is released although another user changed its labels.
    world.merge(LEASE, &json!({"metadata": {"labels": {"touched": "true"}}})).await;
    hold.release().await;
    assert!(!world.exists(LEASE).await);

    // Dropped without a release: released all the same, and only after the time in
    // which whatever was under way must have ended.
    let hold = first.take().await.expect("no replica has it");
    let began = Clock::SYSTEM.since_boot();
    drop(hold);
    goes_away(&world).await;
    assert!(Clock::SYSTEM.since_boot() >= began + LASTS, "released too soon");

    // The same replica takes it again before that: it stays.
    drop(first.take().await.expect("no replica has it"));
    let again = first.take().await.expect("it is its own");
    tokio::time::sleep(LASTS * 2).await;
    assert!(world.exists(LEASE).await);
    assert!(!again.is_lost());

    // Silent for as long as a heartbeat lasts: the second takes it, the first knows.
    second.sees(&first, 7, at);
    let why = second.take().await.expect_err("a heartbeat").to_string();
    assert_eq!(why, "first drives it");
    first.falls_silent();
    assert!(again.is_lost());
    assert!(matches!(first.take().await, Err(LeaseError::Late(_))));
    second.sees(&first, 7, at + LASTS);
    let taken = second.take().await.expect("the first is silent");
    // The first comes back in a new session, and does not have the lease.
    first.beat();
    assert!(again.is_lost() && !taken.is_lost());
    first.sees(&second, 1, Clock::SYSTEM.since_boot());
    assert!(matches!(first.take().await, Err(LeaseError::Held(by)) if by == "second"));
    taken.release().await;
    goes_away(&world).await;
}
