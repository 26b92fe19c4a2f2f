//! Rule 4: the node's registry, platform, schematic and extensions stay.

use upgrade_core::intent::{Installer, Intent};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Extension, TalosFacts};
use upgrade_core::step::Action;
use upgrade_planner::installer::{Choice, EMPTY_SCHEMATIC, choose};
use upgrade_planner::report::{Note, Refusal, Report, Warning};

use crate::common::{SCHEMATIC, cluster, image, intent, plan_for, talos, told, version};

fn node(installer: Option<&str>, schematic: Option<&str>, extensions: &[&str]) -> TalosFacts {
    let mut snapshot = cluster(1, 0, "1.13.1", "1.33.4");
    let facts = talos(&mut snapshot, "cp-1");
    facts.installer = installer.map(image);
    facts.schematic = schematic.map(ToOwned::to_owned);
    facts.extensions = extensions
        .iter()
        .map(|name| Extension { name: (*name).to_owned(), version: "1".to_owned() })
        .collect();
    facts.clone()
}

fn chosen(facts: &TalosFacts, target: &str, intent: &Intent) -> (Option<Choice>, Report) {
    let mut report = Report::default();
    let choice = choose(&"cp-1".into(), facts, &version(target), intent, &mut report);
    (choice, report)
}

fn keep() -> Intent {
    intent(Some("1.13.9"), None)
}

#[test]
fn what_the_node_has_stays_and_the_tag_changes() {
    let other = "a".repeat(64);
    for (configured, running, target, expected) in [
        // Factory, legacy and current names, mirrors, Secure Boot, platforms.
        (
            format!("factory.talos.dev/metal-installer/{other}:v1.13.1"),
            Some(&other),
            "1.13.9",
            format!("factory.talos.dev/metal-installer/{other}:v1.13.9"),
        ),
        (
            format!("factory.talos.dev/installer/{other}:v1.13.1"),
            Some(&other),
            "1.14.1",
            format!("factory.talos.dev/installer/{other}:v1.14.1"),
        ),
        (
            format!("factory.lan:8443/t/nocloud-installer-secureboot/{other}:v1.13.1"),
            Some(&other),
            "1.13.9",
            format!("factory.lan:8443/t/nocloud-installer-secureboot/{other}:v1.13.9"),
        ),
        // Plain, as long as it is published.
        (
            "ghcr.io/siderolabs/installer:v1.13.1".to_owned(),
            None,
            "1.13.9",
            "ghcr.io/siderolabs/installer:v1.13.9".to_owned(),
        ),
        (
            "ghcr.io/siderolabs/installer:v1.13.1".to_owned(),
            None,
            "1.14.0",
            format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:v1.14.0"),
        ),
        (
            "ghcr.io/siderolabs/installer:v1.13.1".to_owned(),
            None,
            "1.14.0-rc.1",
            format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:v1.14.0-rc.1"),
        ),
        // A mirror of it is the user's own business, with a warning.
        (
            "mirror.lan/siderolabs/installer:v1.13.1".to_owned(),
            None,
            "1.14.1",
            "mirror.lan/siderolabs/installer:v1.14.1".to_owned(),
        ),
        // What runs beats what the config says.
        (
            "ghcr.io/siderolabs/installer:v1.13.1".to_owned(),
            Some(&other),
            "1.13.9",
            format!("factory.talos.dev/metal-installer/{other}:v1.13.9"),
        ),
        (
            format!("factory.talos.dev/metal-installer/{SCHEMATIC}:v1.13.1"),
            Some(&other),
            "1.13.9",
            format!("factory.talos.dev/metal-installer/{other}:v1.13.9"),
        ),
    ] {
        let facts = node(Some(&configured), running.map(String::as_str), &[]);
        let (choice, report) = chosen(&facts, target, &keep());
        let choice = choice.unwrap_or_else(|| panic!("{}", told(&report)));
        assert_eq!(choice.image.to_string(), expected, "{configured}");
    }
}

#[test]
fn remarks_say_what_was_done() {
    let digest = format!("factory.talos.dev/metal-installer/{SCHEMATIC}:v1.13.1@sha256:abc");
    let (choice, report) = chosen(&node(Some(&digest), Some(SCHEMATIC), &[]), "1.13.9", &keep());
    assert!(choice.unwrap().image.digest.is_none());
    assert!(matches!(report.notes[..], [Note::DigestReplaced { .. }]), "{report:?}");

    let plain = node(Some("ghcr.io/siderolabs/installer:v1.13.1"), None, &[]);
    let (_, report) = chosen(&plain, "1.14.1", &keep());
    assert!(matches!(report.notes[..], [Note::PlainInstallerGone { .. }]), "{report:?}");

    let mirror = node(Some("mirror.lan/siderolabs/installer:v1.13.1"), None, &[]);
    let (_, report) = chosen(&mirror, "1.14.1", &keep());
    assert!(matches!(report.warnings[..], [Warning::MirrorUnchecked { .. }]), "{report:?}");

    let differs =
        node(Some("ghcr.io/siderolabs/installer:v1.13.1"), Some(SCHEMATIC), &["iscsi-tools"]);
    let (choice, report) = chosen(&differs, "1.13.9", &keep());
    let choice = choice.unwrap();
    assert_eq!(choice.extensions, Some(vec!["iscsi-tools".to_owned()]));
    assert_eq!(choice.schematic.as_deref(), Some(SCHEMATIC));
    assert!(matches!(report.warnings[..], [Warning::SchematicDiffers { .. }]), "{report:?}");
}

#[test]
fn extensions_are_not_lost_without_consent() {
    let facts =
        node(Some("ghcr.io/siderolabs/installer:v1.13.1"), None, &["iscsi-tools", "gvisor"]);
    for target in ["1.13.9", "1.14.1"] {
        let (choice, report) = chosen(&facts, target, &keep());
        assert_eq!(choice, None);
        let [Refusal::ExtensionsLost { extensions, .. }] = report.refusals.as_slice() else {
            panic!("{report:?}");
        };
        assert_eq!(extensions, &["iscsi-tools", "gvisor"]);
        let consent = Intent { drop_extensions: true, ..keep() };
        let (choice, report) = chosen(&facts, target, &consent);
        assert_eq!(choice.unwrap().extensions, Some(vec![]));
        assert!(matches!(report.warnings[0], Warning::ExtensionsDropped { .. }), "{report:?}");
    }
    // An image of the user's own without a schematic is no better.
    let own = Intent { installer: Installer::Image(image("mirror.lan/installer:any")), ..keep() };
    assert_eq!(chosen(&facts, "1.13.9", &own).0, None);
}

#[test]
fn the_user_may_name_another() {
    let other = "b".repeat(64);
    let facts = node(
        Some(&format!("factory.lan/nocloud-installer/{SCHEMATIC}:v1.13.1")),
        Some(SCHEMATIC),
        &["gvisor"],
    );
    let schematic = Intent { installer: Installer::Schematic(other.clone()), ..keep() };
    let choice = chosen(&facts, "1.13.9", &schematic).0.unwrap();
    assert_eq!(choice.image.to_string(), format!("factory.lan/nocloud-installer/{other}:v1.13.9"));
    assert_eq!((choice.schematic, choice.extensions), (Some(other.clone()), None));

    let own = image(&format!("mirror.lan/metal-installer/{other}:whatever"));
    let named = Intent { installer: Installer::Image(own), ..keep() };
    let choice = chosen(&facts, "1.13.9", &named).0.unwrap();
    assert_eq!(choice.image.to_string(), format!("mirror.lan/metal-installer/{other}:v1.13.9"));
    assert_eq!(choice.schematic, Some(other));
}

#[test]
fn platform_and_secure_boot_are_the_nodes_own() {
    let mut facts = node(None, Some(SCHEMATIC), &[]);
    facts.platform = "nocloud".to_owned();
    facts.secure_boot = true;
    let choice = chosen(&facts, "1.14.1", &keep()).0.unwrap();
    let expected = format!("factory.talos.dev/nocloud-installer-secureboot/{SCHEMATIC}:v1.14.1");
    assert_eq!(choice.image.to_string(), expected);

    let (choice, report) = chosen(&node(None, None, &[]), "1.14.1", &keep());
    assert_eq!(choice, None, "unknown is unsafe");
    assert!(matches!(report.refusals[..], [Refusal::NoInstaller { .. }]));
}

#[test]
fn another_schematic_alone_is_a_hop_of_its_own() {
    let mut snapshot = cluster(3, 2, "1.13.9", "1.33.4");
    let wanted = "b".repeat(64);
    // One node has it already.
    talos(&mut snapshot, "worker-1").schematic = Some(wanted.clone());
    let intent =
        Intent { installer: Installer::Schematic(wanted.clone()), ..intent(Some("1.13.9"), None) };
    let planned = plan_for(&snapshot, &intent, &Policy::default()).expect("a plan");
    let [hop] = planned.plan.hops.as_slice() else { panic!("{:#?}", planned.plan.hops) };
    assert_eq!(hop.change.from(), hop.change.to());
    let installs = planned.plan.steps().filter(|step| step.action == Action::Install);
    let nodes: Vec<_> = installs.filter_map(|step| step.node).collect();
    assert_eq!(nodes.len(), 4);
    assert!(!nodes.contains(&"worker-1".into()));
    // Without a wish there is nothing to do.
    let keep = Intent { installer: Installer::Keep, ..intent };
    let planned = plan_for(&snapshot, &keep, &Policy::default()).expect("a plan");
    assert!(planned.plan.is_empty());
}
