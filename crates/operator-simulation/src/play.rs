//! Plays a scenario: the hub, the world, the replicas, and everything that happens to them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube_sim::random::Random;
use simulation_tests::crash::Crashes;
use simulation_tests::network::NetworkConditions;
use simulation_tests::referee::{Breach, Referee, Wanted as RefereeWanted};
use simulation_tests::template::Templates;
use simulation_tests::trace::{TraceEvent, View};
use simulation_tests::world::process_io::Process;
use simulation_tests::world::{Inside, START, SharedWorld};
use upgrade_api::run::RunPhase;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_engine::io::Clock as _;

use vitistack_api::annotation;
use vitistack_api::status::Status;

use crate::hub::Hub;
use crate::judge::Judge;
use crate::replica::Replica;
use crate::scenario::{EventKind, Scenario};
use crate::user::{self, Wanted};

/// How long a scenario may take, in simulated time.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// How long nothing may change before the scenario is over: what begins by itself begins within
/// this time.
const SETTLED_FOR: Duration = Duration::from_mins(10);

/// How often that is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The result of a scenario.
pub struct Played {
    /// Rules that were broken.
    pub breaches: Vec<Breach>,
    /// How the newest run ended.
    pub phase: Option<RunPhase>,
    /// What happened on the hub.
    pub story: Vec<(Timestamp, String)>,
    /// What happened to the cluster, if a log was requested.
    pub log: Vec<TraceEvent>,
    /// How long it took, in simulated time.
    pub took: SignedDuration,
}

/// What all parts of one scenario share.
pub(crate) struct Simulation {
    pub(crate) scenario: Scenario,
    pub(crate) shared: Arc<SharedWorld>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) judge: Arc<Judge>,
    pub(crate) crashes: Arc<Crashes>,
    replicas: Mutex<Vec<Replica>>,
    wanted: Mutex<Wanted>,
    random: Mutex<Random>,
}

/// Plays a scenario to its end. The same scenario gives the same play.
pub fn play(scenario: &Scenario, templates: &Templates, log: bool) -> Played {
    fastrand::seed(scenario.cluster.seed);
    let world = templates.world(&scenario.cluster);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets needs nothing");
    runtime.block_on(async {
        let simulation = Simulation::new(scenario, world, log);
        tokio::spawn(Arc::clone(&simulation.shared).live());
        tokio::spawn(Arc::clone(&simulation.hub).run());
        // What follows a broken rule proves nothing.
        tokio::select! {
            biased;
            () = simulation.shared.until_broken() => {}
            () = simulation.run() => {}
        }
        simulation.played()
    })
}

impl Simulation {
    fn new(
        scenario: &Scenario,
        world: (talos_sim::model::World, talos_sim::kubernetes::Kubernetes),
        log: bool,
    ) -> Arc<Self> {
        let mut random = Random::new(scenario.cluster.seed);
        let policy = &scenario.cluster.policy;
        let wanted = RefereeWanted {
            intent: upgrade_core::intent::Intent::default(),
            policy: policy.clone(),
            secrets: Vec::new(),
            rollback: false,
        };
        // What a run tells its events is not seen here (rule 11).
        let referee = |start, view: &View<'_>| Referee::new(wanted, start, view).without(11);
        let shared = SharedWorld::new(world, referee, random.split(), log);
        let hub = Hub::new(*shared.clock(), random.number());
        let judge = Judge::new(&shared, policy);
        let crashes = scenario.crashes.iter().map(|(point, number, _)| (*point, *number)).collect();
        Arc::new(Self {
            scenario: scenario.clone(),
            shared,
            hub,
            judge,
            crashes: Arc::new(Crashes::new(crashes)),
            replicas: Mutex::default(),
            wanted: Mutex::default(),
            random: Mutex::new(random),
        })
    }

    /// The user's current target and pause.
    pub(crate) fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replicas(&self) -> MutexGuard<'_, Vec<Replica>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A random source for a part.
    pub(crate) fn random(&self) -> Random {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).split()
    }

    /// Starts a replica under a new name.
    pub(crate) fn start(self: &Arc<Self>) {
        let name = format!("replica-{}", self.judge.number());
        self.judge.note(&format!("{name} starts"));
        let replica = Replica::start(self, name);
        self.replicas().push(replica);
    }

    /// Removes a replica from the list, if there is one of that number.
    pub(crate) fn take(&self, number: u32) -> Option<Replica> {
        let mut replicas = self.replicas();
        let number = usize::try_from(number).unwrap_or(0);
        (number < replicas.len()).then(|| replicas.remove(number))
    }

    /// The process of a replica.
    pub(crate) fn process(&self, number: u32) -> Option<Arc<Process>> {
        let number = usize::try_from(number).unwrap_or(0);
        self.replicas().get(number).map(|replica| Arc::clone(&replica.process))
    }

    /// Changes the quality of the connection to the hub, for one replica or for all.
    pub(crate) fn network(&self, only: Option<u32>, conditions: NetworkConditions) {
        for (number, replica) in self.replicas().iter().enumerate() {
            if only.is_none_or(|only| usize::try_from(only) == Ok(number)) {
                replica.network(conditions);
            }
        }
    }

    async fn run(self: &Arc<Self>) {
        for _ in 0..self.scenario.replicas {
            self.start();
        }
        // By then the replicas know each other, and the first status is written.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let first = self.scenario.first.clone();
        self.set_target(&first);
        let restarts = Arc::clone(self);
        tokio::spawn(async move { restarts.restart_killed().await });
        let events: Vec<_> = self
            .scenario
            .events
            .iter()
            .cloned()
            .map(|event| {
                let simulation = Arc::clone(self);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(event.after)).await;
                    user::apply(&simulation, &event.kind).await;
                })
            })
            .collect();
        for event in events {
            let _ = event.await;
        }
        self.until_settled().await;
        if self.boots_back() && self.try_again() {
            self.until_settled().await;
        }
        self.judge_the_end();
    }

    /// Starts a replica for each one that was killed at one of the scenario's points.
    async fn restart_killed(self: &Arc<Self>) {
        let pauses = self.scenario.crashes.iter().map(|(.., pause)| *pause);
        for pause in pauses {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut replicas = self.replicas();
                let count = replicas.len();
                replicas.retain(|replica| !replica.process.is_dead());
                if replicas.len() < count {
                    break;
                }
            }
            self.judge.note("a replica was killed");
            tokio::time::sleep(Duration::from_secs(pause)).await;
            self.start();
        }
    }

    /// Returns when nothing has changed for a while.
    async fn until_settled(&self) {
        let mut settled = Duration::ZERO;
        let mut before = self.judge.newest();
        while settled < SETTLED_FOR {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let newest = self.judge.newest();
            let at_rest =
                self.is_at_rest(newest.as_ref().map(|(_, phase, _)| *phase)) || self.is_refused();
            settled =
                if at_rest && newest == before { settled + CHECK_INTERVAL } else { Duration::ZERO };
            before = newest;
            if self.shared.clock().now().duration_since(START) > LONGEST {
                self.judge.breach(0, format!("it does not end: the newest run is {before:?}"));
                return;
            }
        }
    }

    /// Whether nothing is left to do.
    fn is_at_rest(&self, newest: Option<RunPhase>) -> bool {
        let Wanted { target, paused } = self.wanted().clone();
        match newest {
            None | Some(RunPhase::Cancelled) => target.is_none() || paused,
            Some(RunPhase::Pending | RunPhase::Running) => false,
            Some(RunPhase::Paused) => paused,
            Some(RunPhase::Completed | RunPhase::Halted) => true,
        }
    }

    /// Whether the target is refused, and the object says so.
    fn is_refused(&self) -> bool {
        let status = self.hub.annotation(annotation::TALOS_STATUS);
        self.scenario.may_be_refused() && status.as_deref() == Some(Status::Failed.as_str())
    }

    fn boots_back(&self) -> bool {
        self.scenario.events.iter().any(|event| matches!(event.kind, EventKind::BootBack { .. }))
    }

    /// The user sets the target of a halted run again.
    fn try_again(&self) -> bool {
        let target = self.wanted().target.clone();
        let halted = self.judge.newest().is_some_and(|(_, phase, _)| phase == RunPhase::Halted);
        let Some(target) = target.filter(|_| halted) else { return false };
        self.set_again(&target);
        true
    }

    /// Checks the state that the operator leaves.
    fn judge_the_end(&self) {
        // The lease of a killed replica stays until another one needs it.
        let lives = |holder: &String| self.replicas().iter().any(|it| it.name == *holder);
        let drivers: Vec<_> = self.hub.drivers().into_iter().filter(lives).collect();
        if !drivers.is_empty() {
            self.judge.breach(9, format!("nothing is driven, but {drivers:?} hold a lease"));
        }
        let wanted = self.wanted().clone();
        if let Some((name, RunPhase::Halted, why)) = self.judge.newest()
            && !self.scenario.may_halt()
            && !self.is_refused()
        {
            self.judge.breach(0, format!("{name} halted, but nothing was wrong: {why}"));
        }
        if wanted.target.is_some()
            && !wanted.paused
            && !self.is_refused()
            && self.judge.newest().is_none_or(|(_, phase, _)| phase == RunPhase::Cancelled)
        {
            self.judge.breach(0, "the target was not begun".to_owned());
        }
    }

    fn played(&self) -> Played {
        let newest = self.judge.newest();
        let shown = [annotation::TALOS_STATUS, annotation::TALOS_MESSAGE]
            .map(|key| self.hub.annotation(key).unwrap_or_default());
        let shown = format!("the object shows {}: {}", shown[0], shown[1]);
        let (mut breaches, mut story) = self.judge.take();
        self.shared.at(|inside| {
            let now = inside.now();
            if breaches.is_empty() && inside.referee.breaches().is_empty() {
                let Inside { referee, world, kubernetes, .. } = inside;
                let done = upgrade_engine::drive::End::Done;
                referee.finish(now, &View { world, kubernetes }, Some(&done));
            }
            story.push((now, shown));
            breaches.extend(inside.referee.breaches().iter().cloned());
            Played {
                breaches,
                phase: newest.map(|(_, phase, _)| phase),
                story,
                log: inside.log.take().unwrap_or_default(),
                took: now.duration_since(START),
            }
        })
    }
}
