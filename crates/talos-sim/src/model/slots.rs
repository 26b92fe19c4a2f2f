//! The two slots on disk that Talos boots from.
//!
//! Both boot loaders of Talos, systemd-boot and GRUB, key on the *default* entry and not on the
//! running one: an installer keeps the default, replaces the other entry, and makes the new one the
//! default. From then on the node is armed, and any reboot changes the version. A second installer
//! without a boot in between keeps the slot of the first one and deletes the running one (rule 5).

use serde::{Deserialize, Serialize};
use upgrade_core::version::Version;

/// An installed system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Installed {
    pub(super) version: Version,
    /// `None` if no Image Factory built it.
    pub(super) schematic: Option<String>,
    /// Its platform.
    #[serde(default = "super::spec::metal")]
    pub(super) platform: String,
    /// Whether firmware with Secure Boot boots it.
    #[serde(default)]
    pub(super) signed: bool,
    /// Its system extensions, if no schematic names them.
    #[serde(default)]
    pub(super) extensions: Vec<String>,
}

/// An entry of the boot loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// The name in systemd-boot; GRUB has two labels for the same two slots.
    name: String,
    installed: Installed,
}

/// Both slots, and which one is the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slots {
    /// The booted system. It is in memory, and may no longer be on disk.
    running: Entry,
    /// The system of the next boot.
    default: Entry,
    other: Option<Entry>,
    /// META's tag "previous": set by an installer, deleted when the machine is first running and
    /// ready. While it is set, a fatal boot is reverted.
    pub(super) previous: bool,
}

impl Slots {
    pub(super) fn new(running: Installed) -> Self {
        let name = format!("Talos-{}.efi", running.version.tag());
        let running = Entry { name, installed: running };
        Self { default: running.clone(), running, other: None, previous: false }
    }

    pub(super) fn running(&self) -> &Installed {
        &self.running.installed
    }

    /// The system of the next boot.
    pub(super) fn next(&self) -> &Installed {
        &self.default.installed
    }

    /// The system of the next boot, if it is not the running one.
    pub(super) fn armed(&self) -> Option<&Installed> {
        (self.default.name != self.running.name).then_some(&self.default.installed)
    }

    /// Whether the running system could be booted again.
    pub(super) fn keeps_running(&self) -> bool {
        let runs = |entry: &Entry| entry.name == self.running.name;
        runs(&self.default) || self.other.as_ref().is_some_and(runs)
    }

    /// Writes to the slot that is not the default, and makes it the default.
    pub(super) fn install(&mut self, new: Installed) {
        let name = self.next_name(&new.version);
        let new = Entry { name, installed: new };
        self.other = Some(std::mem::replace(&mut self.default, new));
        self.previous = true;
    }

    /// A name that no entry has, numbered as Talos does.
    fn next_name(&self, version: &Version) -> String {
        let stem = format!("Talos-{}", version.tag());
        let number = |entry: &Entry| {
            let rest = entry.name.strip_prefix(&stem)?.strip_suffix(".efi")?;
            if rest.is_empty() { Some(0) } else { rest.strip_prefix('~')?.parse::<u32>().ok() }
        };
        let entries = [Some(&self.default), self.other.as_ref(), Some(&self.running)];
        match entries.into_iter().flatten().filter_map(number).max() {
            Some(number) => format!("{stem}~{}.efi", number + 1),
            None => format!("{stem}.efi"),
        }
    }

    /// Makes the other slot the default; `false` if it is empty.
    pub(super) fn revert(&mut self) -> bool {
        let Some(other) = self.other.take() else { return false };
        self.other = Some(std::mem::replace(&mut self.default, other));
        self.previous = false;
        true
    }

    /// Boots the default.
    pub(super) fn boot(&mut self) {
        self.running = self.default.clone();
    }

    /// The default does not boot, and neither does an equal image: whether the other slot holds a
    /// different one to fall back to. If so, it becomes the default.
    pub(super) fn boot_back(&mut self) -> bool {
        let bad = self.default.installed.clone();
        self.revert() && self.default.installed != bad
    }

    /// The booted entry, by the boot loader's name.
    pub(super) fn entry(&self) -> &str {
        &self.running.name
    }

    /// The entry of the next boot, by the boot loader's name.
    pub(super) fn default_entry(&self) -> &str {
        &self.default.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(minor: u64) -> Installed {
        Installed {
            version: Version::new(1, minor, 0),
            schematic: None,
            platform: "metal".to_owned(),
            signed: false,
            extensions: Vec::new(),
        }
    }

    #[test]
    fn an_install_arms_and_a_boot_switches() {
        let mut slots = Slots::new(image(12));
        slots.install(image(13));
        assert_eq!(slots.running(), &image(12));
        assert_eq!(slots.armed(), Some(&image(13)));
        assert!(slots.keeps_running());
        slots.boot();
        assert_eq!(slots.running(), &image(13));
        assert_eq!(slots.armed(), None);
        assert!(slots.revert());
        assert_eq!(slots.armed(), Some(&image(12)));
        slots.boot();
        assert_eq!(slots.running(), &image(12));
    }

    #[test]
    fn a_second_install_without_a_boot_deletes_the_running_slot() {
        // Rule 5, as sdboot.go and grub/upgrade.go do it.
        let mut slots = Slots::new(image(13));
        slots.install(image(14));
        assert_eq!(slots.default_entry(), "Talos-v1.14.0.efi");
        slots.install(image(14));
        assert_eq!(slots.default_entry(), "Talos-v1.14.0~1.efi");
        assert_eq!(slots.entry(), "Talos-v1.13.0.efi");
        assert!(!slots.keeps_running());
        assert!(slots.revert(), "to a copy that never booted");
        slots.boot();
        assert_eq!(slots.running(), &image(14));
    }

    #[test]
    fn a_rollback_of_an_armed_node_keeps_the_running_version() {
        let mut slots = Slots::new(image(12));
        assert!(!slots.revert());
        slots.install(image(13));
        assert!(slots.revert());
        slots.boot();
        assert_eq!(slots.running(), &image(12));
    }

    #[test]
    fn a_boot_fallback_needs_the_good_slot() {
        let mut slots = Slots::new(image(12));
        slots.install(image(13));
        assert!(slots.boot_back());
        slots.boot();
        assert_eq!(slots.running(), &image(12));
        slots.install(image(13));
        slots.install(image(13));
        assert!(!slots.boot_back(), "neither slot boots");
    }
}
