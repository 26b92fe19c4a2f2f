//! `kubectl annotate` is refused for annotations that are not valid.

use std::time::Duration;

use vitistack_api::annotation::{
    KUBERNETES_TARGET, MAX_UNAVAILABLE, ORDER, PAUSE, RESET, ROLLBACK, TALOS_STATUS, TALOS_TARGET,
};

use crate::hub::{CLUSTER, Hub};

/// Not one of the platform's annotations; the operator adds it.
const ACCEPT_OUTAGE: &str = "upgrade.vitistack.io/accept-outage";

/// What is refused, and a part of the reason.
const NONSENSE: &[(&str, &str, &str)] = &[
    (TALOS_TARGET, "latest", "`latest`, which is not a version"),
    (TALOS_TARGET, "1.13", "write all three parts, like 1.13.9"),
    (TALOS_TARGET, "1.13.9+build", "not a version"),
    (TALOS_TARGET, "vv1.13.9", "not a version"),
    (TALOS_TARGET, "1.13.09", "not a version"),
    (KUBERNETES_TARGET, "stable", "not a version"),
    (KUBERNETES_TARGET, "1.35.x", "not a version"),
    (ORDER, "sideways", "workers-first or control-planes-first"),
    (ORDER, "Workers-First", "workers-first or control-planes-first"),
    (MAX_UNAVAILABLE, "0", "a number from 1"),
    (MAX_UNAVAILABLE, "-1", "a number from 1"),
    (MAX_UNAVAILABLE, "0%", "a number from 1"),
    (MAX_UNAVAILABLE, "101%", "a number from 1"),
    (MAX_UNAVAILABLE, "many", "a number from 1"),
    (ROLLBACK, "maybe", "true or false"),
    (RESET, "please", "true or false"),
    (ACCEPT_OUTAGE, "sure", "true or false"),
];

/// What is accepted. The operator decides whether a version can be reached, and a pause
/// may have any text.
const SENSE: &[(&str, &str)] = &[
    (TALOS_TARGET, "v1.12.0"),
    (TALOS_TARGET, "1.14.0-rc.1"),
    (TALOS_TARGET, "0.1.0"),
    (TALOS_TARGET, ""),
    (KUBERNETES_TARGET, "1.99.0"),
    (ORDER, "workers-first"),
    (ORDER, "control-planes-first"),
    (MAX_UNAVAILABLE, "2"),
    (MAX_UNAVAILABLE, "1%"),
    (MAX_UNAVAILABLE, "100%"),
    (ROLLBACK, "true"),
    (RESET, "false"),
    (ACCEPT_OUTAGE, "true"),
    (PAUSE, "true"),
    (PAUSE, "anna, until Monday"),
    (TALOS_STATUS, "idle"),
    ("upgrade.vitistack.io/a-new-one", "whatever"),
    ("example.org/talos-target", "latest"),
];

fn annotate(hub: &Hub, name: &str, value: &str) -> (i32, String) {
    let pair = format!("{name}={value}");
    let words = ["annotate", "--overwrite", "kubernetescluster", "my-cluster", &pair];
    let (code, _, stderr) = hub.run(&words, "");
    (code, stderr)
}

/// The API server needs a moment to load a new policy.
fn wait_until_it_holds(hub: &Hub) {
    for _ in 0..240 {
        if annotate(hub, ORDER, "upside-down").0 != 0 {
            return;
        }
        // The value was accepted before the policy was loaded.
        hub.kubectl(&["annotate", "kubernetescluster", "my-cluster", &format!("{ORDER}-")]);
        std::thread::sleep(Duration::from_millis(250));
    }
    panic!("the policy never refused anything");
}

pub(crate) fn holds(hub: &Hub) {
    wait_until_it_holds(hub);
    for (name, value, word) in NONSENSE {
        let (code, stderr) = annotate(hub, name, value);
        assert!(code != 0 && stderr.contains(word), "{name}={value}: {code} {stderr}");
    }
    for (name, value) in SENSE {
        let (code, stderr) = annotate(hub, name, value);
        assert_eq!(code, 0, "{name}={value}: {stderr}");
    }
    for name in SENSE.iter().map(|(name, _)| *name).collect::<std::collections::BTreeSet<_>>() {
        hub.kubectl(&["annotate", "kubernetescluster", "my-cluster", &format!("{name}-")]);
    }
    as_documented(hub);
    old_mistakes_stay_out_of_the_way(hub);
    // A new object is checked like a changed one.
    let bad = CLUSTER.replace("my-cluster", "another").replace(
        "  namespace: default\n",
        "  namespace: default\n  annotations: {upgrade.vitistack.io/talos-target: newest}\n",
    );
    let (code, _, stderr) = hub.run(&["create", "-f", "-"], &bad);
    assert!(code != 0 && stderr.contains("not a version"), "{stderr}");
}

/// The commands of the documentation, as written there.
fn as_documented(hub: &Hub) {
    hub.kubectl(&[
        "annotate",
        "kubernetescluster",
        "my-cluster",
        "upgrade.vitistack.io/talos-target=1.12.0",
    ]);
    hub.kubectl(&[
        "annotate",
        "kubernetescluster",
        "my-cluster",
        "upgrade.vitistack.io/talos-target-",
    ]);
    let patch = "\nmetadata:\n  annotations:\n    upgrade.vitistack.io/talos-target: \"1.12.0\"\n";
    hub.kubectl(&["patch", "kubernetescluster", "my-cluster", "--type=merge", "-p", patch]);
    hub.kubectl(&[
        "annotate",
        "kubernetescluster",
        "my-cluster",
        "upgrade.vitistack.io/kubernetes-target=1.35.0",
    ]);
    let bad = patch.replace("1.12.0", "newest");
    let words = ["patch", "kubernetescluster", "my-cluster", "--type=merge", "-p", &bad];
    let (code, _, stderr) = hub.run(&words, "");
    assert!(code != 0 && stderr.contains("not a version"), "{stderr}");
}

/// An invalid value from before the policy does not block other changes.
fn old_mistakes_stay_out_of_the_way(hub: &Hub) {
    let policy = "upgrade-annotations.vitistack.io";
    let binding = hub.kubectl(&["get", "validatingadmissionpolicybinding", policy, "-o", "yaml"]);
    hub.kubectl(&["delete", "validatingadmissionpolicybinding", policy]);
    let mut passed = false;
    for _ in 0..240 {
        passed = annotate(hub, TALOS_TARGET, "latest").0 == 0;
        if passed {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(passed, "the policy holds without its binding");
    hub.feed(&["create", "-f", "-"], &binding);
    wait_until_it_holds(hub);
    assert_eq!(annotate(hub, PAUSE, "true").0, 0);
    assert_ne!(annotate(hub, TALOS_TARGET, "newest").0, 0);
    hub.kubectl(&["annotate", "kubernetescluster", "my-cluster", &format!("{TALOS_TARGET}-")]);
}
