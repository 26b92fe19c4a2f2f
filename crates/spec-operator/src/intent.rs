//! What the specs of a unit want of its cluster, as an [`Intent`].
//!
//! An absent version leaves its product alone. Talos is wanted of listed machines only, and each
//! may have its own version and image; Kubernetes is wanted of the whole cluster.

use upgrade_core::intent::{Installer, Intent, NodeIntent, Preference};
use upgrade_core::version::Version;

use crate::nodes::Matching;
use crate::unit::{Machine, Unit};

/// The intent of a unit. Machines that are no nodes are left out: they have nothing to upgrade.
pub fn intent(unit: &Unit, matching: &Matching, rollback: bool) -> Intent {
    let machines = || matching.machine_of.iter().map(|(node, at)| (node, &unit.machines[*at]));
    // A version for all would also be one for nodes that are to be left alone. A hold is no way
    // out: it would keep Kubernetes from them, too.
    let all = matching.unlisted.is_empty()
        && machines().all(|(_, machine)| machine.hold.is_some() || machine.talos.is_some());
    let talos = unit.talos.clone().filter(|_| all);
    let nodes = machines().map(|(node, machine)| (node.clone(), own(machine, talos.as_ref())));
    Intent {
        nodes: nodes.filter(|(_, own)| *own != NodeIntent::default()).collect(),
        talos,
        kubernetes: unit.kubernetes.clone(),
        rollback,
        prefer: Preference::TalosFirst,
        ..Intent::default()
    }
}

fn own(machine: &Machine, common: Option<&Version>) -> NodeIntent {
    if machine.hold.is_some() {
        return NodeIntent { hold: true, ..NodeIntent::default() };
    }
    NodeIntent {
        talos: machine.talos.clone().filter(|own| Some(own) != common),
        installer: machine.image.clone().map(Installer::Image),
        hold: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use upgrade_core::snapshot::{NodeName, Role};

    use super::*;
    use crate::test_objects::{Hub, control_plane, machines, node, nodes, worker};

    fn of(hub: &Hub) -> Intent {
        let unit = hub.unit();
        assert_eq!(unit.problems, []);
        intent(&unit, &Matching::of(&unit, &nodes()), false)
    }

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn one_version_for_all_is_the_clusters() {
        let intent = of(&Hub::usual());
        assert_eq!(intent.talos, Some(version("1.13.9")));
        assert_eq!(intent.kubernetes, Some(version("1.35.0")));
        assert!(intent.nodes.is_empty() && !intent.rollback);
    }

    #[test]
    fn pins_pools_and_images_are_single_nodes() {
        let mut hub = Hub::usual();
        let list = json!({"machines": [{"address": "10.0.0.1"}, {"address": "10.0.0.2"},
            {"address": "10.0.0.3", "version": "v1.13.8", "image": "ghcr.io/a/installer"}]});
        hub.control_planes[0] =
            control_plane("prod", json!({"version": "v1.13.9", "metalSpec": list}));
        hub.workers[0] = worker(
            "blue",
            json!({"version": "v1.12.4", "metalSpec": machines(&["10.0.0.11", "10.0.0.12"])}),
        );
        let intent = of(&hub);
        assert_eq!((intent.talos, intent.kubernetes), (Some(version("1.13.9")), None));
        let pinned = &intent.nodes[&"cp-3".into()];
        assert_eq!(pinned.talos, Some(version("1.13.8")));
        let image = "ghcr.io/a/installer:v1.13.8".parse().expect("an image");
        assert_eq!(pinned.installer, Some(Installer::Image(image)));
        let names: Vec<_> = intent.nodes.keys().map(|name| name.0.as_str()).collect();
        assert_eq!(names, ["blue-1", "blue-2", "cp-3"]);
        assert_eq!(intent.nodes[&"blue-1".into()].talos, Some(version("1.12.4")));
    }

    #[test]
    fn an_absent_version_leaves_a_pool_alone() {
        let mut hub = Hub::usual();
        hub.workers[0].spec.version = None;
        let intent = of(&hub);
        assert_eq!(intent.talos, None, "or the pool would follow the control plane");
        let names: Vec<_> = intent.nodes.keys().map(|name| name.0.as_str()).collect();
        assert_eq!(names, ["cp-1", "cp-2", "cp-3"]);
        assert_eq!(intent.talos_of(&"blue-1".into()), None);
        assert!(!intent.holds(&"blue-1".into()), "Kubernetes is the whole cluster's");
        hub.control_planes[0].spec.version = None;
        hub.control_planes[0].spec.kube_version = None;
        assert_eq!(of(&hub), Intent::default());
    }

    #[test]
    fn nodes_that_no_object_lists_keep_their_talos() {
        let unit = Hub::usual().unit();
        let mut all = nodes();
        all.insert("edge".into(), node(Role::Worker, &["10.0.0.99"]));
        let intent = intent(&unit, &Matching::of(&unit, &all), false);
        assert_eq!(intent.talos_of(&"edge".into()), None);
        assert_eq!(intent.talos_of(&"cp-1".into()), Some(&version("1.13.9")));
        assert_eq!(intent.kubernetes, Some(version("1.35.0")));
    }

    #[test]
    fn a_held_machine_is_left_alone() {
        // Rule 12.
        let mut hub = Hub::usual();
        hub.hold_worker(0);
        let intent = of(&hub);
        assert_eq!(intent.talos, Some(version("1.13.9")));
        for name in ["blue-1", "blue-2"].map(NodeName::from) {
            assert!(intent.holds(&name));
            assert_eq!(intent.talos_of(&name), None);
        }
        assert!(!intent.holds(&"cp-1".into()));
    }

    #[test]
    fn a_machine_that_is_no_node_is_left_out() {
        let unit = Hub::usual().unit();
        let mut all = nodes();
        all.remove(&NodeName::from("cp-2"));
        let intent = intent(&unit, &Matching::of(&unit, &all), true);
        assert_eq!(intent.talos, Some(version("1.13.9")));
        assert!(intent.nodes.is_empty() && intent.rollback);
    }
}
