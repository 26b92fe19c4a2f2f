//! What a machine boots next (rule 5).

use crate::version::Version;

/// What a machine's boot loader tells, and whether it is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Whether an installer runs now.
    pub installing: bool,
    /// The entries of systemd-boot; other boot loaders tell nothing.
    pub entries: Option<Entries>,
}

/// The entries of systemd-boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The one that runs.
    pub booted: String,
    /// The one that the next boot takes; none was ever set on a machine that was
    /// made from a disk image and never upgraded.
    pub default: Option<String>,
}

/// What a machine boots next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextBoot {
    /// What runs: it is not armed.
    Same,
    /// Another entry: the machine is armed, by this run or from outside.
    Other(String),
    /// Its boot loader does not tell.
    Unknown,
}

impl Slots {
    /// What comes next on a machine that runs this version.
    pub fn next_boot(&self, running: &Version) -> NextBoot {
        let Some(Entries { booted, default }) = &self.entries else { return NextBoot::Unknown };
        let Some(default) = default else { return NextBoot::Same };
        // A machine that came here by kexec may still name the entry of its last
        // start through the firmware.
        let is_running = |entry: &str| version_of(entry).as_ref() == Some(running);
        if booted.eq_ignore_ascii_case(default) || is_running(default) && !is_running(booted) {
            return NextBoot::Same;
        }
        NextBoot::Other(default.clone())
    }
}

impl NextBoot {
    /// Whether it is another entry, of this version.
    pub fn is_into(&self, version: &Version) -> bool {
        matches!(self, Self::Other(entry) if version_of(entry).as_ref() == Some(version))
    }
}

/// The version in the name of an entry: `Talos-v1.13.9~1.efi`.
fn version_of(entry: &str) -> Option<Version> {
    let name = entry.strip_prefix("Talos-")?.strip_suffix(".efi")?;
    name.split('~').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(booted: &str, default: Option<&str>) -> NextBoot {
        let entries =
            Entries { booted: booted.to_owned(), default: default.map(ToOwned::to_owned) };
        let slots = Slots { installing: false, entries: Some(entries) };
        slots.next_boot(&Version::new(1, 13, 9))
    }

    #[test]
    fn a_default_that_does_not_run_is_armed() {
        // Rule 5.
        let runs = "Talos-v1.13.9.efi";
        assert_eq!(next(runs, Some(runs)), NextBoot::Same);
        assert_eq!(next(runs, Some("talos-V1.13.9.EFI")), NextBoot::Same, "as Talos compares");
        assert_eq!(next(runs, None), NextBoot::Same, "a disk image");
        for other in ["Talos-v1.14.1.efi", "Talos-v1.13.9~1.efi"] {
            assert_eq!(next(runs, Some(other)), NextBoot::Other(other.to_owned()));
        }
        let stale = "Talos-v1.13.4.efi";
        assert_eq!(next(stale, Some(runs)), NextBoot::Same, "kexec left the old name");
        let none = Slots { installing: false, entries: None };
        assert_eq!(none.next_boot(&Version::new(1, 13, 9)), NextBoot::Unknown);
    }
}
