//! What is accepted, refused, filled in and immutable.

use serde_json::{Value, json};

use crate::hub::Hub;

const ACCEPTED: &str = include_str!("../objects/accepted.yaml");
const REFUSED: &str = include_str!("../objects/refused.yaml");

const TRY: [&str; 4] = ["create", "--dry-run=server", "-f", "-"];

pub(crate) fn holds(hub: &Hub) {
    let (code, _, told) = hub.run(&TRY, ACCEPTED);
    assert_eq!((code, told.as_str()), (0, ""), "no warnings either");
    // No watch ever reads a null, which the types could not.
    let empty = hub.json(&TRY, &object("TalosMachine", "empty-spec", &Value::Null));
    assert_eq!(empty.get("spec"), None);
    refused(hub);
    defaults(hub);
    immutable(hub);
    secrets_survive_a_status(hub);
}

fn object(kind: &str, name: &str, spec: &Value) -> String {
    let object = json!({"apiVersion": "talos.alperen.cloud/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    object.to_string()
}

fn refused(hub: &Hub) {
    let table: Vec<Value> = serde_saphyr::from_str(REFUSED).expect("YAML");
    assert!(!table.is_empty());
    for case in &table {
        let mut object = json!({"apiVersion": "talos.alperen.cloud/v1alpha1",
            "kind": case["kind"], "metadata": {"name": "refused"}});
        if let Some(spec) = case.get("spec") {
            object["spec"] = spec.clone();
        }
        let told = hub.refused(&TRY, &object.to_string());
        let expected = match (&case["schema"], &case["rule"]) {
            (Value::String(field), Value::Null) => format!("{field}: "),
            (Value::Null, Value::String(message)) => message.clone(),
            _ => panic!("either a schema or a rule refuses {case:#}"),
        };
        assert!(told.contains(&expected), "{case:#} {told}");
    }
}

/// What is filled in, and above all what is not.
fn defaults(hub: &Hub) {
    let create = ["create", "-f", "-"];
    let rollout = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    let metal = json!({"machines": [{"address": "10.0.0.1"}]});
    let spec = json!({"mode": "metal", "metalSpec": metal});
    let made = hub.json(&create, &object("TalosControlPlane", "prod", &spec));
    assert_eq!(
        made["spec"],
        json!({"mode": "metal", "metalSpec": metal, "clusterDomain": "cluster.local",
            "deletionPolicy": "reset", "rolloutStrategy": rollout}),
        "no version"
    );
    let spec = json!({"mode": "metal", "controlPlaneRef": {}, "metalSpec": {"machineSpec": {}},
        "rolloutStrategy": {"rollingUpdate": {}}});
    let made = hub.json(&create, &object("TalosWorker", "prod", &spec));
    let settings = json!({"wipe": false, "airGap": false, "imageCache": false,
        "allowSchedulingOnControlPlanes": false});
    assert_eq!(
        made["spec"],
        json!({"mode": "metal", "replicas": 1, "controlPlaneRef": {"name": ""},
            "metalSpec": {"machineSpec": settings}, "deletionPolicy": "reset",
            "rolloutStrategy": rollout}),
        "no version"
    );
    let spec = json!({"endpoint": "10.0.0.1", "version": "v1.13.0"});
    let made = hub.json(&create, &object("TalosMachine", "prod-10.0.0.1", &spec));
    assert_eq!(made["spec"]["deletionPolicy"], "reset");
    let spec = json!({"controlPlane": {"mode": "cloud"}, "worker": {"mode": "cloud"}});
    let made = hub.json(&create, &object("TalosCluster", "prod", &spec));
    for part in ["controlPlane", "worker"] {
        let spec = &made["spec"][part];
        assert_eq!(spec["deletionPolicy"], "reset");
        assert!(spec["version"].is_null() && spec["kubeVersion"].is_null(), "{spec:#}");
    }
    let storage = json!({"s3": {"bucket": "b", "region": "r",
        "accessKeyID": {"key": "id"}, "secretAccessKey": {"key": "key"}}});
    let backup = json!({"talosControlPlaneRef": {}, "backupStorage": storage});
    let made = hub.json(&create, &object("TalosEtcdBackup", "one", &backup));
    assert_eq!(
        made["spec"],
        json!({"talosControlPlaneRef": {"name": ""}, "backupStorage": {"s3": {
            "bucket": "b", "region": "r", "insecureSkipTLSVerify": false,
            "accessKeyID": {"key": "id", "name": ""},
            "secretAccessKey": {"key": "key", "name": ""}}}})
    );
    let spec = json!({"schedule": "0 3 * * *", "backupTemplate": {"spec": backup}});
    let made = hub.json(&create, &object("TalosEtcdBackupSchedule", "nightly", &spec));
    assert_eq!((&made["spec"]["retention"], &made["spec"]["paused"]), (&json!(5), &json!(false)));
    let helm = json!({"chartName": "a", "repoURL": "b",
        "options": {"install": {}, "upgrade": {}}});
    let made = hub.json(&create, &object("TalosClusterAddon", "addon", &json!({"helmSpec": helm})));
    assert_eq!(
        made["spec"]["helmSpec"],
        json!({"chartName": "a", "repoURL": "b", "namespace": "default", "options": {
            "enableClientCache": false, "install": {"createNamespace": true},
            "upgrade": {"maxHistory": 10}}})
    );
    let spec = json!({"clusterRef": {"name": "prod"}, "helmSpec": helm});
    hub.kubectl(&create, &object("TalosClusterAddonRelease", "release", &spec));
}

/// What cannot be changed once it is there.
fn immutable(hub: &Hub) {
    let mode = json!({"mode": "cloud"});
    let domain = json!({"clusterDomain": "example.org"});
    let class = |name: Option<&str>| json!({"storageClassName": name});
    for (name, spec, message) in [
        ("tcp/prod", mode.clone(), "Mode is immutable"),
        ("tcp/prod", domain.clone(), "ClusterDomain is immutable"),
        ("tw/prod", mode, "Mode is immutable"),
        ("tc/prod", json!({"controlPlane": domain}), "ClusterDomain is immutable"),
        ("tc/prod", json!({"worker": {"mode": "container"}}), "Mode is immutable"),
    ] {
        let (code, told) = hub.patch(name, &spec);
        assert!(code != 0 && told.contains(message), "{name} {spec} {told}");
    }
    // The rule compares two values: without one of them there is nothing to compare.
    for (name, accepted) in [
        (Some("local-path"), true),
        (Some("other"), false),
        (Some("local-path"), true),
        (None, true),
        (Some("other"), true),
    ] {
        let (code, told) = hub.patch("tw/prod", &class(name));
        assert_eq!(code == 0, accepted, "{name:?} {told}");
        let message = "StorageClassName is immutable, you cannot change it after creation";
        assert!(accepted || told.contains(message), "{told}");
    }
    // Everything else can be, versions above all, and they can be taken away again.
    for spec in [
        json!({"version": "v1.13.9", "kubeVersion": "v1.35.0"}),
        json!({"version": "v1.12.7", "kubeVersion": "v1.34.2"}),
        json!({"version": null, "kubeVersion": null}),
        json!({"version": "v1.13.9", "kubeVersion": "v1.35.0"}),
    ] {
        let (code, told) = hub.patch("tcp/prod", &spec);
        assert_eq!(code, 0, "{told}");
    }
}

/// A status of ours leaves alone what another operator stored.
fn secrets_survive_a_status(hub: &Hub) {
    let patch = |status: &Value| {
        let patch = json!({"status": status}).to_string();
        let words = ["patch", "tcp/prod", "--subresource=status", "--type=merge", "-p", &patch];
        hub.kubectl(&words, "");
    };
    let stored = json!({"secretBundle": "a: b\n", "bundleConfig": "{}", "config": "c: d\n",
        "imported": true, "state": "Available", "observedKubeVersion": "v1.35.0"});
    patch(&stored);
    let generation = hub.json(&["get", "tcp/prod"], "")["metadata"]["generation"].as_i64();
    let time = "2026-01-02T03:04:05Z".to_owned();
    let ready = spec_api::condition::Condition {
        kind: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: "Reconciled".to_owned(),
        last_transition_time: time,
        observed_generation: generation,
        ..spec_api::condition::Condition::default()
    };
    let status = spec_api::control_plane::ControlPlaneStatus {
        state: "Ready".to_owned(),
        message: "everything is as wanted".to_owned(),
        progress: "3/3".to_owned(),
        run: "prod-1".to_owned(),
        observed_version: "v1.12.7".to_owned(),
        observed_kube_version: "v1.34.2".to_owned(),
        observed_generation: generation,
        conditions: vec![ready],
        imported: true,
    };
    patch(&json!(status));
    let read = hub.json(&["get", "tcp/prod"], "");
    for field in ["secretBundle", "bundleConfig", "config", "imported"] {
        assert_eq!(read["status"][field], stored[field], "{field}");
    }
    let watched: spec_api::TalosControlPlane =
        serde_json::from_value(read.clone()).expect("readable");
    assert_eq!(watched.status, Some(status));
    let whole: spec_api::secret::ControlPlaneSecrets =
        serde_json::from_value(read).expect("readable");
    assert_eq!(whole.status.secret_bundle.expose(), "a: b\n");
    // A condition of an older generation does not count, so a change is waited for.
    let wait = |time| ["wait", "tcp/prod", "--for=condition=Ready", time];
    hub.kubectl(&wait("--timeout=60s"), "");
    let (code, told) = hub.patch("tcp/prod", &json!({"version": "v1.13.8"}));
    assert_eq!(code, 0, "{told}");
    let told = hub.refused(&wait("--timeout=1s"), "");
    assert!(told.contains("timed out"), "{told}");
}
