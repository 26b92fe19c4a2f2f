//! What the service account of the operator may do, and what it may not.

use std::collections::BTreeSet;

use crate::hub::{Hub, NAMESPACE};

const ACCOUNT: &str = "--as=system:serviceaccount:vitistack-system:talos-operator";

/// Verbs and kinds, in every namespace.
const EVERYWHERE: &[(&str, &str)] = &[
    ("kubernetesclusters.vitistack.io", "get list watch patch"),
    ("kubernetesclusters.vitistack.io/status", "patch"),
    ("machines.vitistack.io", "list watch"),
    ("upgraderuns.upgrade.vitistack.io", "get list create delete"),
    ("upgraderuns.upgrade.vitistack.io/status", "patch"),
    ("events.events.k8s.io", "create patch"),
    ("secrets", "get"),
];

/// More, in the operator's own namespace.
const AT_HOME: &[(&str, &str)] =
    &[("leases.coordination.k8s.io", "get list create update patch delete"), ("configmaps", "get")];

/// What every account may do in any cluster.
const ANYBODY: &[&str] = &[
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
];

/// What must not be allowed; each is asked for by itself.
const NEVER: &[(&str, &str)] = &[
    ("list", "secrets"),
    ("watch", "secrets"),
    ("create", "secrets"),
    ("update", "kubernetesclusters.vitistack.io"),
    ("delete", "kubernetesclusters.vitistack.io"),
    ("create", "kubernetesclusters.vitistack.io"),
    ("patch", "machines.vitistack.io"),
    ("list", "pods"),
    ("create", "pods"),
    ("get", "nodes"),
    ("escalate", "clusterroles.rbac.authorization.k8s.io"),
    ("impersonate", "users"),
];

pub(crate) fn are_as_listed(hub: &Hub) {
    let home: Vec<_> = EVERYWHERE.iter().chain(AT_HOME).copied().collect();
    for (namespace, expected) in [("default", EVERYWHERE), (NAMESPACE, &home)] {
        assert_eq!(granted(hub, namespace), table(expected), "in {namespace}");
    }
    for (verb, kind) in NEVER {
        // kubectl also says no by its exit code.
        let (_, answer, stderr) =
            hub.run(&["auth", "can-i", verb, kind, "-n", NAMESPACE, ACCOUNT], "");
        assert_eq!(answer.trim(), "no", "{verb} {kind}: {stderr}");
    }
    let asked = ["auth", "can-i", "get", "secrets/c1", "-n", "default", ACCOUNT];
    assert_eq!(hub.kubectl(&asked).trim(), "yes");
}

fn table(rows: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    let pairs = rows.iter().flat_map(|(kind, verbs)| {
        verbs.split(' ').map(|verb| ((*kind).to_owned(), verb.to_owned()))
    });
    pairs.collect()
}

/// Everything that the API server says the account may do with objects.
fn granted(hub: &Hub, namespace: &str) -> BTreeSet<(String, String)> {
    let list = hub.kubectl(&["auth", "can-i", "--list", "--no-headers", "-n", namespace, ACCOUNT]);
    let mut found = BTreeSet::new();
    for line in list.lines() {
        // URLs instead of kinds: health and discovery, which every account may read.
        let Some(kind) = line.split_whitespace().next().filter(|kind| !kind.starts_with('['))
        else {
            continue;
        };
        let (_, verbs) = line.rsplit_once('[').expect("verbs in brackets");
        let verbs = verbs.trim().trim_end_matches(']');
        if !ANYBODY.contains(&kind) {
            found.extend(verbs.split(' ').map(|verb| (kind.to_owned(), verb.to_owned())));
        }
    }
    found
}
