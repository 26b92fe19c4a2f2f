//! What a machine is, and what an installer is for.
//!
//! The kernel command line, `talos.platform` first, is baked into the unified kernel
//! image when an installer is made, and systemd-boot boots with that one. So an installer
//! for another platform makes the machine look for its settings in the wrong place: it
//! comes up without its network. GRUB keeps the machine's own command line, as on nodes
//! that were installed before Talos 1.12.

use upgrade_core::image::ImageRef;

use super::World;
use super::api::NodeIndex;
use super::node::Node;

pub(super) const METAL: &str = "metal";

/// Talos in a container: it can neither install nor boot.
pub(crate) const CONTAINER: &str = "container";

/// A platform that has no installer image under its own name, which is in camel case.
pub(crate) const EQUINIX: &str = "equinixMetal";

/// Platforms that the Image Factory builds installers for, by their names in images.
pub(crate) const PLATFORMS: [&str; 18] = [
    "akamai",
    "alibabacloud",
    "aws",
    "azure",
    "cloudstack",
    "digital-ocean",
    "exoscale",
    "gcp",
    "hcloud",
    METAL,
    "nocloud",
    "opennebula",
    "openstack",
    "oracle",
    "scaleway",
    "upcloud",
    "vmware",
    "vultr",
];

/// The platform of a kind of installer, and whether it is signed; `None` if there is no such kind.
pub(crate) fn of_kind(kind: &str) -> Option<(&str, bool)> {
    let (kind, signed) =
        kind.strip_suffix("-secureboot").map_or((kind, false), |kind| (kind, true));
    let platform = match kind.strip_suffix("-installer") {
        Some(platform) => platform,
        None if kind == "installer" => METAL,
        None => return None,
    };
    PLATFORMS.contains(&platform).then_some((platform, signed))
}

/// The kind of installer for a machine.
pub(crate) fn kind(platform: &str, secure_boot: bool) -> String {
    let secure = if secure_boot { "-secureboot" } else { "" };
    if PLATFORMS.contains(&platform) {
        format!("{platform}-installer{secure}")
    } else {
        format!("installer{secure}")
    }
}

impl Node {
    /// The platform that Talos assumes.
    pub(super) fn runs_as(&self) -> &str {
        if self.grub { &self.platform } else { &self.slots.running().platform }
    }

    pub(super) fn in_container(&self) -> bool {
        self.platform == CONTAINER
    }

    /// `metal`, `cloud` or `container`, as Talos calls it.
    pub(super) fn mode(&self) -> &'static str {
        match self.runs_as() {
            METAL => "metal",
            CONTAINER => CONTAINER,
            _ => "cloud",
        }
    }

    /// Whether it finds its network settings.
    pub(super) fn finds_network(&self) -> bool {
        self.runs_as() == self.platform
    }

    /// Whether the firmware allows the next boot. It refuses an unsigned boot loader itself, so
    /// there is no other slot to fall back to.
    pub(super) fn firmware_boots(&self) -> bool {
        !self.secure_boot || self.slots.next().signed
    }
}

impl World {
    /// The platform of an installer, and whether it is signed for Secure Boot, for any tag.
    pub fn flavour_of<'a>(&'a self, installer: &'a ImageRef) -> Option<(&'a str, bool)> {
        self.spec.registry.flavour(installer)
    }

    /// Images from custom registries lose their extensions from now on.
    pub fn strip_own_installers(&mut self) {
        for own in self.spec.registry.own.values_mut() {
            own.extensions.clear();
        }
    }

    /// The platform that Talos on a node assumes, and how it booted: Secure Boot, and whether from
    /// a unified kernel image.
    pub fn platform_of(&self, node: NodeIndex) -> (&str, bool, bool) {
        let here = &self.nodes[node.0];
        (here.runs_as(), here.secure_boot, !here.grub && !here.in_container())
    }
}
