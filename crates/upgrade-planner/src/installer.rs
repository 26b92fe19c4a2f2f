//! Which installer a node gets (rule 4).
//!
//! What runs is the truth: platform, Secure Boot and schematic stay, and where the
//! machine config names another installer than that, the difference is reported. The
//! registry is the config's, or that of the factory which built what runs; only the tag
//! changes.

pub mod name;

use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::intent::{Installer, Intent};
use upgrade_core::mutant::Mutant;
use upgrade_core::snapshot::{NodeName, TalosFacts};
use upgrade_core::version::Version;

use crate::report::{Note, Refusal, Report, Warning};
use name::{EQUINIX, Flavour, METAL, Name, is_public};

/// The public Image Factory.
pub const FACTORY: &str = "factory.talos.dev";

/// The schematic without any customisation.
pub const EMPTY_SCHEMATIC: &str =
    "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

/// The first release without a plain installer.
const WITHOUT_PLAIN: Version = Version::new(1, 14, 0);

/// The installer for a node, and what it will have booted afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The image.
    pub image: ImageRef,
    /// The schematic expected afterwards; `None` for an image without one.
    pub schematic: Option<String>,
    /// The extensions expected afterwards; `None` if the user's own installer
    /// decides.
    pub extensions: Option<Vec<String>>,
}

/// The schematic that the user wants a node to run, where one is named. An
/// image of a registry of one's own names none: what is in it shows nowhere.
pub fn wanted_schematic(installer: &Installer) -> Option<&str> {
    match installer {
        Installer::Keep => None,
        Installer::Schematic(schematic) => Some(schematic),
        Installer::Image(image) => schematic_of(image),
    }
}

/// Whether a node that runs the wanted version still has to be installed again,
/// since the user wants other content in it.
pub fn lacks_wanted(facts: &TalosFacts, installer: &Installer) -> bool {
    wanted_schematic(installer).is_some_and(|wanted| facts.schematic.as_deref() != Some(wanted))
}

/// The schematic in a factory's installer reference, the last part of its name.
pub fn schematic_of(image: &ImageRef) -> Option<&str> {
    Name::of(image).schematic
}

/// What would bring the node back to where it is, if that can be told.
pub fn previous(node: &NodeName, facts: &TalosFacts) -> Option<ImageRef> {
    let intent = Intent { keep_extensions: true, ..Intent::default() };
    let choosing = Choosing { node, facts, target: &facts.version, intent: &intent };
    let choice = choosing.keep(&mut Report::default())?;
    (choice.schematic == facts.schematic).then_some(choice.image)
}

/// Refuses an image that the user named if its name says that it is for another
/// platform, or for another kind of boot: the node would not come back (rule 4).
pub fn refuse_other(node: &NodeName, facts: &TalosFacts, image: &ImageRef, report: &mut Report) {
    let name = Name::of(image);
    let flavour = Flavour::of(facts);
    if name.fits(flavour, facts.uki) == Some(false) {
        report.refuse(Refusal::WrongInstaller {
            node: node.clone(),
            installer: image.clone(),
            platform: flavour.platform.to_owned(),
            secure_boot: flavour.secure_boot,
        });
    }
}

/// Chooses the installer that takes `node` to `target`. A refusal goes into the
/// report.
pub fn choose(
    node: &NodeName,
    facts: &TalosFacts,
    target: &Version,
    intent: &Intent,
    report: &mut Report,
) -> Option<Choice> {
    if guard!(Mutant::ContainerTaken, facts.container) {
        report.refuse(Refusal::ContainerMode { node: node.clone() });
        return None;
    }
    let choosing = Choosing { node, facts, target, intent };
    match intent.installer_of(node) {
        _ if !guard!(Mutant::SchematicDropped) => {
            let image = choosing.built(EMPTY_SCHEMATIC, report)?;
            Some(Choice { image, schematic: None, extensions: None })
        }
        Installer::Keep => choosing.keep(report),
        Installer::Schematic(schematic) => {
            let image = choosing.built(schematic, report)?;
            Some(Choice { image, schematic: Some(schematic.clone()), extensions: None })
        }
        Installer::Image(image) => choosing.named(image, report),
    }
}

/// All that a choice depends on.
#[derive(Clone, Copy)]
struct Choosing<'a> {
    node: &'a NodeName,
    facts: &'a TalosFacts,
    target: &'a Version,
    intent: &'a Intent,
}

impl Choosing<'_> {
    /// The image that the user named.
    fn named(&self, image: &ImageRef, report: &mut Report) -> Option<Choice> {
        let before = report.refusals.len();
        refuse_other(self.node, self.facts, image, report);
        let schematic = schematic_of(image).map(ToOwned::to_owned);
        let image = self.retag(image, report);
        if schematic.is_none() {
            self.may_replace(&image, report)?;
        }
        let extensions = self.intent.keep_extensions.then(|| self.extensions());
        (report.refusals.len() == before).then_some(Choice { image, schematic, extensions })
    }

    /// What runs stays.
    fn keep(&self, report: &mut Report) -> Option<Choice> {
        let Self { facts, .. } = self;
        let running = facts.schematic.as_ref();
        let Some(configured) = &facts.installer else {
            let Some(schematic) = running else {
                let why = "its machine config names none, and no schematic runs";
                return self.none(why, report);
            };
            return self.kept(schematic, report);
        };
        match (schematic_of(configured), running) {
            // Built by a factory, as configured or as it runs.
            (Some(named), running) => {
                let schematic = running.map_or(named, String::as_str);
                if schematic != named {
                    self.schematic_differs(configured, schematic, report);
                }
                self.kept(schematic, report)
            }
            // Another installer in the config, but a factory's work running: that one
            // would drop the schematic, and what it brought.
            (None, Some(running)) => {
                self.schematic_differs(configured, running, report);
                self.kept(running, report)
            }
            (None, None) => {
                let image = self.plain(configured, report)?;
                let schematic = schematic_of(&image).map(ToOwned::to_owned);
                let brought = self.intent.keep_extensions && schematic.is_none();
                self.may_replace(&image, report)?;
                let extensions = if brought { self.extensions() } else { Vec::new() };
                Some(Choice { image, schematic, extensions: Some(extensions) })
            }
        }
    }

    fn kept(&self, schematic: &str, report: &mut Report) -> Option<Choice> {
        let image = self.built(schematic, report)?;
        let schematic = Some(schematic.to_owned());
        Some(Choice { image, schematic, extensions: Some(self.extensions()) })
    }

    /// What the installer has to be for.
    fn flavour(&self) -> Flavour<'_> {
        let configured = self.facts.installer.as_ref().map(Name::of);
        let mut flavour = Flavour::of(self.facts);
        if !guard!(Mutant::PlatformDropped) {
            flavour.platform = configured.and_then(|name| name.platform).unwrap_or(METAL);
        }
        if !guard!(Mutant::SecureBootDropped) {
            flavour.secure_boot = configured.is_some_and(|name| name.secure_boot);
        }
        flavour
    }

    /// A factory's installer with this schematic, for the platform and the kind of boot
    /// that run.
    fn built(&self, schematic: &str, report: &mut Report) -> Option<ImageRef> {
        let Self { facts, .. } = self;
        let (flavour, uki) = (self.flavour(), facts.uki);
        let configured = facts.installer.as_ref().map(|image| (image, Name::of(image)));
        let factory = configured.filter(|(_, name)| name.schematic.is_some());
        if let Some((image, name)) = factory
            && name.fits(flavour, uki) == Some(true)
        {
            let repository = format!("{}{}/{schematic}", name.prefix, name.kind);
            let kept = ImageRef { repository, ..image.clone() };
            let kept = if name.schematic == Some(schematic) { image.clone() } else { kept };
            return Some(self.retag(&kept, report));
        }
        let Some(kind) = flavour.kind(uki) else {
            let why = match flavour.platform {
                EQUINIX => "the Image Factory has no installer for the platform equinixMetal",
                _ => "it does not tell its platform",
            };
            return self.none(why, report);
        };
        if let Some((image, _)) = configured.filter(|(_, it)| it.fits(flavour, uki) == Some(false))
        {
            self.flavour_differs(image, flavour, report);
        }
        let (registry, prefix) = match factory {
            Some((image, name)) => (image.registry.clone(), name.prefix.to_owned()),
            None => factory_of(facts),
        };
        let repository = format!("{prefix}{kind}/{schematic}");
        let tag = Some(self.target.tag());
        Some(ImageRef { registry, repository, tag, digest: None })
    }

    /// The target's installer where the config names one without a schematic, and none
    /// runs.
    fn plain(&self, configured: &ImageRef, report: &mut Report) -> Option<ImageRef> {
        let flavour = self.flavour();
        let generic = flavour.platform == METAL && !flavour.secure_boot;
        let old = self.target.release() < WITHOUT_PLAIN;
        if is_public(configured) {
            if old && generic {
                return Some(self.retag(configured, report));
            }
            if flavour.secure_boot {
                let why = "it boots with Secure Boot, and no Image Factory built what runs: its \
                           firmware trusts only the keys that signed that";
                return self.none(why, report);
            }
            let image = self.built(EMPTY_SCHEMATIC, report)?;
            if !old {
                let (configured, installer) = (configured.clone(), image.clone());
                report.note(Note::PlainInstallerGone { configured, installer });
            }
            return Some(image);
        }
        let fits = Name::of(configured).fits(flavour, self.facts.uki);
        if fits.unwrap_or(generic) {
            let image = self.retag(configured, report);
            if !old {
                report.warn(Warning::MirrorUnchecked { installer: image.clone() });
            }
            return Some(image);
        }
        let why = match fits {
            Some(_) => format!("it runs on {flavour}, and {configured} is for something else"),
            None => format!(
                "it runs on {flavour}, and {configured} does not tell whether it is for that"
            ),
        };
        self.none(&why, report)
    }

    /// An installer without a schematic brings no extensions that can be seen:
    /// refused over a node that has some, unless the user said that they may go, or
    /// that they are in it.
    fn may_replace(&self, image: &ImageRef, report: &mut Report) -> Option<()> {
        let (node, extensions) = (self.node.clone(), self.extensions());
        let brought = self.intent.keep_extensions && !is_public(image);
        if extensions.is_empty() || brought && schematic_of(image).is_none() {
            return Some(());
        }
        if self.intent.drop_extensions {
            report.warn(Warning::ExtensionsDropped { node, extensions });
            return Some(());
        }
        report.refuse(Refusal::ExtensionsLost { node, installer: image.to_string(), extensions });
        None
    }

    fn extensions(&self) -> Vec<String> {
        self.facts.extensions.iter().map(|extension| extension.name.clone()).collect()
    }

    fn retag(&self, image: &ImageRef, report: &mut Report) -> ImageRef {
        let installer = image.with_tag(&self.target.tag());
        if image.digest.is_some() {
            let (configured, installer) = (image.clone(), installer.clone());
            report.note(Note::DigestReplaced { configured, installer });
        }
        installer
    }

    fn none<T>(&self, why: &str, report: &mut Report) -> Option<T> {
        report.refuse(Refusal::NoInstaller { node: self.node.clone(), why: why.to_owned() });
        None
    }

    fn schematic_differs(&self, configured: &ImageRef, running: &str, report: &mut Report) {
        report.warn(Warning::SchematicDiffers {
            node: self.node.clone(),
            configured: configured.clone(),
            running: running.to_owned(),
        });
    }

    fn flavour_differs(&self, configured: &ImageRef, flavour: Flavour<'_>, report: &mut Report) {
        report.warn(Warning::PlatformDiffers {
            node: self.node.clone(),
            configured: configured.clone(),
            platform: flavour.platform.to_owned(),
            secure_boot: flavour.secure_boot,
        });
    }
}

/// Registry and path of the factory that built what runs; the public one where the node
/// does not tell.
fn factory_of(facts: &TalosFacts) -> (Option<String>, String) {
    let url = facts.factory.as_deref().unwrap_or(FACTORY);
    let place = url.split_once("://").map_or(url, |(_, place)| place).trim_end_matches('/');
    match place.split_once('/') {
        Some((registry, path)) => (Some(registry.to_owned()), format!("{path}/")),
        None => (Some(place.to_owned()), String::new()),
    }
}
