//! Draws a scenario from a seed.

use talos_sim::model::{Discovery, Fault};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Installer, Intent, Preference};
use upgrade_core::version::Version;

use super::{
    Extras, Foreign, Kit, Machines, Scenario, Trouble, TroubleKind, Want, nodes as node_intents,
    policy, troubles,
};
use crate::world::EXTENDED;
use kube_sim::random::Random;

/// The initial versions and the targets: Talos, Kubernetes, target Talos, target Kubernetes; with a
/// weight.
type Path = (u64, (u64, u64), (u64, u64), Option<(u64, u64)>, Option<(u64, u64)>);

/// Minor and patch of each; the major is 1.
const PATHS: &[Path] = &[
    // Patches, by both calls.
    (14, (12, 4), (34, 2), Some((12, 11)), None),
    (26, (13, 4), (34, 2), Some((13, 12)), None),
    (12, (14, 1), (35, 3), Some((14, 4)), None),
    // Minors.
    (8, (12, 4), (34, 2), Some((13, 12)), None),
    (8, (13, 4), (35, 3), Some((14, 4)), None),
    // Across a minor of etcd, from an early patch; and a host that is too old.
    (4, (10, 4), (33, 2), Some((11, 6)), None),
    (1, (7, 6), (29, 2), Some((8, 4)), None),
    // Kubernetes: a patch, a minor, two of them.
    (5, (13, 4), (34, 2), None, Some((34, 13))),
    (9, (13, 4), (34, 2), None, Some((35, 10))),
    (2, (13, 4), (34, 2), None, Some((36, 6))),
    // Both, and over several hops.
    (3, (13, 4), (34, 2), Some((13, 12)), Some((35, 10))),
    (2, (12, 4), (34, 2), Some((14, 4)), None),
    (1, (12, 4), (34, 2), Some((13, 12)), Some((36, 6))),
    // Nothing to do, and impossible targets.
    (1, (13, 12), (34, 13), Some((13, 12)), Some((34, 13))),
    (1, (13, 4), (34, 2), None, Some((33, 13))),
];

/// Draws a scenario. The same seed always gives the same one.
pub fn draw(seed: u64) -> Scenario {
    let mut random = Random::new(seed ^ 0x7461_6c6f_7300);
    let (control_planes, workers) = size(&mut random);
    let drawn = *path(&mut random);
    // Many nodes over many hops find nothing that few do not.
    let (_, talos, kubernetes, wanted_talos, wanted_kubernetes) =
        if workers == 50 { PATHS[1] } else { drawn };
    let version = |(minor, patch): (u64, u64)| Version::new(1, minor, patch);
    let extended = random.chance(300);
    let mut intent = Intent {
        talos: wanted_talos.map(version),
        kubernetes: wanted_kubernetes.map(version),
        prefer: *random.pick(&[Preference::TalosFirst, Preference::KubernetesFirst]),
        ..Intent::default()
    };
    if random.chance(30) && intent.talos.is_some() {
        intent.installer = Installer::Schematic(EXTENDED.to_owned());
    }
    if random.chance(100) {
        intent.skip_minors = true;
    }
    let mut wants = vec![Want::Versions(intent)];
    let nodes = control_planes + workers;
    match random.below(100) {
        // The rollback of a node, after the upgrade or in the middle of it.
        0..12 if wanted_talos.is_some() => {
            wants.push(Want::Back(usize_of(random.below(u64_of(nodes)))));
        }
        // The rollback of all nodes, after the upgrade or in the middle of it.
        12..18 if wanted_talos.is_some_and(|wanted| wanted != talos) => {
            // The upgrade passes the newest patch, so the rollback starts there.
            let newest = Catalogue::builtin();
            let line = version(talos).minor();
            let leaves = wanted_talos.is_some_and(|(minor, _)| minor != talos.0);
            let back = newest.newest_talos(line).filter(|_| leaves).cloned();
            wants.push(Want::Versions(Intent {
                talos: Some(back.unwrap_or_else(|| version(talos))),
                rollback: true,
                ..Intent::default()
            }));
        }
        // A rollback of Kubernetes within its minor.
        12..18 if wanted_kubernetes.is_some_and(|(minor, _)| minor == kubernetes.0) => {
            wants.push(Want::Versions(Intent {
                kubernetes: Some(version(kubernetes)),
                rollback: true,
                ..Intent::default()
            }));
        }
        // Another target.
        18..32 => {
            let newest = Catalogue::builtin();
            let line = wanted_talos.unwrap_or(talos).0;
            let of_line = newest.talos.iter().find(|it| it.minor() == version((line, 0)).minor());
            wants.push(Want::Versions(Intent { talos: of_line.cloned(), ..Intent::default() }));
        }
        _ => {}
    }
    let kit = Kit::draw(&mut random, workers);
    let mut policy = policy::draw(&mut random, control_planes);
    let mut troubles = troubles::draw(&mut random, control_planes, workers, wants.len());
    let flannel = random.chance(200);
    let grub = random.chance(350);
    let extras = Extras::draw(&mut random);
    if extras != Extras::None && random.chance(300) {
        // It has just booted, and its downloads fail.
        let node = usize_of(random.below(u64_of(control_planes)));
        let fault = Fault::FailingManifest { now: true };
        let lasts = *random.pick(&[60, 1_200, 7_200]);
        troubles.push(Trouble { after: 0, kind: TroubleKind::Fault { node, fault, lasts } });
    }
    if wanted_kubernetes.is_some() && random.chance(30) {
        let node = usize_of(random.below(u64_of(nodes)));
        troubles.push(Trouble { after: random.below(60), kind: TroubleKind::Staged { node } });
    }
    // From their own random source, so that the rest of the scenario stays the same.
    let mut machines = Machines::draw(&mut Random::new(seed ^ 0x6d61_6368_696e), grub);
    machines.renamed &= extended;
    let mut own = Random::new(seed ^ 0x6e6f_6465_7300);
    for want in &mut wants {
        if let Want::Versions(intent) = want {
            machines.name_in(intent);
            node_intents::draw(&mut own, control_planes, workers, &version(talos), intent);
        }
    }
    let discovery = discovery(&mut random);
    let mut others = Random::new(seed ^ 0x6f74_6865_7273);
    let foreign = Foreign::draw(&mut others);
    foreign.name_in(&mut policy);
    troubles.extend(troubles::hard_to_see(&mut others, control_planes, workers));
    Scenario {
        seed: random.number(),
        control_planes,
        workers,
        talos: version(talos),
        kubernetes: version(kubernetes),
        extended,
        flannel,
        grub,
        machines,
        extras,
        discovery,
        foreign,
        kit,
        policy,
        wants,
        troubles,
    }
}

/// Control planes and workers. Problems of large clusters mostly occur in small ones too, and
/// sooner.
fn size(random: &mut Random) -> (usize, usize) {
    let control_planes = match random.below(100) {
        0..60 => 1,
        60..63 => 2,
        63..96 => 3,
        _ => 5,
    };
    let workers = match random.below(2000) {
        0..680 => 0,
        680..1460 => 1,
        1460..1860 => 2,
        1860..1960 => 3,
        1960..1990 => 5,
        1990..1999 => 10,
        _ => 50,
    };
    (control_planes, workers)
}

/// One cluster in four has no working discovery service.
fn discovery(random: &mut Random) -> Discovery {
    match random.below(100) {
        0..10 => Discovery::AirGap,
        10..18 => Discovery::Kubernetes,
        18..25 => Discovery::Off,
        _ => Discovery::Service,
    }
}

fn path(random: &mut Random) -> &'static Path {
    let all = PATHS.iter().map(|path| path.0).sum();
    let mut rest = random.below(all);
    for path in PATHS {
        if rest < path.0 {
            return path;
        }
        rest -= path.0;
    }
    &PATHS[0]
}

pub(super) fn u64_of(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(super) fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_scenario_and_survives_json() {
        for seed in 0..200 {
            let scenario = draw(seed);
            assert_eq!(scenario, draw(seed));
            let json = serde_json::to_string(&scenario).unwrap();
            assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
        }
    }
}
