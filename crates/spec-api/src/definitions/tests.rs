//! The definitions against the types, against each other, and against tables of objects that
//! the tests on a real API server use too.

use kube::Resource;
use serde_json::{Value, json};
use upgrade_api::Definition;

use super::*;
use crate::backup::{
    Age, BackupSpec, BackupStatus, DeletionPolicy, Encryption, EncryptionType, S3,
    ServerSideEncryption, Verify,
};
use crate::cluster::{ClusterSpec, ClusterStatus};
use crate::condition::Condition;
use crate::control_plane::{ControlPlaneSpec, ControlPlaneStatus};
use crate::int_or_string::IntOrString;
use crate::machine::{TalosMachineSpec, TalosMachineStatus};
use crate::reference::{KeyReference, NameReference, ObjectReference};
use crate::schedule::{ScheduleSpec, ScheduleStatus};
use crate::spec::{MachineEntry, MachineSettings, MetalSpec, Mode, RollingUpdate, RolloutStrategy};
use crate::state::{ControlPlaneState, MachineState, WorkerState};
use crate::worker::{WorkerSpec, WorkerStatus};
use crate::{
    TalosCluster, TalosClusterAddon, TalosClusterAddonRelease, TalosControlPlane, TalosEtcdBackup,
    TalosEtcdBackupSchedule, TalosMachine, TalosWorker,
};

const ACCEPTED: &str = include_str!("../../tests/objects/accepted.yaml");
const REFUSED: &str = include_str!("../../tests/objects/refused.yaml");

fn all() -> impl Iterator<Item = Definition> {
    DEFINITIONS.into_iter().chain(ADDON_DEFINITIONS)
}

/// The definition of a kind.
#[track_caller]
fn of(kind: &str) -> testkit::Definition {
    let named = format!("    kind: {kind}\n");
    let found = all().find(|it| it.text.contains(&named)).expect("a definition of the kind");
    testkit::Definition::read(found.text)
}

fn has_its_own<K: Resource<DynamicType = ()>>() {
    let name = format!("{}.{}", K::plural(&()), K::group(&()));
    of(&K::kind(&())).is_for::<K>(&name);
    assert!(all().any(|it| it.name == name), "{name}");
}

#[test]
fn definitions_and_types_agree_on_names() {
    has_its_own::<TalosCluster>();
    has_its_own::<TalosControlPlane>();
    has_its_own::<TalosWorker>();
    has_its_own::<TalosMachine>();
    has_its_own::<TalosEtcdBackup>();
    has_its_own::<TalosEtcdBackupSchedule>();
    has_its_own::<TalosClusterAddon>();
    has_its_own::<TalosClusterAddonRelease>();
    for names in [DEFINITIONS.map(|it| it.name).as_slice(), &ADDON_DEFINITIONS.map(|it| it.name)] {
        assert!(names.is_sorted(), "{names:?}");
    }
}

#[test]
fn objects_are_accepted_and_refused() {
    let accepted: Vec<Value> = serde_saphyr::from_multiple(ACCEPTED).expect("YAML");
    for object in &accepted {
        let refusals = of(object["kind"].as_str().expect("a kind")).refusals(object);
        assert!(refusals.is_empty(), "{}: {refusals:?}", object["metadata"]["name"]);
    }
    let refused: Vec<Value> = serde_saphyr::from_str(REFUSED).expect("YAML");
    for object in &refused {
        let refusals = of(object["kind"].as_str().expect("a kind")).refusals(object);
        match object["schema"].as_str() {
            // One reason each, or the table proves less than it says.
            Some(field) => assert!(
                refusals.len() == 1 && refusals[0].starts_with(&format!("{field} ")),
                "{object:#} {refusals:?}"
            ),
            None => assert!(refusals.is_empty(), "{object:#} {refusals:?}"),
        }
    }
}

/// Every accepted object can be read by the type of its kind.
#[test]
fn what_is_accepted_can_be_read() {
    fn read<K: serde::de::DeserializeOwned>(object: &Value) -> Result<(), serde_json::Error> {
        serde_json::from_value::<K>(object.clone()).map(drop)
    }
    let mut accepted: Vec<Value> = serde_saphyr::from_multiple(ACCEPTED).expect("YAML");
    for object in &mut accepted {
        // An API server stores no null.
        object.as_object_mut().expect("an object").retain(|_, field| !field.is_null());
        let read = match object["kind"].as_str().expect("a kind") {
            "TalosCluster" => read::<TalosCluster>(object),
            "TalosControlPlane" => read::<TalosControlPlane>(object),
            "TalosWorker" => read::<TalosWorker>(object),
            "TalosMachine" => read::<TalosMachine>(object),
            "TalosEtcdBackup" => read::<TalosEtcdBackup>(object),
            "TalosEtcdBackupSchedule" => read::<TalosEtcdBackupSchedule>(object),
            "TalosClusterAddon" => read::<TalosClusterAddon>(object),
            "TalosClusterAddonRelease" => read::<TalosClusterAddonRelease>(object),
            kind => panic!("{kind} has no type"),
        };
        read.unwrap_or_else(|error| panic!("{}: {error}", object["metadata"]["name"]));
    }
}

/// What several definitions have in common is repeated in each, since users read them; it must
/// not differ.
#[test]
fn repeated_parts_are_the_same() {
    let part = |kind: &str, field: &str, path: &str| {
        let mut schema = of(kind).schema(field).pointer(path).expect("a part").clone();
        schema.as_object_mut().expect("a schema").remove("description");
        schema
    };
    let control_plane = part("TalosControlPlane", "spec", "");
    assert_eq!(part("TalosCluster", "spec", "/properties/controlPlane"), control_plane);
    let worker = part("TalosWorker", "spec", "");
    assert_eq!(part("TalosCluster", "spec", "/properties/worker"), worker);
    let metal = part("TalosControlPlane", "spec", "/properties/metalSpec");
    assert_eq!(part("TalosWorker", "spec", "/properties/metalSpec"), metal);
    let settings = part("TalosMachine", "spec", "/properties/machineSpec");
    let of_all = "/properties/metalSpec/properties/machineSpec";
    assert_eq!(part("TalosControlPlane", "spec", of_all), settings);
    let backup = part("TalosEtcdBackup", "spec", "");
    let template = "/properties/backupTemplate/properties/spec";
    assert_eq!(part("TalosEtcdBackupSchedule", "spec", template), backup);
    let helm = part("TalosClusterAddon", "spec", "/properties/helmSpec");
    assert_eq!(part("TalosClusterAddonRelease", "spec", "/properties/helmSpec"), helm);

    let conditions = part("TalosCluster", "status", "/properties/conditions");
    for definition in all() {
        let definition = testkit::Definition::read(definition.text);
        let properties = &definition.schema("status")["properties"];
        assert_eq!(properties["conditions"]["items"], conditions["items"]);
        assert_eq!(properties["conditions"]["x-kubernetes-list-type"], "map");
        assert_eq!(properties["observedGeneration"]["minimum"], 0);
    }
}

/// A default would start upgrades of objects that name no version.
#[test]
fn versions_have_no_default() {
    for (kind, path) in [
        ("TalosControlPlane", ""),
        ("TalosWorker", ""),
        ("TalosCluster", "/properties/controlPlane"),
        ("TalosCluster", "/properties/worker"),
    ] {
        let definition = of(kind);
        let spec = definition.schema("spec").pointer(path).expect("a spec");
        assert_eq!(spec["required"], json!(["mode"]), "{kind}{path}");
        for version in ["version", "kubeVersion"] {
            assert!(spec["properties"][version]["pattern"].is_string(), "{kind}{path}");
            assert!(spec["properties"][version]["default"].is_null(), "{kind}{path}");
        }
    }
}

#[test]
fn words_are_those_of_the_definitions() {
    let texts = |words: &[&str]| json!(words);
    let control_plane = of("TalosControlPlane");
    let modes: Vec<&str> = Mode::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(control_plane.schema("spec")["properties"]["mode"]["enum"], texts(&modes));
    let backup = of("TalosEtcdBackup");
    let backup = &backup.schema("spec")["properties"];
    let verify: Vec<&str> = Verify::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(backup["verify"]["enum"], texts(&verify));
    let policies: Vec<&str> = DeletionPolicy::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(backup["deletionPolicy"]["enum"], texts(&policies));
    let types: Vec<&str> = EncryptionType::ALL.iter().map(|it| it.as_str()).collect();
    let server = &backup["backupStorage"]["properties"]["s3"]["properties"]["serverSideEncryption"];
    assert_eq!(server["properties"]["type"]["enum"], texts(&types));
    // States are no enum, since objects have those of another operator; they are described.
    for (kind, states) in [
        ("TalosControlPlane", ControlPlaneState::ALL.iter().map(|it| it.as_str()).collect()),
        ("TalosWorker", WorkerState::ALL.iter().map(|it| it.as_str()).collect()),
        ("TalosMachine", MachineState::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>()),
    ] {
        let definition = of(kind);
        let described = &definition.schema("status")["properties"]["state"]["description"];
        let described = described.as_str().expect("a description").trim_end_matches('.');
        let described: Vec<&str> = described.split(", ").flat_map(|it| it.split(" or ")).collect();
        assert_eq!(described, states, "{kind}");
    }
}

fn condition() -> Condition {
    Condition {
        kind: "Ready".to_owned(),
        status: "False".to_owned(),
        reason: "Upgrading".to_owned(),
        message: "why".to_owned(),
        last_transition_time: "2026-01-02T03:04:05Z".to_owned(),
        observed_generation: Some(2),
    }
}

#[test]
fn statuses_fit_their_definitions() {
    let (conditions, observed_generation) = (vec![condition()], Some(2));
    let control_plane = ControlPlaneStatus {
        conditions: conditions.clone(),
        observed_generation,
        imported: true,
        ..ControlPlaneStatus::default()
    };
    let worker = WorkerStatus {
        conditions: conditions.clone(),
        observed_generation,
        imported: true,
        ..WorkerStatus::default()
    };
    let machine = TalosMachineStatus {
        conditions: conditions.clone(),
        observed_generation,
        imported: true,
        ..TalosMachineStatus::default()
    };
    let time = || Some("2026-01-02T03:04:05Z".to_owned());
    let backup = BackupStatus {
        filename: Some("f".to_owned()),
        state_filename: Some("s".to_owned()),
        sha256: Some("0123".to_owned()),
        size_bytes: Some(1),
        etcd_revision: Some(1),
        verified_at: time(),
        message: String::new(),
        observed_generation,
        conditions: conditions.clone(),
    };
    let schedule = ScheduleStatus {
        last_schedule_time: time(),
        last_successful_backup_time: time(),
        next_schedule_time: time(),
        active_backups: vec!["a".to_owned()],
        message: String::new(),
        observed_generation,
        conditions: conditions.clone(),
    };
    let cluster = ClusterStatus { message: String::new(), observed_generation, conditions };
    for (kind, status) in [
        ("TalosCluster", json!(cluster)),
        ("TalosControlPlane", json!(control_plane)),
        ("TalosWorker", json!(worker)),
        ("TalosMachine", json!(machine)),
        ("TalosEtcdBackup", json!(backup)),
        ("TalosEtcdBackupSchedule", json!(schedule)),
    ] {
        of(kind).takes("status", &status);
    }
}

/// With every field that the types have.
#[test]
fn specs_fit_their_definitions() {
    let key = || KeyReference { name: "n".to_owned(), key: "k".to_owned(), optional: true };
    let version = || Some("v1.13.9".to_owned());
    let object = ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Kind".to_owned(),
        namespace: "default".to_owned(),
        name: "n".to_owned(),
        field_path: ".status".to_owned(),
    };
    let settings = MachineSettings { image: Some("i".to_owned()), air_gap: true };
    let entry = |address: Option<&str>, machine_ref| MachineEntry {
        address: address.map(str::to_owned),
        machine_ref,
        version: version(),
        image: Some("i".to_owned()),
    };
    let metal = MetalSpec {
        machine_spec: settings.clone(),
        machines: vec![entry(Some("10.0.0.1"), None), entry(None, Some(object.clone()))],
    };
    let limit = Some(IntOrString::Text("50%".to_owned()));
    let rollout =
        RolloutStrategy { rolling_update: Some(RollingUpdate { max_unavailable: limit }) };
    let control_plane = ControlPlaneSpec {
        version: version(),
        kube_version: version(),
        mode: "metal".to_owned(),
        metal_spec: Some(metal.clone()),
        endpoint: Some("https://10.0.0.10:6443".to_owned()),
        config_ref: Some(key()),
        deletion_policy: Some("preserve".to_owned()),
        rollout_strategy: Some(rollout.clone()),
    };
    let worker = WorkerSpec {
        version: version(),
        control_plane_ref: Some(NameReference { name: "n".to_owned() }),
        mode: "metal".to_owned(),
        metal_spec: Some(metal),
        config_ref: Some(key()),
        deletion_policy: Some("reset".to_owned()),
        rollout_strategy: Some(rollout),
    };
    let cluster = ClusterSpec {
        control_plane: Some(control_plane.clone()),
        control_plane_ref: Some(NameReference::default()),
        worker: Some(worker.clone()),
        worker_ref: Some(NameReference::default()),
    };
    let machine = TalosMachineSpec {
        endpoint: "10.0.0.1".to_owned(),
        version: "v1.13.9".to_owned(),
        machine_spec: Some(settings),
        control_plane_ref: Some(object.clone()),
        worker_ref: Some(object),
        deletion_policy: Some("reset".to_owned()),
    };
    let mut backup = BackupSpec {
        encryption: Some(Encryption {
            age: Age { recipients: vec![format!("age1{}", "q".repeat(58))] },
        }),
        verify: Some("Checksum".to_owned()),
        deletion_policy: Some("Retain".to_owned()),
        ..BackupSpec::default()
    };
    backup.backup_storage.s3 = S3 {
        endpoint: Some("https://s3.example.org".to_owned()),
        ca_secret_ref: Some(key()),
        insecure_skip_tls_verify: true,
        server_side_encryption: Some(ServerSideEncryption {
            kind: "aws:kms".to_owned(),
            kms_key_id: Some("k".to_owned()),
        }),
        ..S3::default()
    };
    let mut schedule = ScheduleSpec {
        schedule: "@daily".to_owned(),
        paused: true,
        retention: Some(3),
        ..ScheduleSpec::default()
    };
    schedule.backup_template.spec = backup.clone();
    for (kind, spec) in [
        ("TalosCluster", json!(cluster)),
        ("TalosControlPlane", json!(control_plane)),
        ("TalosWorker", json!(worker)),
        ("TalosMachine", json!(machine)),
        ("TalosEtcdBackup", json!(backup)),
        ("TalosEtcdBackupSchedule", json!(schedule)),
    ] {
        of(kind).takes("spec", &spec);
    }
}
