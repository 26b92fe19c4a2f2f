//! The minimum times of a node, to compare with the duration of a whole upgrade.

use std::time::Duration;

use super::World;
use super::api::NodeIndex;
use super::sequence::Kind;
use super::timing::{Range, Span};
use kube_sim::random::Random;

impl World {
    /// How long something takes on a node; `None` unless each node has [times of its
    /// own](super::ClusterSpec::own_times).
    pub fn own_time(&self, node: NodeIndex, span: Span) -> Option<Duration> {
        let seed = self.spec.own_times?;
        let Range { min, max } = self.spec.timings.range(span);
        let mut random = Random::new(seed);
        // One generator for each node and kind, of which only the first number is used.
        let place = ((node.0 as u64) << 8) | span as u64;
        Some(Random::new(random.number() ^ Random::new(place).number()).duration(min, max))
    }

    /// How long a node would be away if it rebooted now: from the request until it is ready again,
    /// with nothing else in progress. This world does not change.
    pub fn estimate_reboot(&self, node: NodeIndex) -> Option<Duration> {
        let mut world = self.clone();
        let (began, booted) = (world.now, world.truth(node)?.boot_id().to_owned());
        world.start_sequence(node, Kind::Reboot { force: false, kexec: true }, "", true);
        while let Some(at) = world.next_event() {
            world.advance(at);
            let truth = world.truth(node)?;
            // A control plane reports ready before its API server answers.
            let serves = truth.member().is_none() || truth.api_server_answers();
            if truth.boot_id() != booted && truth.is_ready() && truth.kubelet().ready && serves {
                return Some(world.now.since(began));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterSpec, Time, Timings};
    use upgrade_core::version::Version;

    fn world(own_times: Option<u64>) -> World {
        let mut spec = ClusterSpec::new(3, 2, &Version::new(1, 13, 9), &Version::new(1, 35, 4));
        spec.own_times = own_times;
        World::new(&spec, 1, Time::from_secs(1_800_000_000))
    }

    #[test]
    fn a_node_keeps_its_own_durations() {
        let mut world = world(Some(7));
        let first = world.own_time(NodeIndex(1), Span::Reboot);
        assert!(first.is_some());
        let drawn: Vec<_> = (0..3).map(|_| world.draw(NodeIndex(1), Span::Reboot)).collect();
        assert!(drawn.iter().all(|drawn| Some(*drawn) == first), "{drawn:?}");
        assert_ne!(world.own_time(NodeIndex(2), Span::Reboot), first);
        let Range { min, max } = Timings::default().reboot;
        assert!(first.is_some_and(|first| min <= first && first <= max));
        // Another seed is another cluster.
        assert_ne!(self::world(Some(8)).own_time(NodeIndex(1), Span::Reboot), first);
        assert_eq!(self::world(None).own_time(NodeIndex(1), Span::Reboot), None);
    }

    #[test]
    fn a_rehearsed_reboot_takes_as_long_as_a_real_one() {
        let world = world(Some(7));
        for node in [NodeIndex(0), NodeIndex(4)] {
            let away = world.estimate_reboot(node).expect("it comes back");
            let own = |span| world.own_time(node, span).expect("its own");
            let parts = own(Span::Stop) + own(Span::Reboot) + own(Span::Rejoin);
            // The phases of a sequence share its time, and the last takes none.
            let rest = parts.checked_sub(away);
            let little = rest.is_some_and(|rest| rest < Duration::from_secs(3));
            assert!(little, "{away:?} {parts:?}");
            // The world itself is unchanged.
            assert!(world.truth(node).is_some_and(|node| node.is_ready() && node.downs() == 0));
        }
    }
}
