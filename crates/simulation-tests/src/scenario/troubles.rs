//! Draws what goes wrong and what others do, at any moment.

use std::time::Duration;

use talos_sim::model::{Condition, Fault};

use super::draw::{u64_of, usize_of};
use super::{Trouble, TroubleKind};
use crate::crash::Point;
use crate::network::NetworkConditions;
use kube_sim::random::Random;

/// Most troubles begin within this many seconds, while the run is active.
const BUSY: u64 = 1_200;

pub(super) fn draw(
    random: &mut Random,
    control_planes: usize,
    workers: usize,
    wants: usize,
) -> Vec<Trouble> {
    let count = *random.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
    let mut troubles = Vec::new();
    for _ in 0..count {
        // Pulls and installers run early.
        let after = if random.chance(350) { random.below(90) } else { random.below(BUSY) };
        let node = usize_of(random.below(u64_of(control_planes + workers)));
        let kind = match random.below(100) {
            0..40 => TroubleKind::Fault {
                node,
                fault: fault(random),
                lasts: *random.pick(&[30, 120, 600, 1_800, 3_600]),
            },
            40..50 => {
                TroubleKind::Wires { weather: weather(random), lasts: random.between(30, 900) }
            }
            50..70 => TroubleKind::Crash {
                point: *random.pick(&Point::ALL),
                number: u32::try_from(random.between(1, 60)).unwrap_or(1),
            },
            70..74 => TroubleKind::Still { lasts: random.between(1, 90) },
            74..77 => TroubleKind::LeaseLost { lasts: random.between(5, 60) },
            77..80 => TroubleKind::SecondRunner,
            80..85 => TroubleKind::Pause { lasts: (!random.chance(200)).then(|| pause(random)) },
            85..87 if wants > 1 => TroubleKind::Retarget,
            85..88 => TroubleKind::Stop { lasts: random.between(5, 120) },
            88..92 => TroubleKind::Cordon {
                node,
                lasts: (!random.chance(500)).then(|| random.between(30, 900)),
            },
            92 => TroubleKind::Reboot { node },
            93 => TroubleKind::Staged { node },
            94 => TroubleKind::Upgraded { node },
            95 => TroubleKind::Armed { node },
            96 => TroubleKind::Rebuilt,
            // Pods of a single node cannot be rescheduled, and its plan accounts for that.
            97 if workers > 0 => TroubleKind::Join,
            _ if workers > 0 => TroubleKind::Leave {
                node: control_planes + usize_of(random.below(u64_of(workers))),
            },
            _ => TroubleKind::SecondRunner,
        };
        // By hand, before our run reaches the node.
        let by_hand = matches!(kind, TroubleKind::Upgraded { .. });
        let after = if by_hand { after.min(30) } else { after };
        troubles.push(Trouble { after, kind });
    }
    // Some cordons exist before the run.
    if random.chance(100) {
        let node = usize_of(random.below(u64_of(control_planes + workers)));
        troubles.push(Trouble { after: 0, kind: TroubleKind::Cordon { node, lasts: None } });
    }
    // Conditions that stay unmet for the whole run: an air gap, no time server.
    if random.chance(60) {
        let node = usize_of(random.below(u64_of(control_planes + workers)));
        let fault = Fault::UnmetCondition { condition: *random.pick(&Condition::ALL) };
        let kind = TroubleKind::Fault { node, fault, lasts: 7_200 };
        troubles.push(Trouble { after: 0, kind });
    }
    troubles
}

/// Machines that cannot be asked while all others can: a control plane that hangs, a worker whose
/// apid drops every connection, a kubelet without a machine.
pub(super) fn hard_to_see(
    random: &mut Random,
    control_planes: usize,
    workers: usize,
) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    let mut fault = |random: &mut Random, node: usize, fault: Fault| {
        let lasts = *random.pick(&[1_200, 1_800, 3_600]);
        let kind = TroubleKind::Fault { node, fault, lasts };
        troubles.push(Trouble { after: random.between(30, 900), kind });
    };
    if control_planes > 2 && random.chance(60) {
        let node = usize_of(random.below(u64_of(control_planes)));
        fault(random, node, Fault::Silent);
    }
    if workers > 0 && random.chance(30) {
        let node = control_planes + usize_of(random.below(u64_of(workers)));
        fault(random, node, Fault::ApidDrops { every: 1, reads: false });
    }
    // Pods of a single node cannot be rescheduled, and its plan accounts for that.
    if workers > 0 && random.chance(10) {
        let kind = TroubleKind::Registers { lasts: random.between(60, 1_800) };
        troubles.push(Trouble { after: random.below(BUSY), kind });
    }
    troubles
}

/// Most pauses are short; during a long one, pulled images are garbage collected.
fn pause(random: &mut Random) -> u64 {
    if random.chance(150) { random.between(4_500, 6_000) } else { random.between(5, 300) }
}

fn fault(random: &mut Random) -> Fault {
    let every = u32::try_from(random.between(1, 4)).unwrap_or(1);
    match random.below(27) {
        0 => Fault::SlowPull { factor: 5 },
        1 => Fault::FailingPull,
        2 => Fault::InstallerExit { code: *random.pick(&[1, 2, 4, 6, 7]) },
        3 => Fault::NeverReturns,
        4 => Fault::BootBack,
        5 => Fault::LostReboot,
        6 => Fault::NotReady,
        7 => Fault::EtcdLearner,
        8 => Fault::EtcdAlarm { corrupt: random.chance(500) },
        9 => Fault::EtcdLag { entries: 5_000 },
        10 => Fault::ApidDrops { every, reads: false },
        11 => Fault::Partition,
        12 => Fault::ClockSkew { by: Duration::from_hours(1), ahead: random.chance(500) },
        13 => Fault::ApiThrottles { every },
        14 => Fault::ApiErrors { every },
        15 => Fault::ApiLatency { by: Duration::from_secs(random.between(1, 20)) },
        16 => Fault::StuckBudgets,
        17 => Fault::StuckVolumes,
        18 => Fault::KubeletNeverReturns,
        19 => Fault::InstallerExitLate { code: *random.pick(&[1, 7]) },
        20 => Fault::FailingManifest { now: random.chance(500) },
        21 => Fault::UnmetCondition { condition: *random.pick(&Condition::ALL) },
        22 => Fault::UnmetAfterBoot { condition: *random.pick(&Condition::ALL) },
        23 => Fault::KexecOnly,
        24 => Fault::Silent,
        25 => Fault::DiscoveryCut { now: random.chance(700) },
        _ => Fault::FailingImage { prefix: String::new() },
    }
}

fn weather(random: &mut Random) -> NetworkConditions {
    let mut share = || if random.chance(500) { random.below(150) } else { 0 };
    NetworkConditions {
        refused: share(),
        lost: share() / 3,
        unanswered: share() / 3,
        late: share(),
        doubled: share(),
    }
}
