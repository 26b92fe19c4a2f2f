//! Which installer a node gets (rule 4).
//!
//! The node's own registry, platform and schematic stay; the tag changes. What
//! runs is the truth: where the machine config names another schematic than the
//! one that booted, the running one is kept and the difference is reported.

use upgrade_core::image::ImageRef;
use upgrade_core::intent::{Installer, Intent};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::snapshot::{NodeName, TalosFacts};
use upgrade_core::version::Version;

use crate::report::{Note, Refusal, Report, Warning};

/// The public Image Factory.
pub const FACTORY: &str = "factory.talos.dev";

/// The schematic without any customisation.
pub const EMPTY_SCHEMATIC: &str =
    "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

/// The registry and repository of the plain installer.
const PLAIN: (&str, &str) = ("ghcr.io", "siderolabs/installer");

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

/// The schematic that the user wants every node to run, where one is named. An
/// image of a registry of one's own names none: what is in it shows nowhere.
pub fn wanted_schematic(intent: &Intent) -> Option<&str> {
    match &intent.installer {
        Installer::Keep => None,
        Installer::Schematic(schematic) => Some(schematic),
        Installer::Image(image) => schematic_of(image),
    }
}

/// Whether a node that runs the wanted version still has to be installed anew,
/// since the user wants other content in it.
pub fn lacks_wanted(facts: &TalosFacts, intent: &Intent) -> bool {
    wanted_schematic(intent).is_some_and(|wanted| facts.schematic.as_deref() != Some(wanted))
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
    match &intent.installer {
        _ if mutant::is(Mutant::SchematicDropped) => {
            let image = with_schematic(facts, EMPTY_SCHEMATIC, target);
            Some(Choice { image, schematic: None, extensions: None })
        }
        Installer::Keep => keep(node, facts, target, intent, report),
        Installer::Schematic(schematic) => {
            let image = with_schematic(facts, schematic, target);
            Some(Choice { image, schematic: Some(schematic.clone()), extensions: None })
        }
        Installer::Image(image) => {
            let schematic = schematic_of(image).map(ToOwned::to_owned);
            let image = retag(image, target, report);
            if schematic.is_none() {
                plain_may_replace(node, facts, &image, intent, report)?;
            }
            Some(Choice { image, schematic, extensions: None })
        }
    }
}

fn keep(
    node: &NodeName,
    facts: &TalosFacts,
    target: &Version,
    intent: &Intent,
    report: &mut Report,
) -> Option<Choice> {
    let extensions: Vec<String> =
        facts.extensions.iter().map(|extension| extension.name.clone()).collect();
    let Some(configured) = &facts.installer else {
        let Some(schematic) = &facts.schematic else {
            report.refuse(Refusal::NoInstaller {
                node: node.clone(),
                why: "its machine config names none, and no schematic runs".to_owned(),
            });
            return None;
        };
        let image = with_schematic(facts, schematic, target);
        let schematic = Some(schematic.clone());
        return Some(Choice { image, schematic, extensions: Some(extensions) });
    };
    match (schematic_of(configured), &facts.schematic) {
        // Built by a factory, as configured or as it runs.
        (Some(named), running) => {
            let schematic = running.as_deref().unwrap_or(named);
            if schematic != named {
                report.warn(Warning::SchematicDiffers {
                    node: node.clone(),
                    configured: configured.clone(),
                    running: schematic.to_owned(),
                });
            }
            let image = if schematic == named {
                retag(configured, target, report)
            } else {
                retag(&replace_schematic(configured, named, schematic), target, report)
            };
            Some(Choice {
                image,
                schematic: Some(schematic.to_owned()),
                extensions: Some(extensions),
            })
        }
        // A plain installer in the config, but a factory's work running: the
        // plain one would drop what the schematic brought.
        (None, Some(running)) if running != EMPTY_SCHEMATIC => {
            report.warn(Warning::SchematicDiffers {
                node: node.clone(),
                configured: configured.clone(),
                running: running.clone(),
            });
            Some(Choice {
                image: with_schematic(facts, running, target),
                schematic: Some(running.clone()),
                extensions: Some(extensions),
            })
        }
        (None, running) => {
            let image = plain(configured, facts, target, report);
            plain_may_replace(node, facts, &image, intent, report)?;
            let schematic = schematic_of(&image).map(ToOwned::to_owned).or_else(|| running.clone());
            Some(Choice { image, schematic, extensions: Some(Vec::new()) })
        }
    }
}

/// The plain installer of the target, or what replaces it.
fn plain(
    configured: &ImageRef,
    facts: &TalosFacts,
    target: &Version,
    report: &mut Report,
) -> ImageRef {
    let is_public = configured.registry.as_deref() == Some(PLAIN.0)
        && configured.repository.starts_with(PLAIN.1);
    if target.release() < WITHOUT_PLAIN {
        return retag(configured, target, report);
    }
    if is_public {
        let image = with_schematic(facts, EMPTY_SCHEMATIC, target);
        report.note(Note::PlainInstallerGone {
            configured: configured.clone(),
            installer: image.clone(),
        });
        return image;
    }
    let image = retag(configured, target, report);
    report.warn(Warning::MirrorUnchecked { installer: image.clone() });
    image
}

/// An installer without a schematic brings no extensions: refused over a node
/// that has some, unless the user said they may go.
fn plain_may_replace(
    node: &NodeName,
    facts: &TalosFacts,
    image: &ImageRef,
    intent: &Intent,
    report: &mut Report,
) -> Option<()> {
    let extensions: Vec<String> =
        facts.extensions.iter().map(|extension| extension.name.clone()).collect();
    if extensions.is_empty() {
        return Some(());
    }
    if intent.drop_extensions {
        report.warn(Warning::ExtensionsDropped { node: node.clone(), extensions });
        return Some(());
    }
    report.refuse(Refusal::ExtensionsLost {
        node: node.clone(),
        installer: image.to_string(),
        extensions,
    });
    None
}

/// The schematic in a factory's installer reference, the last part of its name.
pub fn schematic_of(image: &ImageRef) -> Option<&str> {
    let (rest, last) = image.repository.rsplit_once('/')?;
    let kind = rest.rsplit('/').next().unwrap_or(rest);
    let is_installer = kind == "installer"
        || kind == "installer-secureboot"
        || kind.ends_with("-installer")
        || kind.ends_with("-installer-secureboot");
    let is_hash = last.len() == 64 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_installer && is_hash).then_some(last)
}

fn replace_schematic(image: &ImageRef, old: &str, new: &str) -> ImageRef {
    let kept = image.repository.strip_suffix(old).unwrap_or(&image.repository);
    ImageRef { repository: format!("{kept}{new}"), ..image.clone() }
}

/// A factory's installer with this schematic: the node's own factory, platform
/// and boot kind where its image tells them.
fn with_schematic(facts: &TalosFacts, schematic: &str, target: &Version) -> ImageRef {
    if let Some(image) = &facts.installer
        && let Some(named) = schematic_of(image)
    {
        return replace_schematic(image, named, schematic).with_tag(&target.tag());
    }
    let platform = if facts.platform.is_empty() { "metal" } else { &facts.platform };
    let secure = if facts.secure_boot { "-secureboot" } else { "" };
    ImageRef {
        registry: Some(FACTORY.to_owned()),
        repository: format!("{platform}-installer{secure}/{schematic}"),
        tag: Some(target.tag()),
        digest: None,
    }
}

fn retag(image: &ImageRef, target: &Version, report: &mut Report) -> ImageRef {
    let retagged = image.with_tag(&target.tag());
    if image.digest.is_some() {
        report
            .note(Note::DigestReplaced { configured: image.clone(), installer: retagged.clone() });
    }
    retagged
}
