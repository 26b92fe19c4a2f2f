//! Waves in few lines: consecutive waves that do the same become one.

use std::collections::BTreeSet;

use upgrade_core::image::ImageRef;
use upgrade_core::plan::{Group, Hop, Lane, Target, Wave};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;
use upgrade_core::text;
use upgrade_core::version::Minor;

use super::time;

/// Lists up to this long are written out.
const WRITTEN_OUT: usize = 8;

/// What a wave does, as far as it matters to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    /// Nothing is disrupted.
    Prepare,
    /// Nodes get another Talos and reboot.
    Reboot,
    /// Parts of Kubernetes get another image.
    Parts(Vec<&'static str>),
    /// The manifests are applied.
    Manifests,
    /// etcd's own downgrade is run.
    Lower(Minor),
}

impl Work {
    fn of(wave: &Wave) -> Self {
        match wave.group {
            Group::Prepare => return Self::Prepare,
            Group::Cluster => {
                let lowers = |lane: &Lane| match lane.target {
                    Target::Etcd { minor } => Some(Self::Lower(minor)),
                    _ => None,
                };
                // The kube-proxy image of the machine configs ends up in the manifests: one
                // change to a reader.
                return wave.lanes.iter().find_map(lowers).unwrap_or(Self::Manifests);
            }
            Group::ControlPlane | Group::Workers => {}
        }
        let actions = || wave.lanes.iter().flat_map(Lane::actions);
        if actions().any(Action::boots) {
            return Self::Reboot;
        }
        let mut parts = Vec::new();
        for component in actions().filter_map(Action::component) {
            let part = component.name();
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        Self::Parts(parts)
    }
}

/// One line of a hop: a label and what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    /// The nodes, or the kind of work.
    pub(super) label: &'static str,
    /// The work.
    pub(super) text: String,
}

/// A hop in few lines.
pub(super) fn phases(hop: &Hop, policy: &Policy, leader: Option<&NodeName>) -> Vec<Phase> {
    let mut phases = Vec::new();
    let alike = |a: &Wave, b: &Wave| a.group == b.group && Work::of(a) == Work::of(b);
    for waves in hop.waves.chunk_by(alike) {
        let Some(first) = waves.first() else { continue };
        let text = match Work::of(first) {
            Work::Prepare => prepare(waves),
            Work::Reboot => nodes(waves, leader),
            Work::Manifests => "apply the manifests, roll out kube-proxy and CoreDNS".to_owned(),
            Work::Lower(minor) => {
                format!("downgrade etcd to {minor}: validate, enable, wait for every member")
            }
            Work::Parts(parts) => format!("{}, {}", parts.join(" and "), nodes(waves, None)),
        };
        phases.push(Phase { label: label(first.group, waves), text });
    }
    phases.extend(each_node(hop, policy));
    phases.extend(installer(hop));
    phases
}

fn label(group: Group, waves: &[Wave]) -> &'static str {
    let one = waves.iter().map(|wave| wave.lanes.len()).sum::<usize>() == 1;
    match group {
        Group::Prepare => "prepare",
        Group::ControlPlane if one => "control plane",
        Group::ControlPlane => "control planes",
        Group::Workers if one => "worker",
        Group::Workers => "workers",
        Group::Cluster => "cluster",
    }
}

fn prepare(waves: &[Wave]) -> String {
    let lanes = || waves.iter().flat_map(|wave| &wave.lanes);
    let has = |action| lanes().any(|lane| lane.has(action));
    let pulling: BTreeSet<_> =
        lanes().filter(|lane| lane.has(Action::Pull)).map(|lane| &lane.node).collect();
    let mut parts = Vec::new();
    if has(Action::CheckRemovals) {
        parts.push("check for removed APIs".to_owned());
    }
    match pulling.len() {
        0 => {}
        1 => parts.push("pull on 1 node".to_owned()),
        count => parts.push(format!("pull on {count} nodes at once")),
    }
    if has(Action::SnapshotEtcd) {
        parts.push("etcd snapshot".to_owned());
    }
    parts.join(", ")
}

fn names(wave: &Wave) -> Vec<&NodeName> {
    wave.lanes.iter().filter_map(|lane| lane.node.as_ref()).collect()
}

/// The nodes in their order, and how many at once.
fn nodes(waves: &[Wave], leader: Option<&NodeName>) -> String {
    let at_once = waves.iter().map(|wave| wave.lanes.len()).max().unwrap_or(0);
    let all: Vec<&NodeName> = waves.iter().flat_map(names).collect();
    let show = |node: &NodeName| {
        let last = all.last() == Some(&node);
        match leader {
            Some(leader) if leader == node && last && all.len() > 1 => {
                format!("{node} (etcd leader, last)")
            }
            Some(leader) if leader == node && all.len() > 1 => format!("{node} (etcd leader)"),
            _ => node.to_string(),
        }
    };
    let list = match all.as_slice() {
        [first, .., last] if all.len() > WRITTEN_OUT => {
            let count = match at_once {
                1 => format!("{} nodes", all.len()),
                _ => format!("{} nodes in {} waves", all.len(), waves.len()),
            };
            format!("{} … {} ({count})", show(first), show(last))
        }
        _ => {
            let wave =
                |wave: &Wave| names(wave).into_iter().map(show).collect::<Vec<_>>().join(" + ");
            waves.iter().map(wave).collect::<Vec<_>>().join(", ")
        }
    };
    match (all.len(), at_once) {
        (1, _) => list,
        (_, 1) => format!("one at a time: {list}"),
        (count, at_once) if at_once == count => format!("all at once: {list}"),
        (_, at_once) => format!("{at_once} at a time: {list}"),
    }
}

/// The image that the nodes of an operating system hop get.
fn installer(hop: &Hop) -> Option<Phase> {
    let images: BTreeSet<&ImageRef> = hop
        .lanes()
        .filter_map(|lane| match &lane.target {
            Target::Talos(target) => Some(&target.installer),
            _ => None,
        })
        .collect();
    let text = text::some(&[short(images.first()?)], images.len());
    Some(Phase { label: "installer", text })
}

/// An image whose schematic is cut to what people compare.
fn short(image: &ImageRef) -> String {
    let part = |part: &str| match part.get(..12) {
        Some(start) if part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            format!("{start}…")
        }
        _ => part.to_owned(),
    };
    let repository: Vec<String> = image.repository.split('/').map(part).collect();
    let image = ImageRef { repository: repository.join("/"), ..image.clone() };
    image.to_string()
}

/// The steps of each node that reboots: those of the node with the most, since others only
/// lack some.
fn each_node(hop: &Hop, policy: &Policy) -> Option<Phase> {
    let lane: &Lane = hop
        .lanes()
        .filter(|lane| lane.actions().any(Action::boots))
        .max_by_key(|lane| lane.steps.len())?;
    let words = lane.actions().map(|action| match action {
        Action::Forfeit => "move etcd leadership".to_owned(),
        Action::Upgrade => "install and reboot".to_owned(),
        Action::Rollback => "boot the other slot".to_owned(),
        Action::ExternalUpgrade => "upgrade or replace from outside".to_owned(),
        Action::Soak => format!("soak {}", time::exact(policy.soak)),
        other => other.name().to_owned(),
    });
    Some(Phase { label: "each node", text: words.collect::<Vec<_>>().join(", ") })
}
