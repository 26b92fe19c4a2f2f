//! Rule 4: the node's registry, platform, Secure Boot, schematic and extensions stay.

use upgrade_core::intent::{Installer, Intent};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Extension, TalosFacts};
use upgrade_core::step::Action;
use upgrade_planner::installer::{Choice, EMPTY_SCHEMATIC, choose, previous};
use upgrade_planner::report::{Note, Refusal, Report, Warning};

use crate::common::{SCHEMATIC, cluster, image, intent, plan_for, report_text, talos, version};

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
        let mut facts = node(Some(&configured), running.map(String::as_str), &[]);
        if configured.contains("nocloud") {
            (facts.platform, facts.secure_boot) = ("nocloud".to_owned(), true);
        }
        let (choice, report) = chosen(&facts, target, &keep());
        let choice = choice.unwrap_or_else(|| panic!("{}", report_text(&report)));
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
    let mut facts = node(
        Some(&format!("factory.lan/nocloud-installer/{SCHEMATIC}:v1.13.1")),
        Some(SCHEMATIC),
        &["gvisor"],
    );
    facts.platform = "nocloud".to_owned();
    let schematic = Intent { installer: Installer::Schematic(other.clone()), ..keep() };
    let choice = chosen(&facts, "1.13.9", &schematic).0.unwrap();
    assert_eq!(choice.image.to_string(), format!("factory.lan/nocloud-installer/{other}:v1.13.9"));
    assert_eq!((choice.schematic, choice.extensions), (Some(other.clone()), None));

    let own = image(&format!("mirror.lan/nocloud-installer/{other}:whatever"));
    let named = Intent { installer: Installer::Image(own), ..keep() };
    let choice = chosen(&facts, "1.13.9", &named).0.unwrap();
    assert_eq!(choice.image.to_string(), format!("mirror.lan/nocloud-installer/{other}:v1.13.9"));
    assert_eq!(choice.schematic, Some(other));
}

#[test]
fn what_runs_beats_the_platform_of_the_machine_config() {
    let plain = "ghcr.io/siderolabs/installer:v1.13.1".to_owned();
    let built = |kind: &str| format!("factory.lan/t/{kind}/{SCHEMATIC}:v1.13.1");
    for (configured, schematic, platform, secure_boot, expected) in [
        (built("installer"), SCHEMATIC, "nocloud", false, "factory.lan/t/nocloud-installer"),
        (built("metal-installer"), SCHEMATIC, "aws", false, "factory.lan/t/aws-installer"),
        (built("installer"), SCHEMATIC, "metal", true, "factory.lan/t/metal-installer-secureboot"),
        (
            built("metal-installer-secureboot"),
            SCHEMATIC,
            "metal",
            false,
            "factory.lan/t/metal-installer",
        ),
        (plain.clone(), EMPTY_SCHEMATIC, "hcloud", false, "factory.talos.dev/hcloud-installer"),
        (
            plain.clone(),
            EMPTY_SCHEMATIC,
            "metal",
            true,
            "factory.talos.dev/metal-installer-secureboot",
        ),
        (
            plain.clone(),
            SCHEMATIC,
            "digital-ocean",
            false,
            "factory.talos.dev/digital-ocean-installer",
        ),
    ] {
        let mut facts = node(Some(&configured), Some(schematic), &[]);
        facts.platform = platform.to_owned();
        facts.secure_boot = secure_boot;
        for target in ["1.13.9", "1.14.1"] {
            let (choice, report) = chosen(&facts, target, &keep());
            let choice = choice.unwrap_or_else(|| panic!("{configured}: {}", report_text(&report)));
            assert_eq!(choice.image.to_string(), format!("{expected}/{schematic}:v{target}"));
            assert_eq!(choice.schematic.as_deref(), Some(schematic));
            let warned = |it: &Warning| matches!(it, Warning::PlatformDiffers { .. });
            assert!(report.warnings.iter().any(warned), "{configured}: {report:?}");
        }
        // The image of a rollback is for what runs, too.
        let back = previous(&"cp-1".into(), &facts).unwrap();
        assert_eq!(back.to_string(), format!("{expected}/{schematic}:v1.13.1"));
    }
    // The official images of clouds have no schematic; the factory's empty one is the same.
    let mut cloud = node(Some(&plain), None, &[]);
    cloud.platform = "nocloud".to_owned();
    let choice = chosen(&cloud, "1.13.9", &keep()).0.unwrap();
    let expected = format!("factory.talos.dev/nocloud-installer/{EMPTY_SCHEMATIC}:v1.13.9");
    assert_eq!(choice.image.to_string(), expected);
}

#[test]
fn what_cannot_be_known_is_refused() {
    let mirror = "mirror.lan/siderolabs/installer:v1.13.1";
    let plain = "ghcr.io/siderolabs/installer:v1.13.1";
    for (configured, platform, secure_boot) in [
        (mirror, "nocloud", false),
        (mirror, "metal", true),
        ("mirror.lan/metal-installer:v1.13.1", "nocloud", false),
        // Whose keys the firmware trusts is not known.
        (plain, "metal", true),
        (plain, "equinixMetal", false),
        (plain, "", false),
    ] {
        let mut facts = node(Some(configured), None, &[]);
        facts.platform = platform.to_owned();
        facts.secure_boot = secure_boot;
        let (choice, report) = chosen(&facts, "1.13.9", &keep());
        assert_eq!(choice, None, "{configured} on {platform}");
        assert!(matches!(report.refusals[..], [Refusal::NoInstaller { .. }]), "{report:?}");
        // Named by the user, it is taken.
        let own = Intent { installer: Installer::Image(image("mirror.lan/ours:v1")), ..keep() };
        assert!(chosen(&facts, "1.13.9", &own).0.is_some());
    }
    // Its name tells that it fits.
    let mut facts = node(Some("mirror.lan/nocloud-installer:v1.13.1"), None, &[]);
    facts.platform = "nocloud".to_owned();
    let choice = chosen(&facts, "1.13.9", &keep()).0.unwrap();
    assert_eq!(choice.image.to_string(), "mirror.lan/nocloud-installer:v1.13.9");
    // Without a unified kernel image the installer writes the running platform.
    facts.installer = Some(image(&format!("factory.talos.dev/installer/{SCHEMATIC}:v1.13.1")));
    facts.schematic = Some(SCHEMATIC.to_owned());
    facts.platform = "equinixMetal".to_owned();
    assert!(chosen(&facts, "1.13.9", &keep()).0.is_none());
    facts.uki = false;
    let choice = chosen(&facts, "1.13.9", &keep()).0.unwrap();
    assert!(choice.image.to_string().starts_with("factory.talos.dev/installer/"));
}

#[test]
fn a_named_installer_for_something_else_is_refused() {
    let mut facts = node(None, Some(SCHEMATIC), &[]);
    facts.platform = "nocloud".to_owned();
    let built = |kind: &str| format!("factory.lan/{kind}/{SCHEMATIC}:v1.13.9");
    for (named, fits) in [
        (built("nocloud-installer"), true),
        (built("installer"), false),
        (built("nocloud-installer-secureboot"), false),
        ("ghcr.io/siderolabs/installer:v1.13.9".to_owned(), false),
        ("mirror.lan/ours:v1.13.9".to_owned(), true),
    ] {
        let intent = Intent { installer: Installer::Image(image(&named)), ..keep() };
        let (choice, report) = chosen(&facts, "1.13.9", &intent);
        assert_eq!(choice.is_some(), fits, "{named}: {report:?}");
        let refused = matches!(report.refusals[..], [Refusal::WrongInstaller { .. }]);
        assert_eq!(refused, !fits, "{named}: {report:?}");
    }
}

#[test]
fn a_private_factory_is_the_one_that_built_what_runs() {
    let plain = Some("ghcr.io/siderolabs/installer:v1.13.1");
    for (configured, url, expected) in [
        (None, "https://factory.lan:8443", "factory.lan:8443/metal-installer"),
        (plain, "https://registry.lan/factory/", "registry.lan/factory/metal-installer"),
    ] {
        let mut facts = node(configured, Some(SCHEMATIC), &[]);
        facts.factory = Some(url.to_owned());
        let choice = chosen(&facts, "1.14.1", &keep()).0.unwrap();
        assert_eq!(choice.image.to_string(), format!("{expected}/{SCHEMATIC}:v1.14.1"));
    }
}

#[test]
fn an_own_image_may_be_said_to_bring_the_extensions() {
    let own = "mirror.lan/ours:v1.13.1";
    let facts = node(Some(own), None, &["iscsi-tools"]);
    let expected = Some(vec!["iscsi-tools".to_owned()]);
    for installer in [Installer::Image(image(own)), Installer::Keep] {
        let intent = Intent { installer, keep_extensions: true, ..keep() };
        let (choice, report) = chosen(&facts, "1.13.9", &intent);
        let choice = choice.unwrap_or_else(|| panic!("{}", report_text(&report)));
        assert_eq!(choice.image.to_string(), "mirror.lan/ours:v1.13.9");
        assert_eq!((choice.schematic, choice.extensions), (None, expected.clone()));
    }
    // What is in the plain one is known.
    let plain = image("ghcr.io/siderolabs/installer:v1.13.1");
    let intent = Intent { installer: Installer::Image(plain), keep_extensions: true, ..keep() };
    let (choice, report) = chosen(&facts, "1.13.9", &intent);
    assert_eq!(choice, None);
    assert!(matches!(report.refusals[..], [Refusal::ExtensionsLost { .. }]), "{report:?}");
}

#[test]
fn containers_are_refused_at_planning() {
    let mut snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    talos(&mut snapshot, "worker-1").container = true;
    let policy = Policy::default();
    let report = plan_for(&snapshot, &intent(Some("1.14.4"), None), &policy).unwrap_err();
    assert_eq!(report.refusals, [Refusal::ContainerMode { node: "worker-1".into() }]);
    // Kubernetes is not Talos.
    assert!(plan_for(&snapshot, &intent(None, Some("1.33.13")), &policy).is_ok());
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
