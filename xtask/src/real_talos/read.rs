//! The fields that our client (`crates/talos-client`, `crates/upgrade-live`) bases decisions on. A simulated
//! node without one of them is wrong, and so is a real one: such a difference is never accepted.

use std::collections::BTreeSet;

use super::compare::Shape;

/// By kind, and by their paths in talosctl's output. Kinds that nodes in namespaces do not have are
/// left out: boot entries, extensions, schematics, the installer's process.
const READ: [(&str, &[&str]); 15] = [
    ("machinestatus", &["metadata.id", "spec.stage", "spec.status.ready"]),
    ("securitystate", &["metadata.id", "spec.secureBoot"]),
    ("machineconfig", &["metadata.id"]),
    ("machinetype", &["metadata.id", "spec"]),
    ("nodename", &["metadata.id", "spec.nodename"]),
    ("kubeletspec", &["metadata.id", "spec.image"]),
    ("staticpods", &["metadata.id", "spec.metadata.name", "spec.metadata.namespace"]),
    (
        "staticpodstatus",
        &["metadata.id", "spec.phase", "spec.conditions[].type", "spec.conditions[].status"],
    ),
    ("apiserverconfig", &["metadata.id", "spec.image", "spec.localPort"]),
    ("controllermanagerconfig", &["metadata.id", "spec.enabled", "spec.image"]),
    ("schedulerconfig", &["metadata.id", "spec.enabled", "spec.image"]),
    ("manifests", &["metadata.id", "spec[].kind", "spec[].apiVersion", "spec[].metadata.name"]),
    (
        "members",
        &[
            "metadata.id",
            "spec.nodeId",
            "spec.hostname",
            "spec.addresses[]",
            "spec.machineType",
            "spec.operatingSystem",
        ],
    ),
    ("infos", &["metadata.id", "spec.clusterId", "spec.clusterName"]),
    (
        "bootstrapmanifestsconfigs",
        &[
            "metadata.id",
            "spec.proxyEnabled",
            "spec.coreDNSEnabled",
            "spec.flannelEnabled",
            "spec.talosAPIServiceEnabled",
        ],
    ),
];

/// The fields of a kind that the client reads and that one of the two nodes lacks.
pub(super) fn missing(kind: &str, real: &Shape, simulated: &Shape) -> BTreeSet<String> {
    let Some((_, paths)) = READ.iter().find(|(name, _)| *name == kind) else {
        return BTreeSet::new();
    };
    let mut found = BTreeSet::new();
    for (side, shape) in [("real", real), ("simulated", simulated)] {
        let lacking = paths.iter().filter(|path| !shape.contains_key(**path));
        found.extend(lacking.map(|path| {
            format!("{kind}: {path}: the client reads it, but the {side} node does not have it")
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_that_the_client_reads_is_reported() {
        let shape = |paths: &[&str]| -> Shape {
            paths.iter().map(|path| ((*path).to_owned(), BTreeSet::new())).collect()
        };
        let whole = shape(&["metadata.id", "spec.image", "spec.args[]"]);
        assert!(missing("kubeletspec", &whole, &whole).is_empty());
        let without = shape(&["metadata.id", "spec.args[]"]);
        let found = missing("kubeletspec", &whole, &without);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found.iter().all(|line| line.contains("spec.image") && line.contains("simulated")));
        assert!(missing("services", &whole, &without).is_empty());
    }
}
