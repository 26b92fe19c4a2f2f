//! `docs/plan-json.md` knows every code, step and group that can be printed.

use upgrade_core::plan::Group;
use upgrade_core::step::Action;
use upgrade_planner::report::{Constraint, Note, Refusal, Warning};

const DOCUMENT: &str = include_str!("../../../../docs/plan-json.md");

/// The part of the document below a heading.
fn section(heading: &str) -> &'static str {
    let start = DOCUMENT.find(heading).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let body = &DOCUMENT[start + heading.len()..];
    body.find("\n#").map_or(body, |end| &body[..end])
}

/// `NoPath` to `no-path`, as serde does it.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The codes of an enum. The match has no other arm, so that a variant that is
/// missing here breaks the build.
macro_rules! codes {
    ($kind:ident { $($variant:ident),* $(,)? }) => {{
        fn _complete(value: &$kind) {
            match value {
                $($kind::$variant { .. } => {})*
            }
        }
        [$(kebab(stringify!($variant))),*]
    }};
}

fn assert_listed(heading: &str, codes: &[String]) {
    let section = section(heading);
    for code in codes {
        assert!(
            section.lines().any(|line| line.starts_with(&format!("| `{code}` |"))),
            "{code} is not documented below {heading:?}"
        );
    }
    let rows = section.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows - 1, codes.len(), "{heading:?} lists codes that are not there any more");
}

#[test]
fn every_code_is_documented() {
    assert_listed(
        "### Refusals",
        &codes!(Refusal {
            BadPolicy,
            NoTarget,
            NoExternalUpgrader,
            NoControlPlane,
            Downgrade,
            NoWayBack,
            KubernetesRollback,
            UnknownMinor,
            HostTooOld,
            EtcdDowngrade,
            NoPath,
            NodeUnknown,
            NoMachine,
            KubernetesAway,
            KubernetesUnknown,
            ControlPlaneDown,
            EtcdUnsafe,
            Outage,
            NoRoom,
            ExtensionsLost,
            NoInstaller,
            WrongInstaller,
            ContainerMode,
            Armed,
            RollbackArmed,
            NoSuchNode,
            NodeDowngrade,
            OtherTag,
            HeldControlPlane,
            HeldKubelet,
            EtcdApart,
        }),
    );
    assert_listed(
        "### Warnings",
        &codes!(Warning {
            SkipsMinor,
            SkipsPatch,
            ChecksSkipped,
            StartsUnsupported,
            PairsUnchecked,
            Prerelease,
            Unreleased,
            Broken,
            Outage,
            EtcdNotWell,
            EvenControlPlanes,
            NodeDown,
            NotReady,
            NoMachine,
            Foreign,
            StaysBehind,
            MixedControlPlanes,
            ExtensionsDropped,
            SchematicDiffers,
            PlatformDiffers,
            MirrorUnchecked,
            PatchUnknown,
            Prunes,
            PruneNeedsConsent,
            PruneHeld,
            DrainUnchecked,
            BudgetNeverAllows,
            BudgetAllowsNone,
            SeveralBudgets,
            DrainHalts,
            PodsLost,
            NowhereToGo,
            CapacityLacks,
        }),
    );
    assert_listed(
        "### Notes",
        &codes!(Note {
            AlreadyThere,
            NewerPatch,
            DigestReplaced,
            PlainInstallerGone,
            DrainLeftOut,
            Skipped,
            Held,
            OwnVersion,
        }),
    );
    assert_listed("### Constraints", &codes!(Constraint { Pair, UnknownTalos, Host, Patch }));
}

#[test]
fn codes_are_what_serde_writes() {
    let code = |value: serde_json::Value| value["code"].as_str().unwrap_or_default().to_owned();
    let refusal = Refusal::Outage { control_planes: 1 };
    assert_eq!(code(serde_json::to_value(refusal).unwrap()), kebab("Outage"));
    assert_eq!(code(serde_json::to_value(Refusal::NoTarget).unwrap()), kebab("NoTarget"));
    let warning = Warning::EvenControlPlanes { control_planes: 4 };
    assert_eq!(code(serde_json::to_value(warning).unwrap()), kebab("EvenControlPlanes"));
    let note = Note::DrainLeftOut { node: "cp-1".into() };
    assert_eq!(code(serde_json::to_value(note).unwrap()), kebab("DrainLeftOut"));
}

#[test]
fn every_step_and_group_is_documented() {
    let hops = section("### Hops");
    for action in Action::ALL {
        assert!(hops.contains(&format!("`{action}`")), "{action}");
    }
    for group in codes!(Group { Prepare, ControlPlane, Workers, Cluster }) {
        assert!(hops.contains(&format!("| `{group}` |")), "{group}");
    }
}

/// Every field of an answer is named in the document.
#[test]
fn every_field_is_documented() {
    fn visit(value: &serde_json::Value, path: &str) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    let written = [format!("`{name}`"), format!("`{name}."), format!(".{name}`")];
                    assert!(
                        written.iter().any(|written| DOCUMENT.contains(written)),
                        "{path}.{name} is not documented"
                    );
                    visit(value, &format!("{path}.{name}"));
                }
            }
            serde_json::Value::Array(items) => {
                for item in items {
                    visit(item, path);
                }
            }
            _ => {}
        }
    }
    for line in [
        "plan --offline --talos-from 1.12.4 --talos-to 1.14.0 --kubernetes-from 1.35.2 \
         --kubernetes-to 1.37.0 --control-planes 1 --workers 1 --accept-outage -o json",
        "plan --offline --talos-from 1.13.9 --talos-to 1.13.9 --kubernetes-from 1.36.3 \
         --kubernetes-to 1.37.2 --control-planes 1 -o json",
        "matrix -o json",
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_talos-operator"))
            .args(line.split_whitespace())
            .output()
            .unwrap();
        visit(&serde_json::from_slice(&output.stdout).unwrap(), "");
    }
}
