//! What a user wants, from flags and profile, as the planner understands it.

use std::collections::BTreeSet;

use upgrade_core::intent::{Installer, Intent, NodeIntent};
use upgrade_core::snapshot::{Fact, NodeName, Snapshot, TalosFacts};
use upgrade_core::text;
use upgrade_core::version::Version;

use crate::args::{InstallerArgs, Kind, NodeArgs, PreferArg};
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
    /// Which nodes.
    pub nodes: &'a NodeArgs,
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
        let mut intent = Intent {
            talos: targets.talos.clone(),
            kubernetes: targets.kubernetes.clone(),
            installer,
            drop_extensions: self.installer.drop_extensions,
            keep_extensions: self.keeps_extensions(profile),
            skip_minors: self.skip_minors,
            rollback: self.rollback,
            prefer: self.prefer.into(),
            ..Intent::default()
        };
        self.nodes(&mut intent, profile, snapshot)?;
        Ok(intent)
    }

    /// What is wanted of single nodes: what the profile says, and the flags.
    fn nodes(
        &self,
        intent: &mut Intent,
        profile: Option<&Profile>,
        snapshot: &Snapshot,
    ) -> Result<(), Failed> {
        if let Some(profile) = profile {
            intent.nodes.clone_from(&profile.nodes);
        }
        if intent.talos.is_none() {
            // Talos is left alone; that a node is held counts all the same.
            intent.nodes.retain(|_, own| own.hold);
        }
        let NodeArgs { nodes, hold } = self.nodes;
        let only: BTreeSet<NodeName> = nodes.iter().map(|node| named(node, snapshot)).collect();
        if let Some(node) = only.iter().find(|node| intent.holds(node)) {
            return Err(Failed::refused(
                format!("{node} is held in the profile"),
                "leave it out of --node, or remove its `hold` from the profile",
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
        let facts = self.installed(profile, snapshot);
        let url = url.or_else(|| one_factory(&facts));
        let url = url.unwrap_or_else(factory::usual);
        let base = one_schematic(&facts)?;
        let made = factory::with_extensions(&url, base.as_deref(), extensions, target).await;
        match made {
            Ok(schematic) => Ok(Installer::Schematic(schematic)),
            Err(error) => Err(Failed::refused(error.to_string(), error.advice())),
        }
    }
}

impl Wish<'_> {
    /// What runs on the nodes that get the installer of this wish.
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

/// The node that is meant by a name or an address. One that is not there is for the
/// planner to refuse, which knows those that are.
fn named(text: &str, snapshot: &Snapshot) -> NodeName {
    let name = NodeName::from(text);
    if snapshot.nodes.contains_key(&name) {
        return name;
    }
    let by_address = snapshot.nodes.iter().find(|(_, node)| node.address == text);
    by_address.map_or(name, |(name, _)| name.clone())
}

/// The Image Factory that built what these nodes run, if they tell one.
fn one_factory(facts: &[&TalosFacts]) -> Option<String> {
    let mut factories = facts.iter().map(|facts| facts.factory.as_ref());
    let first = factories.next()??;
    let url = factories.all(|other| other == Some(first)).then_some(first)?;
    factory::check_url(url).ok()
}

/// The schematic of these nodes. Where they differ, one list of extensions would
/// make them alike, which nobody asked for (rule 4).
fn one_schematic(facts: &[&TalosFacts]) -> Result<Option<String>, Failed> {
    let mut schematics: Vec<Option<String>> =
        facts.iter().map(|facts| facts.schematic.clone()).collect();
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
            "choose nodes of one schematic with --node, or make the schematic by hand and name it \
             with --schematic",
        )),
    }
}

/// What the profile says of the schematic and what runs, where they differ.
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
        "the profile names schematic {}, {} run another; what runs is kept, \
         --schematic changes it",
        wanted.get(..12).unwrap_or(wanted),
        text::first(&nodes, 1)
    ))
}

/// The nodes that the profile holds, for a rollback of Kubernetes.
pub fn held(profile: Option<&Profile>) -> std::collections::BTreeMap<NodeName, NodeIntent> {
    let nodes = profile.into_iter().flat_map(|profile| &profile.nodes);
    nodes.filter(|(_, own)| own.hold).map(|(name, own)| (name.clone(), own.clone())).collect()
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
            let wish = Wish {
                skip_minors: false,
                rollback: false,
                prefer: PreferArg::TalosFirst,
                installer: &InstallerArgs::default(),
                nodes: &nodes,
            };
            let mut intent = Intent { talos, ..Intent::default() };
            wish.nodes(&mut intent, Some(&profile), &snapshot)
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
    fn a_plan_takes_what_it_is_given() {
        let profile = profile();
        let both = flags(Some(13), Some(34));
        assert_eq!(Targets::of_plan(flags(None, None), Some(&profile)).unwrap(), both);
        let one = flags(Some(14), None);
        assert_eq!(Targets::of_plan(one.clone(), Some(&profile)).unwrap(), one);
        assert!(Targets::of_plan(flags(None, None), None).is_err());
    }
}
