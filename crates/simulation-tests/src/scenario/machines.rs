//! The machines: platform, firmware, extensions, and the installer in their configurations.

use serde::{Deserialize, Serialize};
use talos_sim::model::{ClusterSpec, EMPTY_SCHEMATIC, OwnInstaller, Renamed, Schematic};
use upgrade_core::image::ImageRef;
use upgrade_core::intent::{Installer, Intent};

use crate::world::{EXTENDED, EXTENSION, RENAMED};
use kube_sim::random::Random;

/// The properties of a cluster's machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Machines {
    /// The platform.
    pub platform: Platform,
    /// Whether the firmware boots only signed images.
    pub secure_boot: bool,
    /// The installer in the configurations.
    pub named: Named,
    /// Whether the next minor of Talos has their extension under another name.
    pub renamed: bool,
}

/// A platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are Talos's own")]
pub enum Platform {
    #[default]
    Metal,
    Nocloud,
    Hcloud,
    Container,
}

/// The installer in the machine configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// The one that matches the running system.
    #[default]
    Fitting,
    /// The plain one, as in a generated configuration.
    Plain,
    /// The Image Factory's for bare metal.
    Metal,
    /// One that no factory built; neither did one build the running system.
    Own,
}

/// The repository of installers that no factory built.
pub(crate) const OWN: &str = "registry.example/talos/installer";

impl Platform {
    /// Talos's name for the platform.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metal => "metal",
            Self::Nocloud => "nocloud",
            Self::Hcloud => "hcloud",
            Self::Container => "container",
        }
    }
}

impl Named {
    /// Its name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fitting => "fitting installer",
            Self::Plain => "plain installer",
            Self::Metal => "installer for metal",
            Self::Own => "own installer",
        }
    }
}

impl Machines {
    pub(super) fn draw(random: &mut Random, grub: bool) -> Self {
        let platform = match random.below(100) {
            0..55 => Platform::Metal,
            55..80 => Platform::Nocloud,
            80..99 => Platform::Hcloud,
            _ => Platform::Container,
        };
        let signed = matches!(platform, Platform::Metal | Platform::Nocloud);
        let secure_boot = random.chance(250) && signed && !grub;
        let named = match random.below(100) {
            0..50 => Named::Fitting,
            50..70 => Named::Plain,
            70..90 => Named::Metal,
            _ => Named::Own,
        };
        Self { platform, secure_boot, named, renamed: random.chance(400) }
    }

    /// The extension of extended machines.
    fn extension(self) -> String {
        if self.renamed { RENAMED.0.to_owned() } else { EXTENSION.to_owned() }
    }

    /// The user who builds installers names them and their content.
    pub(super) fn name_in(self, intent: &mut Intent) {
        if self.named == Named::Own && intent.talos.is_some() {
            let image: ImageRef = OWN.parse().expect("a reference");
            intent.installer = Installer::Image(image);
            intent.keep_extensions = true;
        }
    }

    /// Applies the properties to the machines of a world.
    pub(crate) fn make(self, spec: &mut ClusterSpec, extended: bool) {
        let Self { platform, secure_boot, named, renamed } = self;
        let yaml = format!(
            "customization:\n  systemExtensions:\n    officialExtensions:\n      - {}\n",
            self.extension()
        );
        let schematic = Schematic { yaml, extensions: vec![self.extension()] };
        spec.registry.schematics.insert(EXTENDED.to_owned(), schematic);
        if let Some(since) = spec.nodes.first().map(|node| node.talos.minor().next())
            && renamed
        {
            let (from, to) = (RENAMED.0.to_owned(), RENAMED.1.to_owned());
            spec.registry.renamed.push(Renamed { from, to, since });
        }
        let extensions = if extended { vec![self.extension()] } else { Vec::new() };
        let own = OwnInstaller { platform: platform.name().to_owned(), secure_boot, extensions };
        spec.registry.own.insert(OWN.to_owned(), own);
        let schematic = if extended { EXTENDED } else { EMPTY_SCHEMATIC };
        for node in &mut spec.nodes {
            platform.name().clone_into(&mut node.platform);
            node.secure_boot = secure_boot;
            node.schematic = (named != Named::Own).then(|| schematic.to_owned());
            let tag = node.talos.tag();
            node.install_image = match named {
                Named::Fitting => None,
                Named::Plain => Some(format!("ghcr.io/siderolabs/installer:{tag}")),
                Named::Metal => Some(format!("factory.talos.dev/installer/{schematic}:{tag}")),
                Named::Own => Some(format!("{OWN}:{tag}")),
            };
        }
    }
}
