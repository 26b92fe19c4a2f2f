//! What a user wants, from flags and profile, as the planner understands it.

use upgrade_core::intent::{Installer, Intent};
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_core::version::Version;

use crate::args::{InstallerArgs, Kind, PreferArg};
use crate::factory;
use crate::failed::Failed;
use crate::profile::Profile;
use crate::usage::Usage;

/// The targets of both products; `None` leaves one alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Talos.
    pub talos: Option<Version>,
    /// Kubernetes.
    pub kubernetes: Option<Version>,
}

impl Targets {
    /// The targets of an upgrade: flags first, else the profile's versions.
    pub fn of_upgrade(kind: Kind, flags: Self, profile: Option<&Profile>) -> Result<Self, Usage> {
        let refuse = |flag: &str, what: &str, other: &str| {
            Err(Usage::new(
                format!("--{flag} is not for `upgrade {what}`"),
                format!("leave it out, or say `upgrade {other}`"),
            ))
        };
        match kind {
            Kind::Os if flags.kubernetes.is_some() => return refuse("kubernetes", "os", "both"),
            Kind::K8s if flags.talos.is_some() => return refuse("talos", "k8s", "both"),
            _ => {}
        }
        let talos = flags.talos.or_else(|| profile.and_then(|profile| profile.talos.clone()));
        let kubernetes =
            flags.kubernetes.or_else(|| profile.and_then(|profile| profile.kubernetes.clone()));
        let missing = |flag: &str, product: &str| {
            Usage::new(
                format!("there is no {product} target"),
                format!("name it with --{flag}, or in a profile"),
            )
        };
        let talos = match kind {
            Kind::K8s => None,
            _ => Some(talos.ok_or_else(|| missing("talos", "Talos"))?),
        };
        let kubernetes = match kind {
            Kind::Os => None,
            _ => Some(kubernetes.ok_or_else(|| missing("kubernetes", "Kubernetes"))?),
        };
        Ok(Self { talos, kubernetes })
    }

    /// The targets of a plan: what the flags name, or all that the profile has.
    pub fn of_plan(flags: Self, profile: Option<&Profile>) -> Result<Self, Usage> {
        if flags != Self::default() {
            return Ok(flags);
        }
        let from_profile = profile.map(|profile| Self {
            talos: profile.talos.clone(),
            kubernetes: profile.kubernetes.clone(),
        });
        from_profile.filter(|targets| *targets != Self::default()).ok_or_else(|| {
            Usage::new(
                "there is nothing to plan: no target was given",
                "give --talos-to, --kubernetes-to or both, or a profile that has versions",
            )
        })
    }
}

/// What else is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Two Talos minors at once.
    pub skip_minors: bool,
    /// Going back.
    pub rollback: bool,
    /// What goes first.
    pub prefer: PreferArg,
    /// The installer.
    pub installer: &'a InstallerArgs,
}

impl Wish<'_> {
    /// All of it as the planner takes it. New extensions ask a factory first.
    pub async fn intent(
        &self,
        targets: &Targets,
        profile: Option<&Profile>,
        snapshot: &Snapshot,
    ) -> Result<Intent, Failed> {
        let installer = self.installer(targets, profile, snapshot).await?;
        Ok(Intent {
            talos: targets.talos.clone(),
            kubernetes: targets.kubernetes.clone(),
            installer,
            drop_extensions: self.installer.drop_extensions,
            keep_extensions: self.keeps_extensions(profile),
            skip_minors: self.skip_minors,
            rollback: self.rollback,
            prefer: self.prefer.into(),
        })
    }

    /// Whether the image brings the nodes' extensions; the profile says it of its own.
    fn keeps_extensions(&self, profile: Option<&Profile>) -> bool {
        let InstallerArgs { schematic, extensions, drop_extensions, keep_extensions, .. } =
            self.installer;
        let other = schematic.is_some() || extensions.is_some() || *drop_extensions;
        *keep_extensions || !other && profile.is_some_and(|profile| profile.keep_extensions)
    }

    async fn installer(
        &self,
        targets: &Targets,
        profile: Option<&Profile>,
        snapshot: &Snapshot,
    ) -> Result<Installer, Failed> {
        let InstallerArgs { schematic, extensions, image, factory, .. } = self.installer;
        if (schematic.is_some() || extensions.is_some() || image.is_some())
            && targets.talos.is_none()
        {
            return Err(Usage::new(
                "another installer changes Talos, and there is no Talos target",
                "name one with --talos; it may be the version that runs",
            )
            .into());
        }
        if let Some(schematic) = schematic {
            return Ok(Installer::Schematic(schematic.clone()));
        }
        if let Some(image) = image {
            return Ok(Installer::Image(image.clone()));
        }
        let (Some(extensions), Some(target)) = (extensions, &targets.talos) else {
            let own = profile.and_then(|profile| profile.image.clone());
            return Ok(own.map_or(Installer::Keep, Installer::Image));
        };
        let url = factory.clone().or_else(|| profile?.factory_url.clone());
        let url = url.or_else(|| one_factory(snapshot));
        let url = url.unwrap_or_else(factory::usual);
        let base = one_schematic(snapshot)?;
        let made = factory::with_extensions(&url, base.as_deref(), extensions, target).await;
        match made {
            Ok(schematic) => Ok(Installer::Schematic(schematic)),
            Err(error) => Err(Failed::refused(error.to_string(), error.advice())),
        }
    }
}

/// The Image Factory that built what all nodes run, if they tell one.
fn one_factory(snapshot: &Snapshot) -> Option<String> {
    let facts = snapshot.nodes.values().filter_map(|node| node.talos.known());
    let mut factories = facts.map(|facts| facts.factory.as_ref());
    let first = factories.next()??;
    let url = factories.all(|other| other == Some(first)).then_some(first)?;
    factory::check_url(url).ok()
}

/// The schematic of all nodes. Where they differ, one list of extensions would
/// make them alike, which nobody asked for (rule 4).
fn one_schematic(snapshot: &Snapshot) -> Result<Option<String>, Failed> {
    let facts = snapshot.nodes.values().filter_map(|node| node.talos.known());
    let mut schematics: Vec<Option<String>> = facts.map(|facts| facts.schematic.clone()).collect();
    schematics.sort();
    schematics.dedup();
    match schematics.as_slice() {
        [] => Ok(None),
        [one] => Ok(one.clone()),
        several => Err(Failed::refused(
            format!(
                "the nodes run {} schematics, and --extensions would make them one",
                several.len()
            ),
            "make the schematic by hand and name it with --schematic",
        )),
    }
}

/// What the profile says of the schematic and what runs, where they differ.
pub fn schematic_differs(profile: Option<&Profile>, snapshot: &Snapshot) -> Option<String> {
    let wanted = profile?.schematic.as_deref()?;
    let differs = |fact: &Fact<upgrade_core::snapshot::TalosFacts>| {
        fact.known().is_some_and(|facts| facts.schematic.as_deref() != Some(wanted))
    };
    let nodes: Vec<String> = snapshot
        .nodes
        .iter()
        .filter(|(_, node)| differs(&node.talos))
        .map(|(name, _)| name.to_string())
        .collect();
    let (first, more) = nodes.split_first()?;
    let others = match more.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "the profile names schematic {}, {first}{others} run another; what runs is kept, \
         --schematic changes it",
        wanted.get(..12).unwrap_or(wanted)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(minor: u64) -> Version {
        Version::new(1, minor, 1)
    }

    fn profile() -> Profile {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.yaml");
        let text = "name: p\ntalos: {version: 1.13.1, kubernetes_version: 1.34.1}\n";
        std::fs::write(&path, text).unwrap();
        Profile::load(&path).unwrap()
    }

    fn flags(talos: Option<u64>, kubernetes: Option<u64>) -> Targets {
        Targets { talos: talos.map(version), kubernetes: kubernetes.map(version) }
    }

    #[test]
    fn flags_come_before_the_profile() {
        let profile = profile();
        let of = |kind, given| Targets::of_upgrade(kind, given, Some(&profile)).unwrap();
        assert_eq!(of(Kind::Both, flags(Some(14), None)), flags(Some(14), Some(34)));
        assert_eq!(of(Kind::Os, flags(None, None)), flags(Some(13), None));
        assert_eq!(of(Kind::K8s, flags(None, Some(35))), flags(None, Some(35)));
    }

    #[test]
    fn targets_have_to_fit_what_is_upgraded() {
        let of = |kind, given| Targets::of_upgrade(kind, given, None).unwrap_err().message;
        assert!(of(Kind::Os, flags(Some(13), Some(34))).contains("--kubernetes is not for"));
        assert!(of(Kind::K8s, flags(Some(13), Some(34))).contains("--talos is not for"));
        assert!(of(Kind::Both, flags(Some(13), None)).contains("no Kubernetes target"));
        assert!(of(Kind::Os, flags(None, None)).contains("no Talos target"));
    }

    #[test]
    fn a_plan_takes_what_it_is_given() {
        let profile = profile();
        let both = flags(Some(13), Some(34));
        assert_eq!(Targets::of_plan(flags(None, None), Some(&profile)).unwrap(), both);
        let one = flags(Some(14), None);
        assert_eq!(Targets::of_plan(one.clone(), Some(&profile)).unwrap(), one);
        assert!(Targets::of_plan(flags(None, None), None).is_err());
    }
}
