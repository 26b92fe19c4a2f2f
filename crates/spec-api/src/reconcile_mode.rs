//! The annotation by which users say how far an object is reconciled.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::words::words;

/// The name of the annotation.
pub const RECONCILE_MODE: &str = "talos.alperen.cloud/reconcile-mode";

words! {
    /// How far an object is reconciled.
    pub enum ReconcileMode {
        /// In full. The default, and what every unknown value means.
        Reconcile = "reconcile",
        /// Not at all: what is in flight reaches a safe state, and nothing new is started.
        Disable = "disable",
        /// Everything is observed and planned, and nothing is changed.
        DryRun = "dryrun",
        /// The machines run a cluster already, which is taken over as it is.
        Import = "import",
    }
}

impl ReconcileMode {
    /// The mode that an object asks for. Case does not matter: `DryRun` is `dryrun`.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let value = metadata.annotations.as_ref().and_then(|all| all.get(RECONCILE_MODE));
        value.map_or(Self::Reconcile, |value| {
            let known = Self::ALL.iter().find(|mode| mode.as_str().eq_ignore_ascii_case(value));
            known.copied().unwrap_or(Self::Reconcile)
        })
    }

    /// The same for a `TalosCluster`, which has no machines of its own to import.
    pub fn of_cluster(metadata: &ObjectMeta) -> Self {
        match Self::of(metadata) {
            Self::Import => Self::Reconcile,
            mode @ (Self::Reconcile | Self::Disable | Self::DryRun) => mode,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn annotated(value: &str) -> ObjectMeta {
        let annotations = BTreeMap::from([(RECONCILE_MODE.to_owned(), value.to_owned())]);
        ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() }
    }

    #[test]
    fn case_does_not_matter_and_unknown_values_reconcile() {
        use ReconcileMode::{Disable, DryRun, Import, Reconcile};
        for (value, mode) in [
            ("reconcile", Reconcile),
            ("disable", Disable),
            ("DISABLE", Disable),
            ("DryRun", DryRun),
            ("import", Import),
            ("", Reconcile),
            ("dry-run", Reconcile),
            ("off", Reconcile),
        ] {
            assert_eq!(ReconcileMode::of(&annotated(value)), mode, "{value}");
        }
        assert_eq!(ReconcileMode::of(&ObjectMeta::default()), Reconcile);
        assert_eq!(ReconcileMode::of_cluster(&annotated("import")), Reconcile);
        assert_eq!(ReconcileMode::of_cluster(&annotated("Disable")), Disable);
    }
}
