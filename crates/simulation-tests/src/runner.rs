//! Plays a scenario: a world, the processes that drive it one after the other
//! or side by side, the user, and everybody else.

mod events;
mod planning;
mod process;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;
use tokio::sync::watch;
use upgrade_core::jiff;
use upgrade_engine::control::Command;
use upgrade_engine::drive::End;
use upgrade_engine::io::Clock as _;

use crate::coverage::{Met, Sort};
use crate::crash::Crashes;
use crate::journal_store::JournalStore;
use crate::referee::{Breach, Referee, Wanted};
use crate::scenario::{Scenario, TroubleKind, Want};
use crate::template::Templates;
use crate::trace::TraceEvent;
use crate::world::SharedWorld;
use crate::world::process_io::Process;
use events::User;
use kube_sim::random::Random;
use process::ProcessEnd;

/// How long a run may take in all, in simulated time. Far more than any needs: a
/// run that has not ended by then never will.
const LONGEST: SignedDuration = SignedDuration::from_hours(240);

/// How often a halted run is taken up again when nothing goes wrong any more.
const SECOND_CHANCES: u32 = 2;

/// What became of a scenario.
pub struct Played {
    /// Rules that were broken.
    pub breaches: Vec<Breach>,
    /// What was met.
    pub met: Met,
    /// What happened, if it was asked for.
    pub log: Vec<TraceEvent>,
    /// How long it took in simulated time.
    pub took: SignedDuration,
}

/// Plays a scenario to its end. The same scenario gives the same play.
pub fn play(scenario: &Scenario, templates: &Templates, log: bool) -> Played {
    let world = templates.world(scenario);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets needs nothing");
    runtime.block_on(async {
        let runner = ScenarioRunner::new(scenario, world, log);
        tokio::spawn(Arc::clone(&runner.shared).live());
        events::direct(&runner);
        // What follows a broken rule proves nothing.
        let last = tokio::select! {
            biased;
            () = runner.shared.until_broken() => None,
            last = runner.run() => Some(last),
        };
        let start = crate::world::START;
        runner.shared.at(|inside| {
            let now = inside.now();
            let crate::world::Inside { referee, world, kubernetes, .. } = inside;
            if let Some(last) = last {
                let view = crate::trace::View { world, kubernetes };
                referee.finish(now, &view, last.as_ref());
            }
            inside.met.scenario(scenario);
            for point in runner.crashes.struck() {
                inside.met.count(Sort::Crash, point.name());
                inside.met.count(Sort::Trouble, "crash");
            }
            Played {
                breaches: inside.referee.breaches().to_vec(),
                met: std::mem::take(&mut inside.met),
                log: inside.log.take().unwrap_or_default(),
                took: now.duration_since(start),
            }
        })
    })
}

/// What everybody shares.
struct ScenarioRunner {
    scenario: Scenario,
    shared: Arc<SharedWorld>,
    store: Arc<JournalStore>,
    crashes: Arc<Crashes>,
    /// What the user wants now.
    user: watch::Sender<User>,
    state: Mutex<RunnerState>,
}

struct RunnerState {
    random: Random,
    processes: u32,
    /// The processes that live, and how the user's commands reach them.
    alive: Vec<(Arc<Process>, watch::Sender<Command>)>,
    /// The want whose plan was written down last.
    begun: Option<usize>,
}

impl ScenarioRunner {
    fn new(
        scenario: &Scenario,
        world: (talos_sim::model::World, talos_sim::kubernetes::Kubernetes),
        log: bool,
    ) -> Arc<Self> {
        let mut random = Random::new(scenario.seed);
        let wanted = wanted(scenario, 0, &world.0);
        let shared = SharedWorld::new(
            world,
            |start, view| Referee::new(wanted, start, view),
            random.split(),
            log,
        );
        let crashes = scenario.troubles.iter().filter_map(|trouble| match trouble.kind {
            TroubleKind::Crash { point, number } => Some((point, number)),
            _ => None,
        });
        Arc::new(Self {
            store: JournalStore::new(&shared),
            crashes: Arc::new(Crashes::new(crashes.collect())),
            shared,
            user: watch::Sender::new(User::default()),
            state: Mutex::new(RunnerState { random, processes: 0, alive: Vec::new(), begun: None }),
            scenario: scenario.clone(),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, RunnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roll(&self, first: u64, last: u64) -> u64 {
        self.state().random.between(first, last)
    }

    async fn seconds(&self, seconds: u64) {
        let span = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        self.shared.clock().sleep(span).await;
    }

    fn age(&self) -> SignedDuration {
        self.shared.clock().now().duration_since(crate::world::START)
    }

    /// How long until all troubles are over.
    fn until_calm(&self) -> SignedDuration {
        let calm = i64::try_from(self.scenario.calm_after()).unwrap_or(i64::MAX);
        SignedDuration::from_secs(calm).saturating_sub(self.age()).max(SignedDuration::ZERO)
    }

    fn count(&self, sort: Sort, name: &'static str) {
        self.shared.at(|inside| inside.met.count(sort, name));
    }

    /// The user at work: starts a process for each want, and another one
    /// whenever one is gone.
    async fn run(self: &Arc<Self>) -> Option<End> {
        let mut want = 0;
        let mut fresh = true;
        let mut resumed = false;
        let mut chances = SECOND_CHANCES;
        loop {
            if self.age() > LONGEST {
                return None;
            }
            // Who has gone for good begins nothing new.
            if fresh && self.user.borrow().gone {
                return Some(End::Stopped);
            }
            let retarget = self.user.borrow().retarget;
            if retarget && want + 1 < self.scenario.wants.len() {
                self.user.send_modify(|user| user.retarget = false);
                (want, fresh, chances) = (want + 1, true, SECOND_CHANCES);
            }
            let life = self.live(fresh.then_some(want), resumed).await;
            resumed = false;
            let is_last = want + 1 >= self.scenario.wants.len();
            match life {
                // A process that died before the plan was recorded plans again.
                ProcessEnd::Died { begun } => {
                    fresh &= !begun;
                    self.seconds(self.roll(1, 40)).await;
                }
                ProcessEnd::GaveUp => {
                    self.count(Sort::End, "given up");
                    fresh = false;
                    self.seconds(self.roll(1, 20)).await;
                }
                ProcessEnd::Busy => self.seconds(5).await,
                ProcessEnd::Refused => {
                    self.count(Sort::End, "refused");
                    let left = self.until_calm();
                    if left > SignedDuration::ZERO && chances > 0 {
                        chances -= 1;
                        self.shared.clock().sleep(left).await;
                        self.seconds(300).await;
                    } else if is_last {
                        return Some(End::Stopped);
                    } else {
                        (want, fresh, chances) = (want + 1, true, SECOND_CHANCES);
                    }
                }
                ProcessEnd::Ended(End::Done) => {
                    self.count(Sort::End, "done");
                    if is_last {
                        return Some(End::Done);
                    }
                    (want, fresh, chances) = (want + 1, true, SECOND_CHANCES);
                }
                ProcessEnd::Ended(end @ End::Halted { .. }) => {
                    self.count(Sort::End, "halted");
                    if (chances == 0 && is_last) || self.user.borrow().gone {
                        return Some(end);
                    }
                    if chances == 0 {
                        (want, fresh, chances) = (want + 1, true, SECOND_CHANCES);
                        continue;
                    }
                    chances -= 1;
                    self.shared.clock().sleep(self.until_calm()).await;
                    self.seconds(self.roll(10, 600)).await;
                    let back = |user: &User| !user.paused || user.gone;
                    let _ = self.user.subscribe().wait_for(back).await;
                    if self.user.borrow().gone {
                        return Some(end);
                    }
                    self.user.send_modify(|user| user.retarget &= !is_last);
                    // A user investigates, fixes the cause, and plans again or resumes.
                    fresh = self.roll(0, 1) == 0;
                    resumed = !fresh;
                }
                ProcessEnd::Ended(End::Paused { .. }) => {
                    self.count(Sort::End, "paused");
                    fresh = false;
                    let user = self.user.borrow().clone();
                    if user.retarget && !is_last {
                        continue;
                    }
                    self.user.send_modify(|user| user.retarget = false);
                    if user.gone {
                        return Some(End::Paused { by: "user".to_owned() });
                    }
                    let back = |user: &User| !user.paused || user.gone;
                    let _ = self.user.subscribe().wait_for(back).await;
                    if self.user.borrow().gone {
                        return Some(End::Paused { by: "user".to_owned() });
                    }
                    resumed = true;
                }
                ProcessEnd::Ended(End::Stopped) => {
                    self.count(Sort::End, "stopped");
                    fresh = false;
                    let _ = self.user.subscribe().wait_for(|user| !user.stopped).await;
                }
            }
        }
    }
}

/// What the referee knows of the user's intent.
fn wanted(scenario: &Scenario, want: usize, world: &talos_sim::model::World) -> Wanted {
    let (intent, rollback) = match &scenario.wants[want] {
        Want::Versions(intent) => (intent.clone(), intent.rollback),
        Want::Back(_) => (upgrade_core::intent::Intent::default(), true),
    };
    let secrets = &world.spec().secrets;
    let secrets = [
        &secrets.machine_ca_key,
        &secrets.machine_token,
        &secrets.cluster_ca_key,
        &secrets.etcd_ca_key,
        &secrets.cluster_token,
    ];
    Wanted {
        intent,
        policy: scenario.policy.clone(),
        secrets: secrets.into_iter().filter(|it| !it.is_empty()).cloned().collect(),
        rollback,
    }
}
