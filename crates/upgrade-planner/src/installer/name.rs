//! What the name of an installer tells of what is in it.
//!
//! Platform and Secure Boot are baked into an installer when it is made: a node boots
//! with the kernel command line that came with it. The Image Factory has both in the
//! name, `<platform>-installer[-secureboot]/<schematic>`.

use upgrade_core::image::ImageRef;
use upgrade_core::snapshot::TalosFacts;

/// Where installers without anything in the name are for.
pub const METAL: &str = "metal";

/// The one platform whose name no image can have: it is in camel case.
pub const EQUINIX: &str = "equinixMetal";

/// The registry and repository of the plain installer.
const PLAIN: (&str, &str) = ("ghcr.io", "siderolabs/installer");

/// Platforms that there are installers for.
const PLATFORMS: [&str; 18] = [
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

/// The parts of an installer's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// What stands before the kind, with its last slash.
    pub prefix: &'a str,
    /// The kind, such as `nocloud-installer-secureboot`.
    pub kind: &'a str,
    /// The schematic, in a factory's name.
    pub schematic: Option<&'a str>,
    /// The platform, where the name tells it.
    pub platform: Option<&'a str>,
    /// Whether it is signed for Secure Boot; the name tells it where it tells the
    /// platform.
    pub secure_boot: bool,
}

impl<'a> Name<'a> {
    /// Reads a reference.
    pub fn of(image: &'a ImageRef) -> Self {
        let repository = image.repository.as_str();
        if let Some((rest, last)) = repository.rsplit_once('/')
            && last.len() == 64
            && last.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            let (prefix, kind) = split(rest);
            if let Some((platform, secure_boot)) = read(kind) {
                let platform = Some(platform);
                return Self { prefix, kind, schematic: Some(last), platform, secure_boot };
            }
        }
        let (prefix, kind) = split(repository);
        let found = read(kind).filter(|(platform, _)| {
            // Elsewhere `installer` may be a custom image.
            let named = kind.len() > platform.len() && kind.starts_with(platform);
            is_public(image) || named && PLATFORMS.contains(platform)
        });
        let (platform, secure_boot) =
            found.map_or((None, false), |(it, secure)| (Some(it), secure));
        Self { prefix, kind, schematic: None, platform, secure_boot }
    }

    /// Whether it is for a node like this one; `None` if the name does not tell.
    pub fn fits(&self, node: Flavour<'_>, uki: bool) -> Option<bool> {
        let platform = self.platform?;
        // Without a unified kernel image the installer writes the running platform.
        let same =
            platform == node.platform || node.platform == EQUINIX && platform == METAL && !uki;
        Some(same && self.secure_boot == node.secure_boot)
    }
}

/// What an installer has to be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flavour<'a> {
    /// The platform.
    pub platform: &'a str,
    /// Whether the firmware boots signed images only.
    pub secure_boot: bool,
}

impl<'a> Flavour<'a> {
    /// What the node runs as.
    pub fn of(facts: &'a TalosFacts) -> Self {
        Self { platform: &facts.platform, secure_boot: facts.secure_boot }
    }

    /// The kind of installer, as a factory names it; `None` if it has no name for it.
    pub fn kind(self, uki: bool) -> Option<String> {
        let secure = if self.secure_boot { "-secureboot" } else { "" };
        match self.platform {
            "" => None,
            EQUINIX if uki => None,
            EQUINIX => Some(format!("installer{secure}")),
            platform => Some(format!("{platform}-installer{secure}")),
        }
    }
}

impl std::fmt::Display for Flavour<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secure = if self.secure_boot { "with" } else { "without" };
        write!(f, "{} {secure} Secure Boot", self.platform)
    }
}

/// Whether it is the plain installer of Talos's makers.
pub fn is_public(image: &ImageRef) -> bool {
    image.registry.as_deref() == Some(PLAIN.0) && image.repository.starts_with(PLAIN.1)
}

fn split(path: &str) -> (&str, &str) {
    let kind = path.rfind('/').map_or(0, |slash| slash + 1);
    path.split_at(kind)
}

/// Platform and Secure Boot of a kind; `None` if it is not an installer.
fn read(kind: &str) -> Option<(&str, bool)> {
    let (kind, secure_boot) =
        kind.strip_suffix("-secureboot").map_or((kind, false), |kind| (kind, true));
    match kind.strip_suffix("-installer") {
        Some(platform) => Some((platform, secure_boot)),
        None => (kind == "installer").then_some((METAL, secure_boot)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_in_an_installer() {
        let id = "ab".repeat(32);
        for (text, platform, secure_boot, built) in [
            (format!("factory.talos.dev/installer/{id}:v1.13.1"), Some("metal"), false, true),
            (
                format!("factory.lan/t/digital-ocean-installer-secureboot/{id}:v1.13.1"),
                Some("digital-ocean"),
                true,
                true,
            ),
            ("ghcr.io/siderolabs/installer:v1.13.1".to_owned(), Some("metal"), false, false),
            (
                "mirror.lan/talos/nocloud-installer:v1.13.1".to_owned(),
                Some("nocloud"),
                false,
                false,
            ),
            // Anything may be in these.
            ("mirror.lan/siderolabs/installer:v1.13.1".to_owned(), None, false, false),
            ("mirror.lan/our-installer:v1.13.1".to_owned(), None, false, false),
            ("mirror.lan/our-installer-secureboot:v1.13.1".to_owned(), None, false, false),
            ("mirror.lan/talos:v1.13.1".to_owned(), None, false, false),
        ] {
            let image: ImageRef = text.parse().unwrap();
            let name = Name::of(&image);
            assert_eq!((name.platform, name.secure_boot), (platform, secure_boot), "{text}");
            assert_eq!(name.schematic.is_some(), built, "{text}");
            let end = name.schematic.map_or(String::new(), |id| format!("/{id}"));
            assert_eq!(format!("{}{}{end}", name.prefix, name.kind), image.repository);
        }
    }
}
