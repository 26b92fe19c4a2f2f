//! What the journal remembers for the way back. Pure.

use std::sync::Arc;

use upgrade_core::image::ImageRef;
use upgrade_core::plan::{Hop, Plan, Target};
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_core::version::Version;

/// What a node ran before an upgrade that the journal remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The version.
    pub version: Version,
    /// Its installer, where it was known.
    pub image: Option<ImageRef>,
}

/// What `node` ran before it came to run `running`; plans newest first.
pub fn before(plans: &[Arc<Plan>], node: &NodeName, running: &Version) -> Option<Before> {
    let hops = plans.iter().flat_map(|plan| plan.hops.iter().rev());
    let mut hops = hops.filter(|hop| hop.change.to() == running && !is_back(hop));
    hops.find_map(|hop| {
        hop.lanes().find_map(|lane| match &lane.target {
            Target::Talos(target) if lane.node.as_ref() == Some(node) => Some(Before {
                version: target.from.clone(),
                image: target.previous.as_ref().map(|image| image.with_tag(&target.from.tag())),
            }),
            _ => None,
        })
    })
}

/// A way back is not what one goes back from.
fn is_back(hop: &Hop) -> bool {
    hop.change.to() < hop.change.from()
}

/// The oldest Kubernetes that runs anywhere, where another minor or patch runs
/// beside it: a hop that never came to its end goes back there.
pub fn unfinished_from(snapshot: &Snapshot) -> Option<Version> {
    let range = snapshot.versions().kubernetes?;
    (!range.is_one()).then_some(range.lowest)
}

#[cfg(test)]
mod tests {
    use upgrade_core::snapshot::{Component, Fact};

    use super::*;
    use crate::offline::Cluster;
    use crate::test_fixtures as fixtures;

    #[test]
    fn what_ran_before_is_remembered() {
        let plan = fixtures::plan();
        let plans = [Arc::new(plan)];
        let cp: NodeName = "cp-1".into();
        let found = before(&plans, &cp, &Version::new(1, 13, 9)).unwrap();
        assert_eq!(found.version, Version::new(1, 12, 11));
        assert!(found.image.unwrap().to_string().ends_with(":v1.12.11"));
        assert_eq!(before(&plans, &cp, &Version::new(1, 12, 11)), None);
        assert_eq!(before(&plans, &"nobody".into(), &Version::new(1, 13, 9)), None);
    }

    #[test]
    fn a_hop_that_never_ended_is_seen() {
        let cluster = Cluster {
            control_planes: 3,
            workers: 1,
            talos: None,
            kubernetes: Some(Version::new(1, 34, 2)),
            installer: None,
        };
        let mut snapshot = cluster.snapshot();
        assert_eq!(unfinished_from(&snapshot), None);
        let node = snapshot.nodes.get_mut(&"cp-2".into()).unwrap();
        let Fact::Known(images) = &mut node.images else { panic!() };
        let newer = images[&Component::KubeApiserver].with_tag("v1.35.10");
        images.insert(Component::KubeApiserver, newer);
        assert_eq!(unfinished_from(&snapshot), Some(Version::new(1, 34, 2)));
    }
}
