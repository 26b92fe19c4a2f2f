//! What a user asked for. Each front end only translates its own words into this type.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::guard;
use crate::image::ImageRef;
use crate::mutant::Mutant;
use crate::snapshot::NodeName;
use crate::version::Version;

/// Which product moves first where the support matrix allows both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// The annotation and Terraform front ends.
    #[default]
    TalosFirst,
    /// The command line.
    KubernetesFirst,
}

/// Which installer a node gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Installer {
    /// The node's own registry, platform and schematic (rule 4).
    #[default]
    Keep,
    /// Another Image Factory schematic.
    Schematic(String),
    /// This image; its tag is replaced by the target's.
    Image(ImageRef),
}

/// What is wanted of one node, where that is not what is wanted of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeIntent {
    /// Its Talos version; `None` for the cluster's.
    pub talos: Option<Version>,
    /// Its installer; `None` for the cluster's. A tag that names another version than
    /// the node's is a contradiction, and refused.
    pub installer: Option<Installer>,
    /// Nothing is done to it: no Talos, no kubelet, no pull.
    pub hold: bool,
}

/// What should be true when the work is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a permission of its own")]
pub struct Intent {
    /// The Talos version wanted; `None` leaves Talos alone.
    pub talos: Option<Version>,
    /// The Kubernetes version wanted; `None` leaves Kubernetes alone.
    pub kubernetes: Option<Version>,
    /// The installer to use.
    pub installer: Installer,
    /// The user accepts that extensions a new installer lacks disappear.
    pub drop_extensions: bool,
    /// The user says that the named image brings the nodes' extensions, as one that
    /// `imager` built does without showing it; they are looked for after the boot.
    pub keep_extensions: bool,
    /// Two Talos minors at once where the hosts allow it: fewer reboots, but a
    /// path that Talos's makers do not test.
    pub skip_minors: bool,
    /// The user asked to go back; without it no version ever falls (rule 13).
    pub rollback: bool,
    /// Nodes are upgraded or replaced by something outside, such as OpenTofu, and never by
    /// calls of the Talos API.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// The front end's preference.
    pub prefer: Preference,
    /// What is wanted of single nodes instead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<NodeName, NodeIntent>,
}

impl Intent {
    /// Whether the user holds this node (rule 12).
    pub fn holds(&self, node: &NodeName) -> bool {
        guard!(Mutant::HoldIgnored, self.nodes.get(node).is_some_and(|own| own.hold))
    }

    /// The Talos that this node is to run; `None` if it is left alone.
    pub fn talos_of(&self, node: &NodeName) -> Option<&Version> {
        if self.holds(node) {
            return None;
        }
        self.own_talos(node).or(self.talos.as_ref())
    }

    /// The Talos version that was given for this node alone.
    pub fn own_talos(&self, node: &NodeName) -> Option<&Version> {
        self.nodes.get(node)?.talos.as_ref()
    }

    /// The installer that this node gets.
    pub fn installer_of(&self, node: &NodeName) -> &Installer {
        let own = self.nodes.get(node).and_then(|own| own.installer.as_ref());
        own.unwrap_or(&self.installer)
    }

    /// Holds every node but these.
    pub fn hold_others<'a>(
        &mut self,
        all: impl IntoIterator<Item = &'a NodeName>,
        only: &BTreeSet<NodeName>,
    ) {
        for node in all.into_iter().filter(|node| !only.contains(*node)) {
            self.nodes.entry(node.clone()).or_default().hold = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_own_intent_or_the_clusters() {
        let own =
            |talos: Option<Version>, hold| NodeIntent { talos, hold, ..NodeIntent::default() };
        let pin = Version::new(1, 12, 4);
        let mut intent = Intent {
            talos: Some(Version::new(1, 13, 9)),
            nodes: BTreeMap::from([
                ("pinned".into(), own(Some(pin.clone()), false)),
                ("held".into(), own(Some(pin.clone()), true)),
            ]),
            ..Intent::default()
        };
        assert_eq!(intent.talos_of(&"other".into()), intent.talos.as_ref());
        assert_eq!(intent.talos_of(&"pinned".into()), Some(&pin));
        assert_eq!(intent.talos_of(&"held".into()), None);
        intent.talos = None;
        assert_eq!(intent.talos_of(&"other".into()), None);
        assert_eq!(intent.talos_of(&"pinned".into()), Some(&pin));
        let all = ["other".into(), "pinned".into()];
        intent.hold_others(&all, &BTreeSet::from(["other".into()]));
        assert!(intent.holds(&"pinned".into()) && !intent.holds(&"other".into()));
    }

    #[test]
    fn an_intent_without_nodes_keeps_its_form() {
        let json = serde_json::to_string(&Intent::default()).unwrap();
        assert!(!json.contains("nodes"), "{json}");
        assert_eq!(serde_json::from_str::<Intent>(&json).unwrap(), Intent::default());
    }
}
