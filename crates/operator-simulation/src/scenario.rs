//! What a seed means: a cluster, the replicas of the operator, what the user writes, and what
//! goes wrong. Plain data.

use serde::{Deserialize, Serialize};
use simulation_tests::crash::Point;
use simulation_tests::network::NetworkConditions;
use simulation_tests::scenario::{self as engine, Extras, Foreign, Kit, Machines};
use talos_sim::model::{Discovery, Fault};
use upgrade_core::amount::Amount;
use upgrade_core::policy::{Order, Policy};
use upgrade_core::version::Version;

use kube_sim::random::Random;

/// One simulated operator and its cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The cluster, without troubles of its own.
    pub cluster: engine::Scenario,
    /// What the user wants first.
    pub first: Target,
    /// What the user wants instead, in some scenarios.
    pub second: Target,
    /// How many replicas there are.
    pub replicas: u32,
    /// Where replicas are killed; each is started again after so many seconds.
    pub crashes: Vec<(Point, u32, u64)>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// A target, as annotations have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// Talos.
    Talos(Version),
    /// Kubernetes.
    Kubernetes(Version),
}

/// What happens, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds after the first target was set.
    pub after: u64,
    /// What.
    pub kind: EventKind,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A replica is killed; another one starts so many seconds later.
    Kill {
        /// Which, by number.
        replica: u32,
        /// Until the next one starts.
        lasts: u64,
    },
    /// A replica stops as it does when its pod is deleted; another one starts later.
    Restart {
        /// Which, by number.
        replica: u32,
        /// Until the next one starts.
        lasts: u64,
    },
    /// A replica is suspended, as by SIGSTOP or a paused virtual machine.
    Suspend {
        /// Which, by number.
        replica: u32,
        /// For how long.
        lasts: u64,
    },
    /// A replica cannot reach the hub.
    Disconnect {
        /// Which, by number.
        replica: u32,
        /// For how long.
        lasts: u64,
    },
    /// Messages between the hub and every replica get lost.
    LoseMessages {
        /// How many.
        conditions: NetworkConditions,
        /// For how long.
        lasts: u64,
    },
    /// One more replica.
    AddReplica,
    /// The user pauses, and resumes.
    Pause {
        /// For how long.
        lasts: u64,
    },
    /// The user removes the target, and sets it again.
    Remove {
        /// How much later; never, if there is none.
        lasts: Option<u64>,
    },
    /// The user wants the second target instead.
    Retarget,
    /// The cluster's Secret gets other credentials.
    RotateCredentials,
    /// Another user cordons a node, and uncordons it again.
    Cordon {
        /// Which, by number.
        node: usize,
        /// For how long; for ever, if there is none.
        lasts: Option<u64>,
    },
    /// A node boots its old version after its upgrade. It is not fixed; the user removes
    /// the target and sets it again.
    BootBack {
        /// Which, by number.
        node: usize,
    },
}

impl EventKind {
    /// Its name in statistics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Restart { .. } => "restart",
            Self::Suspend { .. } => "suspend",
            Self::Disconnect { .. } => "disconnect",
            Self::LoseMessages { .. } => "lose-messages",
            Self::AddReplica => "add-replica",
            Self::Pause { .. } => "pause",
            Self::Remove { lasts: None } => "remove",
            Self::Remove { lasts: Some(_) } => "remove-and-set",
            Self::Retarget => "retarget",
            Self::RotateCredentials => "rotate-credentials",
            Self::Cordon { .. } => "cordon",
            Self::BootBack { .. } => "boot-back",
        }
    }

    /// All names.
    pub const NAMES: [&'static str; 13] = [
        "kill",
        "restart",
        "suspend",
        "disconnect",
        "lose-messages",
        "add-replica",
        "pause",
        "remove",
        "remove-and-set",
        "retarget",
        "rotate-credentials",
        "cordon",
        "boot-back",
    ];
}

/// Minor and patch of a version 1.x.
type OneDot = (u64, u64);

/// Talos before, the first target, the second one. The last second target is
/// refused once a node has passed it (rule 13).
const TALOS: [(OneDot, OneDot, OneDot); 4] = [
    ((12, 4), (12, 10), (12, 11)),
    ((13, 4), (13, 8), (13, 9)),
    ((13, 4), (13, 9), (14, 1)),
    ((13, 4), (14, 1), (13, 9)),
];

impl Scenario {
    /// Whether a run may halt although the operator does everything right.
    pub fn may_halt(&self) -> bool {
        // An install in doubt is not repeated (rule 5), and GRUB does not tell whether it was done.
        let in_doubt = self.cluster.grub && (self.interrupts() || !self.crashes.is_empty());
        in_doubt
            || self.events.iter().any(|event| {
                match event.kind {
                    // Pods of a drained node may have nowhere to go.
                    EventKind::BootBack { .. } | EventKind::Cordon { lasts: None, .. } => true,
                    // A worker that is armed with the first target is not installed on (rule 5).
                    EventKind::Retarget => self.cluster.workers > 0,
                    _ => false,
                }
            })
    }

    /// Whether a driver is interrupted, other than by a crash.
    fn interrupts(&self) -> bool {
        self.events.iter().any(|event| {
            matches!(
                event.kind,
                EventKind::Kill { .. }
                    | EventKind::Restart { .. }
                    | EventKind::Suspend { .. }
                    | EventKind::Disconnect { .. }
                    | EventKind::LoseMessages { .. }
                    | EventKind::RotateCredentials
            )
        })
    }

    /// Whether the second target may be refused, since it is older than the first.
    pub fn may_be_refused(&self) -> bool {
        let retargets = self.events.iter().any(|event| event.kind == EventKind::Retarget);
        match (&self.first, &self.second) {
            (Target::Talos(first), Target::Talos(second)) => retargets && second < first,
            _ => false,
        }
    }
}

/// Draws a scenario. The same seed always gives the same one.
pub fn draw(seed: u64) -> Scenario {
    let mut random = Random::new(seed ^ 0x6f70_6572_6174);
    let (control_planes, workers) = *random.pick(&[(1, 0), (1, 1), (1, 2), (3, 0), (3, 1)]);
    let version = |(minor, patch): OneDot| Version::new(1, minor, patch);
    let (talos, first, second) = *random.pick(&TALOS);
    let (first, second) = if random.chance(250) {
        (Target::Kubernetes(Version::new(1, 35, 4)), Target::Talos(version(first)))
    } else {
        (Target::Talos(version(first)), Target::Talos(version(second)))
    };
    let mut policy = Policy {
        order: *random.pick(&[Order::WorkersFirst, Order::ControlPlanesFirst]),
        accept_outage: control_planes < 3,
        ..Policy::default()
    };
    policy.workers.max_unavailable = *random.pick(&[Amount::Count(1), Amount::Count(2)]);
    let cluster = engine::Scenario {
        seed: random.number(),
        control_planes,
        workers,
        talos: version(talos),
        kubernetes: Version::new(1, 34, 2),
        extended: random.chance(200),
        flannel: random.chance(200),
        grub: random.chance(300),
        machines: Machines::default(),
        extras: Extras::None,
        discovery: Discovery::Service,
        foreign: Foreign::None,
        kit: if workers > 1 { Kit::Web } else { Kit::Bare },
        policy,
        wants: Vec::new(),
        troubles: Vec::new(),
    };
    let replicas = *random.pick(&[1, 2, 2, 3]);
    let mut crashes = Vec::new();
    while crashes.len() < 3 && random.chance(400) {
        let number = u32::try_from(random.between(1, 30)).unwrap_or(1);
        crashes.push((*random.pick(&Point::ALL), number, *random.pick(&[1, 15, 60])));
    }
    let mut events = Vec::new();
    while events.len() < 5 && random.chance(650) {
        // Most of an upgrade of a small cluster happens in the first ten minutes.
        let within = *random.pick(&[20, 300, 900]);
        let after = random.below(within);
        events.push(Event { after, kind: event(&mut random, control_planes + workers, replicas) });
    }
    events.sort_by_key(|event| event.after);
    Scenario { cluster, first, second, replicas, crashes, events }
}

fn event(random: &mut Random, nodes: usize, replicas: u32) -> EventKind {
    let replica = u32::try_from(random.below(u64::from(replicas))).unwrap_or(0);
    let node = usize::try_from(random.below(u64::try_from(nodes).unwrap_or(1))).unwrap_or(0);
    let lasts = *random.pick(&[3, 12, 25, 90]);
    match random.below(16) {
        0..2 => EventKind::Kill { replica, lasts },
        2 => EventKind::Restart { replica, lasts },
        3..5 => EventKind::Suspend { replica, lasts },
        5 => EventKind::Disconnect { replica, lasts },
        6 => EventKind::LoseMessages { conditions: lossy(random), lasts },
        7 => EventKind::AddReplica,
        8 => EventKind::Pause { lasts: lasts * 4 },
        9 => EventKind::Remove { lasts: None },
        10..12 => EventKind::Remove { lasts: Some(*random.pick(&[0, 2, 30, 300])) },
        12 => EventKind::Retarget,
        13 => EventKind::RotateCredentials,
        14 => EventKind::Cordon { node, lasts: random.chance(500).then_some(lasts) },
        _ => EventKind::BootBack { node },
    }
}

fn lossy(random: &mut Random) -> NetworkConditions {
    let mut share = || random.below(150);
    NetworkConditions {
        refused: share(),
        lost: share(),
        unanswered: share(),
        late: share(),
        doubled: 0,
    }
}

/// The fault of [`EventKind::BootBack`].
pub const BOOT_BACK: Fault = Fault::BootBack;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_one_scenario_and_everything_is_drawn() {
        let mut drawn = BTreeSet::new();
        for seed in 0..500 {
            let scenario = draw(seed);
            assert_eq!(scenario, draw(seed));
            drawn.extend(scenario.events.iter().map(|event| event.kind.name()));
        }
        assert_eq!(drawn, EventKind::NAMES.into());
    }
}
