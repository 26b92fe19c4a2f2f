//! What stored runs say for a rollback. Pure.

use std::sync::Arc;

use upgrade_core::image::ImageRef;
use upgrade_core::plan::{Hop, Plan, Target};
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_core::version::Version;

/// What a node ran before an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The version.
    pub version: Version,
    /// Its installer, where it was known.
    pub image: Option<ImageRef>,
}

/// What `node` ran before it was upgraded to `running`; plans newest first.
pub fn before(plans: &[Arc<Plan>], node: &NodeName, running: &Version) -> Option<Before> {
    let hops = plans.iter().flat_map(|plan| plan.hops.iter().rev());
    let mut hops = hops.filter(|hop| hop.change.to() == running && !is_rollback(hop));
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

/// A rollback is not rolled back itself.
fn is_rollback(hop: &Hop) -> bool {
    hop.change.to() < hop.change.from()
}

/// The oldest running Kubernetes version, if several run: an unfinished hop started there.
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
    fn the_version_before_comes_from_the_plans() {
        let plan = fixtures::plan();
        let plans = [Arc::new(plan)];
        let cp: NodeName = "cp-1".into();
        let found = before(&plans, &cp, &Version::new(1, 13, 9)).unwrap();
        assert_eq!(found.version, Version::new(1, 12, 11));
        assert!(found.image.unwrap().to_string().ends_with(":v1.12.11"));
        assert_eq!(before(&plans, &cp, &Version::new(1, 12, 11)), None);
        assert_eq!(before(&plans, &"other".into(), &Version::new(1, 13, 9)), None);
    }

    #[test]
    fn an_unfinished_hop_shows_in_the_versions() {
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
