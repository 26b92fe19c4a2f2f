//! Targets of single nodes: held, alone, or with their own version or installer.

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Installer, Intent};
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;

use super::draw::{u64_of, usize_of};
use crate::world::EXTENDED;
use kube_sim::random::Random;

/// In one target of eight, one node or all others get something else.
pub(super) fn draw(
    random: &mut Random,
    control_planes: usize,
    workers: usize,
    from: &Version,
    intent: &mut Intent,
) {
    let control_plane = |number: usize| NodeName(format!("cp-{number}"));
    let worker = |number: usize| NodeName(format!("worker-{number}"));
    let names = (1..=control_planes).map(control_plane).chain((1..=workers).map(worker));
    let names: Vec<NodeName> = names.collect();
    let asked = random.chance(125) && names.len() > 1;
    let chosen = names[usize_of(random.below(u64_of(names.len())))].clone();
    let what = random.below(100);
    if !asked {
        return;
    }
    let Some(to) = intent.talos.clone() else {
        intent.nodes.entry(chosen).or_default().hold = true;
        return;
    };
    let factory = !matches!(intent.installer, Installer::Image(_));
    match what {
        0..25 if intent.kubernetes.is_none() => intent.hold_others(&names, &[chosen].into()),
        25..50 if !intent.rollback => {
            intent.nodes.entry(chosen).or_default().talos = Some(on_the_way(from, &to));
        }
        50..60 if factory && !intent.rollback => {
            let own = Installer::Schematic(EXTENDED.to_owned());
            intent.nodes.entry(chosen).or_default().installer = Some(own);
        }
        _ => intent.nodes.entry(chosen).or_default().hold = true,
    }
}

/// A version in between: the patch before the target, or the newest of the running minor.
fn on_the_way(from: &Version, to: &Version) -> Version {
    if from.minor() == to.minor() {
        let before: Version =
            format!("{}.{}", to.minor(), to.patch().saturating_sub(1)).parse().expect("a version");
        return before.max(from.clone());
    }
    Catalogue::builtin().newest_talos(from.minor()).unwrap_or(from).clone()
}
