//! Objects that another operator drove: they are observed and shown, and nothing is started until
//! the user says so.
//!
//! Stored objects may have versions that no user wrote, since the other operator's definitions
//! have defaults. So the versions that an object has at first sight are recorded on it and do not
//! count. A version counts once the user changes it, each product for itself; edits of other
//! fields are no word about versions. `adopt=true` lets the recorded versions count as they are.
//!
//! The record is an annotation, written before the status shows that the object was observed: a
//! process that ends in between finds the record, and copies of the object keep it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use spec_api::ReconcileMode;
use upgrade_controller::steering;
use upgrade_core::product::{PerProduct, Product};

use crate::asks::Asks;
use crate::keys;

/// The versions that do not count, as the annotation has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Of Talos.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub talos: Option<String>,
    /// Of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// What the annotation of an object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// There is none.
    Absent,
    /// It cannot be read. What was adopted is unknown, so it is taken as the present versions
    /// (rule 10).
    Unreadable,
    /// The versions that do not count.
    Versions(Record),
}

impl Recorded {
    /// Reads the annotation.
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        match steering::value(annotations, keys::ADOPTED).map(|text| serde_json::from_str(&text)) {
            None => Self::Absent,
            Some(Err(_)) => Self::Unreadable,
            Some(Ok(record)) => Self::Versions(record),
        }
    }
}

/// An object, as far as adoption depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoptable {
    /// What it asks for.
    pub asks: Asks,
    /// Whether this operator sees it for the first time, and another one, or the user who imports
    /// it, says that it ran before.
    pub first_sight: bool,
    /// What was recorded.
    pub recorded: Recorded,
    /// Whether the user lets everything count.
    pub adopt: bool,
}

impl Adoptable {
    /// Reads an object. `state` and `observed_generation` are of its status.
    pub fn of(
        metadata: &ObjectMeta,
        asks: Asks,
        state: &str,
        observed_generation: Option<i64>,
    ) -> Self {
        let none = BTreeMap::new();
        let annotations = metadata.annotations.as_ref().unwrap_or(&none);
        let ran = !state.is_empty() || ReconcileMode::of(metadata) == ReconcileMode::Import;
        Self {
            asks,
            first_sight: observed_generation.is_none() && ran,
            recorded: Recorded::of(annotations),
            adopt: steering::is_set(annotations, keys::ADOPT),
        }
    }
}

/// What adoption makes of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// The products whose version does not count.
    pub held: PerProduct<bool>,
    /// What has to be recorded; nothing removes the annotation.
    pub record: Record,
}

/// Decides. `fits` says of each product whether the cluster is known to run what is asked for: a
/// version that runs has nothing to start, and a later one is the user's word.
pub fn adoption(object: &Adoptable, fits: PerProduct<bool>) -> Adoption {
    let mut adoption = Adoption::default();
    if object.adopt {
        return adoption;
    }
    for product in Product::ALL {
        let Some(asked) = object.asks.of(product) else { continue };
        let recorded = match &object.recorded {
            Recorded::Absent => object.first_sight,
            Recorded::Unreadable => true,
            Recorded::Versions(record) => record.of(product) == Some(asked),
        };
        if recorded && !*fits.of(product) {
            *adoption.held.of_mut(product) = true;
            *adoption.record.of_mut(product) = Some(asked.clone());
        }
    }
    adoption
}

impl Record {
    const fn of(&self, product: Product) -> Option<&String> {
        match product {
            Product::Talos => self.talos.as_ref(),
            Product::Kubernetes => self.kubernetes.as_ref(),
        }
    }

    const fn of_mut(&mut self, product: Product) -> &mut Option<String> {
        match product {
            Product::Talos => &mut self.talos,
            Product::Kubernetes => &mut self.kubernetes,
        }
    }

    /// The text of the annotation; `None` if there has to be none.
    pub fn annotation(&self) -> Option<String> {
        // A struct of two texts can always be written.
        (*self != Self::default()).then(|| serde_json::to_string(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::asks::of_control_plane;
    use crate::test_objects::{control_plane, machines};

    /// A control plane as another operator left it, and what is changed of it.
    fn adopted(change: impl FnOnce(&mut spec_api::TalosControlPlane)) -> Adoptable {
        let spec = json!({"version": "v1.13.0", "kubeVersion": "v1.35.0",
            "metalSpec": machines(&["10.0.0.1"])});
        let mut object = control_plane("prod", spec);
        object.status = Some(serde_json::from_value(json!({"state": "Ready"})).expect("readable"));
        change(&mut object);
        let status = object.status.clone().unwrap_or_default();
        let asks = of_control_plane(&object);
        Adoptable::of(&object.metadata, asks, &status.state, status.observed_generation)
    }

    fn annotate(object: &mut spec_api::TalosControlPlane, key: &str, value: &str) {
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
    }

    fn observed(object: &mut spec_api::TalosControlPlane) {
        object.status.get_or_insert_default().observed_generation = Some(1);
    }

    const NEITHER: PerProduct<bool> = PerProduct { talos: false, kubernetes: false };
    const BOTH: PerProduct<bool> = PerProduct { talos: true, kubernetes: true };
    const RECORD: &str = r#"{"talos":"v1.13.0","kubernetes":"v1.35.0"}"#;

    #[test]
    fn first_sight_starts_nothing() {
        // Rule 13: a default was not written by a user.
        for state in ["Ready", "Available", "UpgradingKubernetes", "something else"] {
            let object = adopted(|object| {
                object.status.as_mut().expect("a status").state = state.to_owned();
            });
            let Adoption { held, record } = adoption(&object, NEITHER);
            assert_eq!(held, BOTH, "{state}");
            assert_eq!(record.annotation().as_deref(), Some(RECORD));
        }
        let imported = adopted(|object| {
            object.status = None;
            annotate(object, spec_api::RECONCILE_MODE, "import");
        });
        assert_eq!(adoption(&imported, NEITHER).held, BOTH, "taken over as it is");
    }

    #[test]
    fn what_no_other_operator_drove_is_not_adopted() {
        for object in [
            adopted(|object| object.status = None),
            adopted(|object| object.status.as_mut().expect("a status").state = String::new()),
            adopted(observed),
        ] {
            assert_eq!(adoption(&object, NEITHER), Adoption::default());
        }
    }

    #[test]
    fn a_record_outlives_the_first_sight_and_other_edits() {
        let object = adopted(|object| {
            observed(object);
            annotate(object, keys::ADOPTED, RECORD);
            object.metadata.generation = Some(5);
            object.spec.metal_spec =
                serde_json::from_value(machines(&["10.0.0.1", "10.0.0.2"])).expect("readable");
        });
        assert_eq!(adoption(&object, NEITHER).held, BOTH);
        // A status that was lost changes nothing.
        let object = adopted(|object| {
            object.status = None;
            annotate(object, keys::ADOPTED, RECORD);
        });
        assert_eq!(adoption(&object, NEITHER).held, BOTH);
    }

    #[test]
    fn a_changed_version_is_the_users_word_for_its_product() {
        let object = adopted(|object| {
            observed(object);
            annotate(object, keys::ADOPTED, RECORD);
            object.spec.version = Some("v1.13.9".to_owned());
        });
        let Adoption { held, record } = adoption(&object, NEITHER);
        assert_eq!(held, PerProduct { talos: false, kubernetes: true });
        assert_eq!(record.annotation().as_deref(), Some(r#"{"kubernetes":"v1.35.0"}"#));
        // Back to what was recorded once is a word as well: Git is reverted, and the record of
        // Talos is gone.
        let object = adopted(|object| {
            observed(object);
            annotate(object, keys::ADOPTED, r#"{"kubernetes":"v1.35.0"}"#);
        });
        assert_eq!(adoption(&object, NEITHER).held, PerProduct { talos: false, kubernetes: true });
        let removed = adopted(|object| {
            observed(object);
            annotate(object, keys::ADOPTED, RECORD);
            (object.spec.version, object.spec.kube_version) = (None, None);
        });
        assert_eq!(adoption(&removed, NEITHER), Adoption::default());
    }

    #[test]
    fn a_pin_is_a_word_too() {
        let object = adopted(|object| {
            observed(object);
            annotate(object, keys::ADOPTED, RECORD);
            let metal = object.spec.metal_spec.as_mut().expect("machines");
            metal.machines[0].version = Some("v1.13.9".to_owned());
        });
        assert!(!adoption(&object, NEITHER).held.talos);
    }

    #[test]
    fn the_user_can_let_everything_count() {
        let object = adopted(|object| {
            annotate(object, keys::ADOPTED, RECORD);
            annotate(object, keys::ADOPT, "true");
        });
        assert_eq!(adoption(&object, NEITHER), Adoption::default());
        let object = adopted(|object| annotate(object, keys::ADOPT, "false"));
        assert_eq!(adoption(&object, NEITHER).held, BOTH);
    }

    #[test]
    fn what_runs_already_needs_no_adoption() {
        let object = adopted(|object| annotate(object, keys::ADOPTED, RECORD));
        assert_eq!(adoption(&object, BOTH), Adoption::default());
        let half = PerProduct { talos: true, kubernetes: false };
        let Adoption { held, record } = adoption(&object, half);
        assert_eq!(held, PerProduct { talos: false, kubernetes: true });
        assert_eq!((record.talos, record.kubernetes.as_deref()), (None, Some("v1.35.0")));
    }

    #[test]
    fn a_record_that_cannot_be_read_starts_nothing() {
        // Rule 10.
        let object = adopted(|object| {
            observed(object);
            annotate(object, keys::ADOPTED, "v1.13.0");
        });
        assert_eq!(object.recorded, Recorded::Unreadable);
        let Adoption { held, record } = adoption(&object, NEITHER);
        assert_eq!((held, record.annotation().as_deref()), (BOTH, Some(RECORD)));
    }
}
