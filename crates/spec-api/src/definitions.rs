//! The definitions, as `kubectl apply` takes them.

use upgrade_api::Definition;

#[cfg(test)]
mod tests;

/// What the controllers need, in alphabetical order. `UpgradeRun` comes in addition, from
/// `upgrade-api`.
pub const DEFINITIONS: [Definition; 6] = [
    Definition {
        name: "talosclusters.talos.alperen.cloud",
        text: include_str!("../crds/talosclusters.yaml"),
    },
    Definition {
        name: "taloscontrolplanes.talos.alperen.cloud",
        text: include_str!("../crds/taloscontrolplanes.yaml"),
    },
    Definition {
        name: "talosetcdbackups.talos.alperen.cloud",
        text: include_str!("../crds/talosetcdbackups.yaml"),
    },
    Definition {
        name: "talosetcdbackupschedules.talos.alperen.cloud",
        text: include_str!("../crds/talosetcdbackupschedules.yaml"),
    },
    Definition {
        name: "talosmachines.talos.alperen.cloud",
        text: include_str!("../crds/talosmachines.yaml"),
    },
    Definition {
        name: "talosworkers.talos.alperen.cloud",
        text: include_str!("../crds/talosworkers.yaml"),
    },
];

/// The kinds that have no controller here. Hubs that have objects of them need the
/// definitions, or the objects are lost with them.
pub const ADDON_DEFINITIONS: [Definition; 2] = [
    Definition {
        name: "talosclusteraddonreleases.talos.alperen.cloud",
        text: include_str!("../crds/talosclusteraddonreleases.yaml"),
    },
    Definition {
        name: "talosclusteraddons.talos.alperen.cloud",
        text: include_str!("../crds/talosclusteraddons.yaml"),
    },
];
