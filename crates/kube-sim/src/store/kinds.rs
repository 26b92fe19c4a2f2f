//! What single kinds ask for beyond the common rules.

use serde_json::{Value, json};

use crate::names::{NAMESPACES, PODS};
use crate::object;
use crate::time::Time;
use crate::types::ResourceType;

/// Fills in what a caller may leave out.
pub(super) fn default(kind: &ResourceType, new: &mut Value, _now: Time) {
    if kind.name == NAMESPACES {
        let name = object::name(new).to_owned();
        object::set(new, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
        if object::at(new, &["spec", "finalizers"]).is_none() && !object::is_deleting(new) {
            object::set(new, &["spec", "finalizers"], json!(["kubernetes"]));
        }
        if object::at(new, &["status", "phase"]).is_none() {
            object::set(new, &["status", "phase"], "Active");
        }
    } else if kind.name == PODS {
        let spec = object::map(object::map(new).entry("spec").or_insert(Value::Null));
        for (field, value) in [
            ("restartPolicy", json!("Always")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("dnsPolicy", json!("ClusterFirst")),
            ("securityContext", json!({})),
            ("schedulerName", json!("default-scheduler")),
            ("enableServiceLinks", json!(true)),
        ] {
            spec.entry(field).or_insert(value);
        }
        if object::at(new, &["status", "phase"]).is_none() {
            object::set(new, &["status", "phase"], "Pending");
        }
    }
}
