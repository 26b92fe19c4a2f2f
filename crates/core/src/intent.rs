//! What a user asked for. Each door only turns its own words into this type.

use serde::{Deserialize, Serialize};

use crate::image::ImageRef;
use crate::version::Version;

/// Which product moves first where the support matrix allows both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// The annotation and Terraform doors.
    #[default]
    TalosFirst,
    /// The profile door.
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
    /// The door's preference.
    pub prefer: Preference,
}
