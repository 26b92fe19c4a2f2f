//! Leases of clusters on a real API server (rule 9): one holder, as long as its
//! heartbeat goes on, and nothing that is held for ever.

use std::sync::Arc;
use std::time::Duration;

use upgrade_operator::clock;
use upgrade_operator::lease::{Hold, LeaseError, Name, Watched};
use upgrade_operator::pulse::{Beat, Pulse};

use crate::world::World;

const LASTS: Duration = Duration::from_secs(4);

const GET: &str = "kubectl get lease upgrade-x -n vitistack-system -o name --ignore-not-found";

/// A replica without a process: its heartbeats arrive when the test says so.
struct Replica {
    name: &'static str,
    pulse: Arc<Pulse>,
    client: kube::Client,
    watched: Watched,
}

impl Replica {
    async fn new(world: &World, name: &'static str) -> Self {
        let pulse = Arc::new(Pulse::new(name.to_owned(), LASTS));
        let replica =
            Self { name, pulse, client: world.client().await, watched: Watched::default() };
        replica.beat();
        replica
    }

    fn beat(&self) {
        let now = clock::since_boot();
        self.pulse.beaten(now, now);
    }

    /// Sees another's heartbeat.
    fn sees(&self, other: &Self, version: &str) {
        let beat = Beat {
            holder: other.name.to_owned(),
            session: other.pulse.session(),
            version: version.to_owned(),
            lasts: LASTS,
        };
        let now = clock::since_boot();
        self.pulse.found(vec![beat], now, now);
    }

    async fn take(&self) -> Result<Hold, LeaseError> {
        let name = Name {
            namespace: "vitistack-system".to_owned(),
            lease: "upgrade-x".to_owned(),
            holder: self.name.to_owned(),
            about: "default/x".to_owned(),
        };
        Hold::take(self.client.clone(), name, &self.pulse, &self.watched).await
    }
}

async fn goes_away(world: &World) {
    let begun = tokio::time::Instant::now();
    while !world.shell(GET).await.trim().is_empty() {
        assert!(begun.elapsed() < LASTS * 5, "the lease stays");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_held_by_one_and_never_for_ever() {
    let world = World::start().await;
    let (first, second) =
        (Replica::new(&world, "first").await, Replica::new(&world, "second").await);

    // Held as long as the heartbeat goes on, although nobody renews it.
    let hold = first.take().await.expect("nobody has it");
    for version in ["1", "2", "3"] {
        second.sees(&first, version);
        second.beat();
        let why = second.take().await.expect_err("the first has it").to_string();
        assert_eq!(why, "first drives it");
        tokio::time::sleep(LASTS / 2).await;
        first.beat();
    }
    assert!(!hold.is_lost());

    // Given back although somebody touched it.
    world.shell("kubectl label lease upgrade-x -n vitistack-system touched=true").await;
    hold.release().await;
    assert_eq!(world.shell(GET).await.trim(), "");

    // Let go of without a word: given back all the same, and no earlier than
    // whatever was done with it can have ended.
    first.beat();
    drop(first.take().await.expect("nobody has it"));
    assert_ne!(world.shell(GET).await.trim(), "");
    let beating = async {
        loop {
            first.beat();
            tokio::time::sleep(LASTS / 8).await;
        }
    };
    tokio::select! {
        () = beating => {}
        () = goes_away(&world) => {}
    }

    // Taken anew by the same replica before that: it stays.
    drop(first.take().await.expect("nobody has it"));
    let again = first.take().await.expect("it is its own");
    for _ in 0..12 {
        tokio::time::sleep(LASTS / 8).await;
        first.beat();
    }
    assert_ne!(world.shell(GET).await.trim(), "");
    assert!(!again.is_lost());

    // Silent for its whole time: the next takes it, and the first knows.
    second.sees(&first, "4");
    tokio::time::sleep(LASTS).await;
    assert!(again.is_lost());
    second.sees(&first, "4");
    second.beat();
    let taken = second.take().await.expect("the first is silent");
    // It comes back in another session, and does not have it.
    first.beat();
    assert!(again.is_lost() && !taken.is_lost());
    first.sees(&second, "1");
    assert!(matches!(first.take().await, Err(LeaseError::Held(by)) if by == "second"));
    taken.release().await;
    goes_away(&world).await;
    world.stop().await;
}
