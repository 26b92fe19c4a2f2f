//! The two places on disk that Talos boots from.
//!
//! An installer writes to the one that does not run and makes it the default:
//! from then on the node is armed, and any reboot changes the version (rule 5
//! is about what follows if that boot fails).

use serde::{Deserialize, Serialize};
use upgrade_core::version::Version;

/// What an installer puts on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Installed {
    pub(super) version: Version,
    /// `None` if no Image Factory built it.
    pub(super) schematic: Option<String>,
}

/// Both places, and which one is next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slots {
    running: Installed,
    other: Option<Installed>,
    /// Whether the next boot takes the other slot.
    armed: bool,
    /// META's tag "previous": set by an installer, deleted when the machine is
    /// first running and ready. While it stands, a fatal boot is reverted.
    pub(super) previous: bool,
}

impl Slots {
    pub(super) fn new(running: Installed) -> Self {
        Self { running, other: None, armed: false, previous: false }
    }

    pub(super) fn running(&self) -> &Installed {
        &self.running
    }

    /// What the next boot takes, if that is not what runs.
    pub(super) fn armed(&self) -> Option<&Installed> {
        self.other.as_ref().filter(|_| self.armed)
    }

    /// Writes to the slot that does not run.
    pub(super) fn install(&mut self, new: Installed) {
        self.other = Some(new);
        self.armed = true;
        self.previous = true;
    }

    /// Makes the other slot the default; `false` if it is empty.
    pub(super) fn revert(&mut self) -> bool {
        if self.other.is_none() {
            return false;
        }
        self.armed = !self.armed;
        self.previous = false;
        true
    }

    /// Boots the default.
    pub(super) fn boot(&mut self) {
        if !self.armed {
            return;
        }
        if let Some(other) = self.other.take() {
            self.other = Some(std::mem::replace(&mut self.running, other));
        }
        self.armed = false;
    }

    /// The default could not boot: the running one becomes the default again.
    pub(super) fn boot_back(&mut self) {
        self.armed = false;
        self.previous = false;
    }

    /// The boot entry, as the boot loader names it.
    pub(super) fn entry(&self) -> String {
        format!("Talos-{}.efi", self.running.version.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(minor: u64) -> Installed {
        Installed { version: Version::new(1, minor, 0), schematic: None }
    }

    #[test]
    fn an_install_arms_and_a_boot_switches() {
        let mut slots = Slots::new(image(12));
        slots.install(image(13));
        assert_eq!(slots.running(), &image(12));
        assert_eq!(slots.armed(), Some(&image(13)));
        slots.boot();
        assert_eq!(slots.running(), &image(13));
        assert_eq!(slots.armed(), None);
        assert!(slots.revert());
        assert_eq!(slots.armed(), Some(&image(12)));
        slots.boot();
        assert_eq!(slots.running(), &image(12));
    }

    #[test]
    fn a_rollback_of_an_armed_node_stays_where_it_is() {
        let mut slots = Slots::new(image(12));
        assert!(!slots.revert());
        slots.install(image(13));
        assert!(slots.revert());
        slots.boot();
        assert_eq!(slots.running(), &image(12));
    }

    #[test]
    fn boot_back_keeps_the_good_slot() {
        let mut slots = Slots::new(image(12));
        slots.install(image(13));
        slots.boot_back();
        slots.boot();
        assert_eq!(slots.running(), &image(12));
    }
}
