//! System extensions that go by another name in newer releases.

use crate::guard;
use crate::mutant::Mutant;

/// What the Image Factory takes an older name for, without the maker's.
const RENAMED: [(&str, &str); 11] = [
    ("amdgpu-firmware", "amdgpu"),
    ("gasket", "gasket-driver"),
    ("i915-ucode", "i915"),
    ("nonfree-kmod-nvidia", "nonfree-kmod-nvidia-lts"),
    ("nvidia-container-toolkit", "nvidia-container-toolkit-lts"),
    ("nvidia-fabricmanager", "nvidia-fabric-manager-lts"),
    ("nvidia-open-gpu-kernel-modules", "nvidia-open-gpu-kernel-modules-lts"),
    ("talos-vmtoolsd", "vmtoolsd-guest-agent"),
    ("usb-modem", "usb-modem-drivers"),
    ("v4l-uvc", "v4l-uvc-drivers"),
    ("xe-guest-utilities", "xen-guest-agent"),
];

/// Whether the extension `found` is the one that was called `expected`: the same name, or
/// one that it was renamed to or from.
pub fn is_same(expected: &str, found: &str) -> bool {
    let known = guard!(Mutant::RenamedMissed);
    let renamed = |old: &str, new: &str| known && RENAMED.contains(&(old, new));
    expected == found || renamed(expected, found) || renamed(found, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_extensions_are_the_same() {
        assert!(is_same("iscsi-tools", "iscsi-tools"));
        assert!(is_same("i915-ucode", "i915"));
        // On a rollback.
        assert!(is_same("i915", "i915-ucode"));
        assert!(!is_same("i915-ucode", "amdgpu"));
        assert!(!is_same("i915-ucode", "i915-other"));
    }
}
