//! Flags and profile as the planner's intent.

use std::collections::BTreeSet;

use upgrade_core::intent::{Installer, Intent, NodeIntent};
use upgrade_core::snapshot::{Fact, NodeName, Snapshot, TalosFacts};
use upgrade_core::text;
use upgrade_core::version::Version;

use crate::args::{InstallerArgs, Kind, NodeArgs, TargetArgs};
use crate::error::CommandError;
use crate::factory;
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
                format!("--{flag} does not apply to `upgrade {what}`"),
                format!("remove it, or use `upgrade {other}`"),
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
                format!("no {product} target version is given"),
                format!("name it with --{flag} or in the profile"),
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
                "no target version is given",
                "use --talos-to, --kubernetes-to or both, or a profile with versions",
            )
        })
    }
}

impl From<&TargetArgs> for Targets {
    fn from(flags: &TargetArgs) -> Self {
        Self { talos: flags.talos.clone(), kubernetes: flags.kubernetes.clone() }
    }
}

/// The flags that an intent is made of, beside the targets.
#[derive(Clone, Copy, Debug)]
pub struct IntentArgs<'a> {
    /// The way to the targets.
    pub target: &'a TargetArgs,
    /// The installer.
    pub installer: &'a InstallerArgs,
    /// The nodes that take part.
    pub nodes: &'a NodeArgs,
}

impl IntentArgs<'_> {
    /// The intent. New extensions need a request to the Image Factory.
    pub async fn intent(
        &self,
        targets: &Targets,
        profile: Option<&Profile>,
        snapshot: &Snapshot,
    ) -> Result<Intent, CommandError> {
        let installer = self.installer(targets, profile, snapshot).await?;
        let mut intent = Intent {
            talos: targets.talos.clone(),
            kubernetes: targets.kubernetes.clone(),
            installer,
            drop_extensions: self.installer.drop_extensions,
            keep_extensions: self.keeps_extensions(profile),
            skip_minors: self.target.skip_minors,
            rollback: self.target.rollback,
            prefer: self.target.prefer.into(),
            ..Intent::default()
        };
        self.nodes(&mut intent, profile, snapshot)?;
        Ok(intent)
    }

    /// Adds the intents of single nodes, from profile and flags.
    fn nodes(
        &self,
        intent: &mut Intent,
        profile: Option<&Profile>,
        snapshot: &Snapshot,
    ) -> Result<(), CommandError> {
        if let Some(profile) = profile {
            intent.nodes.clone_from(&profile.nodes);
        }
        if intent.talos.is_none() {
            // Without a Talos target only holds matter.
            intent.nodes.retain(|_, own| own.hold);
        }
        let NodeArgs { nodes, hold } = self.nodes;
        let only: BTreeSet<NodeName> = nodes.iter().map(|node| named(node, snapshot)).collect();
        if let Some(node) = only.iter().find(|node| intent.holds(node)) {
            return Err(CommandError::refused(
                format!("{node} is held in the profile"),
                "remove it from --node, or remove its `hold` from the profile",
            ));
        }
        if !only.is_empty() {
            intent.hold_others(snapshot.nodes.keys(), &only);
        }
        for node in only.into_iter().filter(|node| !snapshot.nodes.contains_key(node)) {
            intent.nodes.entry(node).or_default();
        }
        for node in hold {
            intent.nodes.entry(named(node, snapshot)).or_default().hold = true;
        }
        Ok(())
    }

    /// Whether the image has the nodes' extensions; the profile says so for its own image.
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
    ) -> Result<Installer, CommandError> {
        let InstallerArgs { schematic, extensions, image, factory, .. } = self.installer;
        if self.installer.is_given() && targets.talos.is_none() {
            return Err(Usage::new(
                "another installer needs a Talos target",
                "name a version with --talos; it may be the running one",
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
        let facts = self.installed(profile, snapshot);
        let url = url.or_else(|| one_factory(&facts));
        let url = url.unwrap_or_else(factory::usual);
        let base = one_schematic(&facts)?;
        let made = factory::with_extensions(&url, base.as_deref(), extensions, target).await;
        match made {
            Ok(schematic) => Ok(Installer::Schematic(schematic)),
            Err(error) => Err(CommandError::refused(error.to_string(), error.advice())),
        }
    }
}

impl IntentArgs<'_> {
    /// What runs on the nodes that get the installer of these flags.
    fn installed<'s>(
        &self,
        profile: Option<&Profile>,
        snapshot: &'s Snapshot,
    ) -> Vec<&'s TalosFacts> {
        let of = |names: &[String]| -> BTreeSet<NodeName> {
            names.iter().map(|node| named(node, snapshot)).collect()
        };
        let (only, hold) = (of(&self.nodes.nodes), of(&self.nodes.hold));
        let own = |name: &NodeName| {
            let own = profile.and_then(|profile| profile.nodes.get(name));
            own.is_some_and(|own| own.hold || own.installer.is_some())
        };
        let gets = |name: &NodeName| {
            (only.is_empty() || only.contains(name)) && !hold.contains(name) && !own(name)
        };
        let nodes = snapshot.nodes.iter().filter(|(name, _)| gets(name));
        nodes.filter_map(|(_, node)| node.talos.known()).collect()
    }
}

/// The node with this name or address. The planner refuses one that does not exist.
fn named(text: &str, snapshot: &Snapshot) -> NodeName {
    let name = NodeName::from(text);
    if snapshot.nodes.contains_key(&name) {
        return name;
    }
    let by_address = snapshot.nodes.iter().find(|(_, node)| node.address == text);
    by_address.map_or(name, |(name, _)| name.clone())
}

/// The Image Factory of these nodes, if all report the same one.
fn one_factory(facts: &[&TalosFacts]) -> Option<String> {
    let mut factories = facts.iter().map(|facts| facts.factory.as_ref());
    let first = factories.next()??;
    let url = factories.all(|other| other == Some(first)).then_some(first)?;
    factory::check_url(url).ok()
}

/// The schematic of these nodes. If they differ, one list of extensions would make them equal
/// and drop what differs (rule 4).
fn one_schematic(facts: &[&TalosFacts]) -> Result<Option<String>, CommandError> {
    let mut schematics: Vec<Option<String>> =
        facts.iter().map(|facts| facts.schematic.clone()).collect();
    schematics.sort();
    schematics.dedup();
    match schematics.as_slice() {
        [] => Ok(None),
        [one] => Ok(one.clone()),
        several => Err(CommandError::refused(
            format!(
                "the nodes run {} different schematics, and --extensions would make them one",
                several.len()
            ),
            "choose nodes with the same schematic by --node, or create the schematic yourself and \
             name it with --schematic",
        )),
    }
}

/// A warning if nodes run another schematic than that of the profile.
pub fn schematic_differs(profile: Option<&Profile>, snapshot: &Snapshot) -> Option<String> {
    let wanted = profile?.schematic.as_deref()?;
    let differs = |fact: &Fact<TalosFacts>| {
        fact.known().is_some_and(|facts| facts.schematic.as_deref() != Some(wanted))
    };
    let nodes = snapshot.nodes.iter().filter(|(_, node)| differs(&node.talos));
    let nodes: Vec<&NodeName> = nodes.map(|(name, _)| name).collect();
    if nodes.is_empty() {
        return None;
    }
    Some(format!(
        "the profile names schematic {}, but {} run another one, which is kept; use --schematic \
         to change it",
        wanted.get(..12).unwrap_or(wanted),
        text::first(&nodes, 1)
    ))
}

/// The nodes that the profile holds.
pub fn held(profile: Option<&Profile>) -> std::collections::BTreeMap<NodeName, NodeIntent> {
    let nodes = profile.into_iter().flat_map(|profile| &profile.nodes);
    nodes.filter(|(_, own)| own.hold).map(|(name, own)| (name.clone(), own.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::PreferArg;

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
    fn a_target_has_to_fit_the_command() {
        let of = |kind, given| Targets::of_upgrade(kind, given, None).unwrap_err().message;
        assert!(of(Kind::Os, flags(Some(13), Some(34))).starts_with("--kubernetes "));
        assert!(of(Kind::K8s, flags(Some(13), Some(34))).starts_with("--talos "));
        assert!(of(Kind::Both, flags(Some(13), None)).contains("Kubernetes"));
        assert!(of(Kind::Os, flags(None, None)).contains("Talos"));
    }

    #[test]
    fn nodes_are_named_or_held() {
        let cluster = crate::offline::Cluster {
            control_planes: 3,
            workers: 2,
            talos: Some(version(13)),
            kubernetes: Some(version(34)),
            installer: None,
        };
        let snapshot = cluster.snapshot();
        let mut profile = profile();
        let kept = NodeIntent { hold: true, ..NodeIntent::default() };
        let pin = NodeIntent { talos: Some(version(12)), ..NodeIntent::default() };
        profile.nodes = [("cp-1".into(), kept), ("cp-2".into(), pin)].into();
        let held = |nodes: &[&str], hold: &[&str], talos: Option<Version>| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let nodes = NodeArgs { nodes: texts(nodes), hold: texts(hold) };
            let flags = IntentArgs {
                target: &TargetArgs {
                    talos: None,
                    kubernetes: None,
                    skip_minors: false,
                    rollback: false,
                    prefer: PreferArg::TalosFirst,
                },
                installer: &InstallerArgs::default(),
                nodes: &nodes,
            };
            let mut intent = Intent { talos, ..Intent::default() };
            flags
                .nodes(&mut intent, Some(&profile), &snapshot)
                .map_err(|failed| failed.remarks[0].message.clone())?;
            let pinned = intent.own_talos(&"cp-2".into()).is_some();
            let names = intent.nodes.keys().filter(|name| intent.holds(name));
            let names: Vec<String> = names.map(ToString::to_string).collect();
            Ok::<_, String>((names.join(" "), pinned))
        };
        let both = |names: &str, pinned| Ok((names.to_owned(), pinned));
        assert_eq!(held(&[], &[], Some(version(14))), both("cp-1", true));
        // Kubernetes alone leaves Talos alone, and held nodes too.
        assert_eq!(held(&[], &["worker-1"], None), both("cp-1 worker-1", false));
        let address = snapshot.nodes[&"worker-2".into()].address.clone();
        let others = "cp-1 cp-2 cp-3 worker-1";
        assert_eq!(held(&[&address], &[], Some(version(14))), both(others, true));
        assert!(held(&["cp-1"], &[], Some(version(14))).unwrap_err().contains("is held"));
    }

    #[test]
    fn a_plan_needs_a_target() {
        let profile = profile();
        let both = flags(Some(13), Some(34));
        assert_eq!(Targets::of_plan(flags(None, None), Some(&profile)).unwrap(), both);
        let one = flags(Some(14), None);
        assert_eq!(Targets::of_plan(one.clone(), Some(&profile)).unwrap(), one);
        assert!(Targets::of_plan(flags(None, None), None).is_err());
    }
}
