//! Objects as users write them, and the units that they are.

use serde_json::{Value, json};
use spec_api::RECONCILE_MODE;
use spec_api::reference::ObjectReference;
use upgrade_core::snapshot::Role;
use upgrade_core::version::Version;

use super::*;
use crate::test_objects::{Hub, control_plane, machines, owned, single, worker};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn paths(problems: &[Problem]) -> Vec<(&str, &str)> {
    problems.iter().map(|it| (it.place.name.as_str(), it.place.path.as_str())).collect()
}

fn only_problem(hub: &Hub) -> Problem {
    let [problem] = hub.unit().problems.try_into().expect("one problem");
    problem
}

fn annotate(metadata: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, mode: &str) {
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(RECONCILE_MODE.to_owned(), mode.to_owned());
}

#[test]
fn control_plane_and_pools_are_one_unit() {
    let mut hub = Hub::usual();
    let spec = json!({"version": "v1.12.4", "metalSpec": machines(&["10.0.0.21"])});
    hub.workers.insert(0, worker("green", spec));
    let unit = hub.unit();
    assert_eq!(unit.problems, []);
    let of = |machine: &Machine| {
        let talos = machine.talos.as_ref().map(ToString::to_string);
        (machine.address.known().map(|it| it.to_string()), machine.pool.clone(), talos)
    };
    let text = |text: &str| Some(text.to_owned());
    let expected: Vec<_> = [
        ("10.0.0.1", None, "1.13.9"),
        ("10.0.0.2", None, "1.13.9"),
        ("10.0.0.3", None, "1.13.9"),
        ("10.0.0.11", text("blue"), "1.13.9"),
        ("10.0.0.12", text("blue"), "1.13.9"),
        ("10.0.0.21", text("green"), "1.12.4"),
    ]
    .into_iter()
    .map(|(address, pool, talos)| (text(address), pool, text(talos)))
    .collect();
    assert_eq!(unit.machines.iter().map(of).collect::<Vec<_>>(), expected);
    let roles = unit.machines.iter().map(|machine| machine.role);
    assert_eq!(roles.filter(|role| *role == Role::ControlPlane).count(), 3);
    assert_eq!(unit.kubernetes, Some(Version::new(1, 35, 0)));
    assert_eq!(unit.control_planes().count(), 3);
    assert_eq!(unit.machines[3].place.to_string(), "TalosWorker blue, spec.metalSpec.machines[0]");
}

#[test]
fn others_objects_are_no_part_of_it() {
    let mut hub = Hub::usual();
    let list = || json!({"metalSpec": machines(&["10.0.0.31"])});
    let mut elsewhere = worker("elsewhere", list());
    elsewhere.metadata.namespace = Some("other".to_owned());
    let mut anothers = worker("anothers", list());
    anothers.spec.control_plane_ref.as_mut().expect("one").name = "stage".to_owned();
    let mut unnamed = worker("unnamed", list());
    unnamed.spec.control_plane_ref = None;
    let mut leaving = worker("leaving", list());
    leaving.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
    hub.workers.extend([elsewhere, anothers, unnamed, leaving]);
    hub.machines.push(single(
        "stray",
        json!({"endpoint": "10.0.0.41",
        "controlPlaneRef": {"name": "prod", "namespace": "other"}}),
    ));
    let mut orphan = owned("blue", "TalosWorker", "10.0.0.11");
    orphan.metadata.owner_references.as_mut().expect("one")[0].uid = "uid-of-before".to_owned();
    hub.machines.push(orphan);
    let unit = hub.unit();
    assert_eq!((unit.machines.len(), unit.pools.len()), (5, 1));
    assert!(unit.machines.iter().all(|machine| machine.object.is_none()));
    assert!(unit.leftover.is_empty());
}

#[test]
fn a_machine_has_its_own_version_and_image_or_its_parents() {
    let mut hub = Hub::usual();
    let list = json!({
        "machineSpec": {"image": "ghcr.io/a/installer"},
        "machines": [
            {"address": "10.0.0.1"},
            {"address": "10.0.0.2", "version": "v1.12.4"},
            {"address": "10.0.0.3", "image": "ghcr.io/b/installer:v1.13.9", "version": ""},
        ],
    });
    hub.control_planes[0] = control_plane("prod", json!({"version": "v1.13.9", "metalSpec": list}));
    let unit = hub.unit();
    assert_eq!(unit.problems, []);
    let image = |index: usize| unit.machines[index].image.as_ref().map(ToString::to_string);
    assert_eq!(image(0).as_deref(), Some("ghcr.io/a/installer:v1.13.9"));
    assert_eq!(image(1).as_deref(), Some("ghcr.io/a/installer:v1.12.4"));
    assert_eq!(image(2).as_deref(), Some("ghcr.io/b/installer:v1.13.9"));
    assert_eq!(image(3), None, "another parent's");
    assert_eq!(unit.machines[1].talos, Some(Version::new(1, 12, 4)));
    assert_eq!(unit.kubernetes, None, "none is written");
}

#[test]
fn absent_versions_ask_for_nothing() {
    // Rule 13: a version that no user wrote starts no upgrade.
    let list = json!({"machineSpec": {"image": "ghcr.io/a/installer:v1.10.3"},
        "machines": [{"address": "10.0.0.1"}]});
    let object = control_plane("prod", json!({"version": "", "metalSpec": list}));
    let hub = Hub { control_planes: vec![object], ..Hub::default() };
    let unit = hub.unit();
    assert_eq!((unit.talos.as_ref(), unit.kubernetes.as_ref()), (None, None));
    assert_eq!((unit.machines[0].talos.as_ref(), unit.machines[0].image.as_ref()), (None, None));
    assert_eq!(unit.problems, [], "an image without a version is not installed");
}

#[test]
fn machines_that_refer_to_a_parent_join_it() {
    let mut hub = Hub::usual();
    hub.machines.extend([
        single(
            "lone-worker",
            json!({"endpoint": "10.0.0.13", "version": "v1.12.0",
            "workerRef": {"kind": "TalosWorker", "name": "blue", "namespace": "team"}}),
        ),
        single(
            "lone-cp",
            json!({"endpoint": "fd00::4", "version": "v1.12.0",
            "machineSpec": {"image": "ghcr.io/a/installer"}, "controlPlaneRef": {"name": "prod"}}),
        ),
    ]);
    let unit = hub.unit();
    assert_eq!(unit.problems, []);
    let lone = |name: &str| {
        let found = unit.machines.iter().find(|it| it.object.as_deref() == Some(name));
        found.expect("part of the unit").clone()
    };
    let (worker, control_plane) = (lone("lone-worker"), lone("lone-cp"));
    assert_eq!((worker.role, worker.pool.as_deref()), (Role::Worker, Some("blue")));
    assert_eq!(worker.talos, Some(Version::new(1, 13, 9)), "the parent's goes first");
    assert_eq!(control_plane.address.known(), Some(ip("fd00::4")));
    let image = control_plane.image.map(|image| image.to_string());
    assert_eq!(image.as_deref(), Some("ghcr.io/a/installer:v1.13.9"));
    hub.workers[0].spec.version = None;
    let unit = hub.unit();
    let worker = unit.machines.iter().find(|it| it.object.as_deref() == Some("lone-worker"));
    assert_eq!(worker.expect("there").talos, Some(Version::new(1, 12, 0)), "its own is left");
}

#[test]
fn owned_machines_belong_to_their_entries() {
    let mut hub = Hub::usual();
    hub.machines.extend([
        owned("blue", "TalosWorker", "10.0.0.11"),
        owned("prod", "TalosControlPlane", "10.0.0.2"),
        owned("blue", "TalosWorker", "10.0.0.19"),
    ]);
    let unit = hub.unit();
    assert_eq!(unit.problems, []);
    assert_eq!(unit.machines.len(), 5, "an owned object adds no machine");
    assert_eq!(unit.machines[1].object.as_deref(), Some("prod-10.0.0.2"));
    assert_eq!(unit.machines[3].object.as_deref(), Some("blue-10.0.0.11"));
    assert_eq!(unit.machines[1].talos, Some(Version::new(1, 13, 9)), "not what its spec says");
    assert_eq!(unit.leftover, ["blue-10.0.0.19"]);
}

#[test]
fn pools_and_machines_are_held_by_their_mode() {
    // Rule 12.
    let mut hub = Hub::usual();
    hub.machines.push(owned("prod", "TalosControlPlane", "10.0.0.2"));
    annotate(&mut hub.machines[0].metadata, "disable");
    annotate(&mut hub.workers[0].metadata, "DryRun");
    let unit = hub.unit();
    let holds: Vec<_> = unit
        .machines
        .iter()
        .map(|machine| machine.hold.as_ref().map(|place| place.name.as_str()))
        .collect();
    assert_eq!(holds, [None, Some("prod-10.0.0.2"), None, Some("blue"), Some("blue")]);
    annotate(&mut hub.control_planes[0].metadata, "disable");
    assert_eq!(hub.unit().mode, ReconcileMode::Disable);
    assert_eq!(hub.unit().machines[0].hold, None, "the whole unit is decided on at once");
}

#[test]
fn references_are_followed() {
    let list = json!({"machines": [
        {"machineRef": {"kind": "Server", "name": "a", "fieldPath": ".status.ip"}},
        {"machineRef": {"kind": "Server", "name": "b", "fieldPath": ".status.ip"}},
        {"machineRef": {"kind": "Server", "name": "c", "fieldPath": ".status.ip"}},
    ]});
    let hub = Hub {
        control_planes: vec![control_plane(
            "prod",
            json!({"version": "v1.13.9", "metalSpec": list}),
        )],
        ..Hub::default()
    };
    let resolve = |reference: &ObjectReference| match reference.name.as_str() {
        "a" => Resolution::Found("fd00::1".to_owned()),
        "b" => Resolution::Found("soon".to_owned()),
        _ => Resolution::Missing("it has no .status.ip".to_owned()),
    };
    let unit = build(&hub.objects(), &resolve);
    let addresses: Vec<_> = unit.machines.iter().map(|machine| machine.address.known()).collect();
    assert_eq!(addresses, [Some(ip("fd00::1")), None, None]);
    assert_eq!(
        paths(&unit.problems),
        [
            ("prod", "spec.metalSpec.machines[1].machineRef"),
            ("prod", "spec.metalSpec.machines[2].machineRef"),
        ]
    );
    assert!(matches!(&unit.problems[0].kind, ProblemKind::NotAnAddress { text } if text == "soon"));
    let missing = &unit.problems[1];
    assert!(
        matches!(&missing.kind, ProblemKind::NotResolved { target, .. } if target == "Server c")
    );
    assert!(missing.is_passing() && !unit.problems[0].is_passing());
}

#[test]
fn one_machine_in_two_entries_is_a_conflict() {
    // Rule 1: the same control plane twice would be two.
    let mut hub = Hub::usual();
    hub.workers[0] = worker(
        "blue",
        json!({"version": "v1.13.9", "metalSpec": machines(&["10.0.0.11", "10.0.0.2"])}),
    );
    let problem = only_problem(&hub);
    assert_eq!(problem.place.to_string(), "TalosWorker blue, spec.metalSpec.machines[1]");
    let ProblemKind::ListedTwice { address, other } = &problem.kind else { panic!("{problem}") };
    assert_eq!((*address, other.name.as_str()), (ip("10.0.0.2"), "prod"));
    assert_eq!(problem.reason(), spec_api::condition::Reason::Conflict);
    // One address in two spellings, by an object that only refers to its parent.
    let mut hub = Hub::usual();
    hub.control_planes[0] =
        control_plane("prod", json!({"metalSpec": {"machines": [{"address": "fd00:0::0a"}]}}));
    let spec = json!({"endpoint": "fd00::a", "controlPlaneRef": {"name": "prod"}});
    hub.machines.push(single("again", spec));
    assert!(matches!(only_problem(&hub).kind, ProblemKind::ListedTwice { .. }));
}

#[test]
fn one_machine_in_two_units_is_a_conflict_of_both() {
    // Rule 9: each unit has a lease of its own.
    let mut hub = Hub::usual();
    let spec = json!({"version": "v1.13.9", "metalSpec": machines(&["10.0.0.3", "10.0.9.1"])});
    hub.control_planes.push(control_plane("stage", spec));
    let resolve = |_: &ObjectReference| Resolution::Missing(String::new());
    let [prod, stage] = [0, 1].map(|index| build(&hub.objects_of(index), &resolve));
    assert_eq!(stage.machines.len(), 2, "pools of another control plane are not its own");
    let mut claims = Claims::default();
    assert!(claims.set(&prod).is_empty());
    assert_eq!(claims.conflicts(&prod), []);
    assert_eq!(claims.set(&stage), [prod.key.clone()].into(), "the other one has to know");
    for (unit, other, path) in [
        (&prod, "stage", "spec.metalSpec.machines[2]"),
        (&stage, "prod", "spec.metalSpec.machines[0]"),
    ] {
        let [problem] = claims.conflicts(unit).try_into().expect("one conflict");
        assert_eq!(problem.place.path, path);
        let ProblemKind::OtherUnit { address, namespace, name } = problem.kind else {
            panic!("{problem}")
        };
        assert_eq!((address, namespace.as_str(), name.as_str()), (ip("10.0.0.3"), "team", other));
    }
    assert!(claims.set(&stage).is_empty(), "nothing changed");
    assert_eq!(claims.remove(&stage.key), [prod.key.clone()].into());
    assert_eq!(claims.conflicts(&prod), []);
    assert!(claims.remove(&stage.key).is_empty());
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let version = |path: &'static str, spec: Value| (path, control_plane("prod", spec));
    let list = |machine: Value| json!({"machines": [machine]});
    let one = || machines(&["10.0.0.1"]);
    for (path, object) in [
        version("spec.version", json!({"version": "latest", "metalSpec": one()})),
        version("spec.kubeVersion", json!({"kubeVersion": "1.35", "metalSpec": one()})),
        version(
            "spec.metalSpec.machines[0].version",
            json!({"metalSpec": list(json!({"address": "10.0.0.1", "version": "v2"}))}),
        ),
    ] {
        let problem = only_problem(&Hub { control_planes: vec![object], ..Hub::default() });
        assert_eq!(problem.place.path, path);
        assert!(matches!(problem.kind, ProblemKind::NotAVersion(_)), "{problem}");
    }
    for (machine, path) in [
        (json!({"address": "10.0.0.999"}), "spec.metalSpec.machines[0].address"),
        (json!({}), "spec.metalSpec.machines[0].address"),
    ] {
        let object = control_plane("prod", json!({"metalSpec": list(machine)}));
        let problem = only_problem(&Hub { control_planes: vec![object], ..Hub::default() });
        assert_eq!(problem.place.path, path);
        assert!(matches!(problem.kind, ProblemKind::NotAnAddress { .. }), "{problem}");
    }
}

#[test]
fn an_image_of_another_version_is_refused() {
    let own = json!({"address": "10.0.0.1", "image": "ghcr.io/a/installer:v1.10.3"});
    let common = json!({"machineSpec": {"image": "ghcr.io/a/installer:v1.10.3"},
        "machines": [{"address": "10.0.0.1"}, {"address": "10.0.0.2"}]});
    for (list, path) in [
        (json!({"machines": [own]}), "spec.metalSpec.machines[0].image"),
        (common, "spec.metalSpec.machineSpec.image"),
    ] {
        let object = control_plane("prod", json!({"version": "v1.13.0", "metalSpec": list}));
        let hub = Hub { control_planes: vec![object], ..Hub::default() };
        let problem = only_problem(&hub);
        assert_eq!(problem.place.path, path);
        let ProblemKind::OtherTag { tag, wanted } = &problem.kind else { panic!("{problem}") };
        assert_eq!((tag.as_str(), wanted), ("v1.10.3", &Version::new(1, 13, 0)));
        assert!(hub.unit().machines.iter().all(|machine| machine.image.is_none()));
    }
}

#[test]
fn other_modes_are_not_supported() {
    for mode in ["container", "cloud", "Metal", ""] {
        let object = control_plane("prod", json!({"mode": mode, "version": "v1.13.9"}));
        let problem = only_problem(&Hub { control_planes: vec![object], ..Hub::default() });
        assert_eq!(problem.place.path, "spec.mode");
        assert_eq!(problem.kind, ProblemKind::UnsupportedMode { mode: mode.to_owned() });
    }
    let mut hub = Hub::usual();
    hub.workers[0].spec.mode = "container".to_owned();
    assert_eq!(only_problem(&hub).place.name, "blue");
    let object = control_plane("prod", json!({"metalSpec": {"machines": []}}));
    let problem = only_problem(&Hub { control_planes: vec![object], ..Hub::default() });
    assert_eq!(problem.kind, ProblemKind::NoMachines);
}

#[test]
fn the_order_of_the_hub_does_not_matter() {
    let mut hub = Hub::usual();
    hub.workers.push(worker("amber", json!({"metalSpec": machines(&["10.0.0.41"])})));
    hub.machines.extend(["b", "a"].map(|name| {
        single(
            name,
            json!({"endpoint": format!("fd00::{name}"),
            "workerRef": {"name": "blue"}}),
        )
    }));
    let unit = hub.unit();
    hub.workers.reverse();
    hub.machines.reverse();
    assert_eq!(hub.unit(), unit);
}
