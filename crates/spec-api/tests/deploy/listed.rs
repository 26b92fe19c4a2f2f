//! What `kubectl get` and `kubectl explain` show.

use serde_json::json;

use crate::hub::Hub;

/// Short name, plural, the columns of a plain list, and those that `-o wide` adds.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("tc", "talosclusters", "NAME AGE", "MESSAGE"),
    (
        "tcp",
        "taloscontrolplanes",
        "NAME STATE VERSION KUBEVERSION MODE AGE",
        "OBSERVED OBSERVEDKUBE PROGRESS MESSAGE",
    ),
    ("tw", "talosworkers", "NAME STATE VERSION MODE AGE", "OBSERVED PROGRESS MESSAGE"),
    ("tm", "talosmachines", "NAME STATE VERSION ENDPOINT AGE", "OBSERVED PROGRESS MESSAGE"),
    ("teb", "talosetcdbackups", "NAME FILENAME AGE", "SIZE VERIFIED MESSAGE"),
    ("tebs", "talosetcdbackupschedules", "NAME SCHEDULE LAST BACKUP NEXT BACKUP PAUSED", "MESSAGE"),
    ("tca", "talosclusteraddons", "NAME CHART VERSION AGE", ""),
    ("tcar", "talosclusteraddonreleases", "NAME CLUSTER CHART AGE", ""),
];

pub(crate) fn as_documented(hub: &Hub) {
    for (short, plural, plain, wide) in KINDS {
        let table = hub.kubectl(&["get", short], "");
        assert_eq!(header(&table), *plain, "{short}");
        let table = hub.kubectl(&["get", plural, "-o", "wide"], "");
        assert_eq!(header(&table), format!("{plain} {wide}").trim_end(), "{plural}");
        // The full name works where another group has the same short name.
        hub.kubectl(&["get", &format!("{plural}.talos.alperen.cloud")], "");
    }
    values(hub);
    explained(hub);
}

/// The first line of a table, its words separated by single spaces.
fn header(table: &str) -> String {
    table.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each column shows what it is named after. The control plane has its status from the tests
/// of admission.
fn values(hub: &Hub) {
    let row = |arguments: &[&str]| {
        let row = hub.kubectl(&[&["get", "--no-headers"], arguments].concat(), "");
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let status = |object: &str, status: serde_json::Value| {
        let patch = json!({"status": status}).to_string();
        hub.kubectl(&["patch", object, "--subresource=status", "--type=merge", "-p", &patch], "");
    };
    assert_eq!(row(&["tcp", "prod"])[..5], ["prod", "Ready", "v1.13.8", "v1.35.0", "metal"]);
    let wide = row(&["tcp", "prod", "-o", "wide"]);
    assert_eq!(wide[6..10], ["v1.12.7", "v1.34.2", "3/3", "everything"]);
    status(
        "tm/prod-10.0.0.1",
        json!({"state": "Upgrading", "version": "v1.12.7",
        "observedVersion": "v1.12.7", "progress": "reboot"}),
    );
    let wide = row(&["tm", "-o", "wide"]);
    assert_eq!(wide[..4], ["prod-10.0.0.1", "Upgrading", "v1.13.0", "10.0.0.1"]);
    assert_eq!(wide[5..7], ["v1.12.7", "reboot"]);
    status(
        "teb/one",
        json!({"filename": "a.db", "sizeBytes": 20_971_520,
        "verifiedAt": "2026-01-02T03:04:05Z"}),
    );
    let wide = row(&["teb", "-o", "wide"]);
    assert_eq!((wide[1].as_str(), wide[3].as_str()), ("a.db", "20971520"));
    status(
        "tebs/nightly",
        json!({"lastSuccessfulBackupTime": "2026-01-02T03:04:05Z",
        "nextScheduleTime": "2026-01-02T03:04:05Z", "activeBackups": ["nightly-1"]}),
    );
    let wide = row(&["tebs"]);
    assert_eq!(wide[1..6], ["0", "3", "*", "*", "*"]);
    assert_eq!(wide.last().map(String::as_str), Some("false"));
    assert_eq!(row(&["tca"])[..2], ["addon", "a"]);
    assert_eq!(row(&["tcar"])[..3], ["release", "prod", "a"]);
}

/// Every kind, every spec and the fields that upgrades are about have a description.
fn explained(hub: &Hub) {
    for (short, ..) in KINDS {
        for path in [(*short).to_owned(), format!("{short}.spec"), format!("{short}.status")] {
            let text = hub.kubectl(&["explain", &path], "");
            assert!(!text.contains("<empty>"), "{path}: {text}");
        }
    }
    let all = hub.kubectl(&["explain", "tcp.spec", "--recursive"], "");
    assert!(all.contains("kubeVersion") && all.contains("fieldPath"), "{all}");
    for (path, word) in [
        ("tcp.spec.version", "If absent, Talos is left as it is"),
        ("tcp.spec.kubeVersion", "whole cluster"),
        ("tw.spec.rolloutStrategy.rollingUpdate.maxUnavailable", "percentage"),
        ("tm.spec.version", "version"),
        ("tm.status.version", "seen on the machine"),
        ("teb.spec.deletionPolicy", "Retain"),
        ("tebs.spec.schedule", "CronJob"),
    ] {
        let text = hub.kubectl(&["explain", path], "");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(word), "{path}: {text}");
    }
}
