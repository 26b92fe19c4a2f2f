//! Every annotation of upgrades on a `KubernetesCluster`.
//!
//! What users write triggers and steers; what the operator writes is a one-line
//! picture of the state. The run itself is an `UpgradeRun`.

use std::collections::BTreeMap;

pub use upgrade_api::annotation::{MAX_UNAVAILABLE, ORDER, PAUSE, ROLLBACK};

/// What all of them begin with.
pub const PREFIX: &str = "upgrade.vitistack.io/";

/// The newest Talos that the cluster may go to. Set by the operator.
pub const TALOS_AVAILABLE: &str = "upgrade.vitistack.io/talos-available";
/// The Talos that runs, the lowest of all nodes. Set by the operator.
pub const TALOS_CURRENT: &str = "upgrade.vitistack.io/talos-current";
/// The Talos that is wanted. **Set by the user**; triggers.
pub const TALOS_TARGET: &str = "upgrade.vitistack.io/talos-target";
/// One of [`status::Status`](crate::status::Status). Set by the operator.
pub const TALOS_STATUS: &str = "upgrade.vitistack.io/talos-status";
/// The status in a sentence. Set by the operator.
pub const TALOS_MESSAGE: &str = "upgrade.vitistack.io/talos-message";
/// How many nodes are done, like `2/5`. Set by the operator.
pub const TALOS_PROGRESS: &str = "upgrade.vitistack.io/talos-progress";

/// The newest Kubernetes that the cluster may go to, once the Talos that runs
/// supports it. Set by the operator.
pub const KUBERNETES_AVAILABLE: &str = "upgrade.vitistack.io/kubernetes-available";
/// The Kubernetes that runs, the lowest of all parts. Set by the operator.
pub const KUBERNETES_CURRENT: &str = "upgrade.vitistack.io/kubernetes-current";
/// The Kubernetes that is wanted. **Set by the user**; triggers.
pub const KUBERNETES_TARGET: &str = "upgrade.vitistack.io/kubernetes-target";
/// One of [`status::Status`](crate::status::Status). Set by the operator.
pub const KUBERNETES_STATUS: &str = "upgrade.vitistack.io/kubernetes-status";
/// The status in a sentence. Set by the operator.
pub const KUBERNETES_MESSAGE: &str = "upgrade.vitistack.io/kubernetes-message";
/// How many nodes are done, like `2/5`. Set by the operator.
pub const KUBERNETES_PROGRESS: &str = "upgrade.vitistack.io/kubernetes-progress";

/// `true`: forget a failed upgrade and its targets, once. **Set by the user.**
pub const RESET: &str = "upgrade.vitistack.io/talos-reset-upgrade-state";
/// Anything but nothing: the operator leaves the object alone. **Set by the
/// user.** The platform writes it with its own prefix as well.
pub const DO_NOT_RECONCILE: [&str; 2] =
    ["upgrade.vitistack.io/do-not-reconcile", "vitistack.io/do-not-reconcile"];

/// What only the operator writes.
pub const OF_THE_OPERATOR: [&str; 10] = [
    TALOS_AVAILABLE,
    TALOS_CURRENT,
    TALOS_STATUS,
    TALOS_MESSAGE,
    TALOS_PROGRESS,
    KUBERNETES_AVAILABLE,
    KUBERNETES_CURRENT,
    KUBERNETES_STATUS,
    KUBERNETES_MESSAGE,
    KUBERNETES_PROGRESS,
];

/// What only users write, apart from [`DO_NOT_RECONCILE`]. The operator removes
/// a target that is reached, and [`RESET`] once it is done.
pub const OF_THE_USER: [&str; 7] =
    [TALOS_TARGET, KUBERNETES_TARGET, PAUSE, ORDER, MAX_UNAVAILABLE, ROLLBACK, RESET];

/// Whether the operator leaves the object alone.
pub fn do_not_reconcile(annotations: &BTreeMap<String, String>) -> bool {
    DO_NOT_RECONCILE.iter().any(|name| annotations.get(*name).is_some_and(|it| !it.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_the_prefix_and_stands_once() {
        let mut all: Vec<&str> = OF_THE_OPERATOR.into_iter().chain(OF_THE_USER).collect();
        assert!(all.iter().all(|name| name.starts_with(PREFIX)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), OF_THE_OPERATOR.len() + OF_THE_USER.len());
    }

    #[test]
    fn an_empty_value_does_not_stop_the_operator() {
        let mut annotations = BTreeMap::new();
        assert!(!do_not_reconcile(&annotations));
        annotations.insert(DO_NOT_RECONCILE[1].to_owned(), String::new());
        assert!(!do_not_reconcile(&annotations));
        annotations.insert(DO_NOT_RECONCILE[0].to_owned(), "false".to_owned());
        assert!(do_not_reconcile(&annotations), "any value counts, as on the platform");
    }
}
