//! The status of a cluster, and the patches that show it: only what differs, only our own
//! keys.
//!
//! Annotations are merged key by key. Conditions are a list, which a merge replaces as a
//! whole, so a patch of the status names the resourceVersion that it was made from: if
//! another process wrote in between, its write stays, and the next round starts from it.

use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use vitistack_api::KubernetesCluster;
use vitistack_api::status::{Condition, Phase, Reason, Status, empty_state};

use crate::keys;

/// What is shown of one product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductStatus {
    /// The status annotation.
    pub status: Status,
    /// The reason of the condition.
    pub reason: Reason,
    /// The message of both.
    pub message: String,
    /// The progress annotation; `None` removes it.
    pub progress: Option<String>,
    /// The running and the available version; `None` leaves both as they are.
    pub versions: Option<(Version, Option<Version>)>,
}

/// What to write into the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The status of Talos.
    pub talos: ProductStatus,
    /// The status of Kubernetes.
    pub kubernetes: ProductStatus,
    /// The phase; `None` leaves it, and the conditions, to the platform.
    pub phase: Option<Phase>,
    /// Annotations of the user that are no longer needed.
    pub remove: Vec<&'static str>,
}

impl StatusUpdate {
    /// The status of a product.
    pub const fn of(&self, product: Product) -> &ProductStatus {
        match product {
            Product::Talos => &self.talos,
            Product::Kubernetes => &self.kubernetes,
        }
    }
}

/// How long a message may be. Annotations have 256 KiB in all.
const LONGEST: usize = 1024;

/// The patch of the annotations, if something differs.
pub fn annotation_patch(object: &KubernetesCluster, write: &StatusUpdate) -> Option<Value> {
    let mut changes = Map::new();
    let mut set = |key: &str, value: Option<String>| {
        if object.annotation(key) != value.as_deref() {
            changes.insert(key.to_owned(), value.map_or(Value::Null, Value::String));
        }
    };
    for product in keys::PRODUCTS {
        let ProductStatus { status, reason: _, message, progress, versions } = write.of(product);
        set(keys::status(product), Some(status.to_string()));
        set(keys::message(product), Some(shortened(message)));
        set(keys::progress(product), progress.clone());
        if let Some((current, available)) = versions {
            set(keys::current(product), Some(current.to_string()));
            set(keys::available(product), available.as_ref().map(ToString::to_string));
        }
    }
    for key in &write.remove {
        set(key, None);
    }
    if changes.is_empty() {
        return None;
    }
    let mut metadata = json!({ "annotations": changes });
    if !write.remove.is_empty() {
        // What the user wrote is taken away only as it was read.
        metadata["resourceVersion"] = json!(object.resource_version());
    }
    Some(json!({ "metadata": metadata }))
}

/// The patch of the status, if something differs.
pub fn status_patch(object: &KubernetesCluster, write: &StatusUpdate, now: &str) -> Option<Value> {
    let phase = write.phase?;
    let before = object.status.as_ref();
    let mut conditions: Vec<Condition> =
        before.map(|status| status.conditions.clone()).unwrap_or_default();
    for product in keys::PRODUCTS {
        condition(&mut conditions, product, write.of(product), now);
    }
    let same = before.is_some_and(|before| {
        before.phase == phase.as_str() && before.conditions == conditions && before.state.is_some()
    });
    if same {
        return None;
    }
    let mut status = json!({ "phase": phase.as_str(), "conditions": conditions });
    if before.is_none_or(|before| before.state.is_none()) {
        status["state"] = empty_state(now);
    }
    let metadata = json!({ "resourceVersion": object.resource_version() });
    Some(json!({ "metadata": metadata, "status": status }))
}

fn condition(conditions: &mut Vec<Condition>, product: Product, words: &ProductStatus, now: &str) {
    let kind = keys::condition(product);
    let found = conditions.iter().position(|condition| condition.kind == kind);
    let before = found.map(|index| &conditions[index]);
    let status = words.reason.status();
    let since = before
        .filter(|before| before.status == status)
        .map_or_else(|| now.to_owned(), |before| before.last_transition_time.clone());
    let condition = Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: words.reason.as_str().to_owned(),
        message: shortened(&words.message),
        last_transition_time: since,
    };
    match found {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// What changed for a product, for those who listen.
pub fn transition(
    object: &KubernetesCluster,
    write: &StatusUpdate,
    product: Product,
) -> Option<Status> {
    let words = write.of(product);
    let before = object.annotation(keys::status(product)).and_then(Status::parse);
    // A first `idle` is no news.
    let events =
        before != Some(words.status) && !(before.is_none() && words.status == Status::Idle);
    events.then_some(words.status)
}

fn shortened(text: &str) -> String {
    let one_line = text.replace(['\n', '\r'], " ");
    if one_line.chars().count() <= LONGEST {
        return one_line;
    }
    let mut short: String = one_line.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vitistack_api::annotation;

    use super::*;

    const NOW: &str = "2026-11-16T01:00:00Z";

    fn object(value: Value) -> KubernetesCluster {
        serde_json::from_value(value).expect("a cluster")
    }

    fn words(status: Status, reason: Reason, message: &str) -> ProductStatus {
        ProductStatus {
            status,
            reason,
            message: message.to_owned(),
            progress: None,
            versions: None,
        }
    }

    fn write() -> StatusUpdate {
        let mut talos = words(Status::InProgress, Reason::InProgress, "Upgrading node cp-0");
        talos.progress = Some("2/5".to_owned());
        talos.versions = Some((Version::new(1, 11, 6), Some(Version::new(1, 12, 0))));
        StatusUpdate {
            talos,
            kubernetes: words(Status::Idle, Reason::Idle, "m"),
            phase: Some(Phase::UpgradingTalos),
            remove: Vec::new(),
        }
    }

    #[test]
    fn only_what_differs_is_patched() {
        let bare = object(json!({"metadata": {"name": "a", "resourceVersion": "7"}}));
        let patch = annotation_patch(&bare, &write()).unwrap();
        let set = &patch["metadata"]["annotations"];
        assert_eq!(set[annotation::TALOS_STATUS], "in-progress");
        assert_eq!(set[annotation::TALOS_PROGRESS], "2/5");
        assert_eq!(set[annotation::TALOS_CURRENT], "1.11.6");
        assert_eq!(set[annotation::TALOS_AVAILABLE], "1.12.0");
        assert!(patch["metadata"].get("resourceVersion").is_none());
        let mut reported = bare.clone();
        let annotations_now = set.as_object().unwrap().iter();
        reported.metadata.annotations = Some(
            annotations_now
                .map(|(key, it)| (key.clone(), it.as_str().unwrap().to_owned()))
                .collect(),
        );
        assert_eq!(annotation_patch(&reported, &write()), None);
        // What is gone is taken away, and what the user wrote only as it was read.
        let mut done = write();
        done.talos.progress = None;
        done.remove.push(annotation::TALOS_TARGET);
        reported
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .insert(annotation::TALOS_TARGET.to_owned(), "1.12.0".to_owned());
        let patch = annotation_patch(&reported, &done).unwrap();
        let set = patch["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(set.len(), 2, "{set:?}");
        assert!(set[annotation::TALOS_PROGRESS].is_null());
        assert!(set[annotation::TALOS_TARGET].is_null());
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn the_first_status_has_what_the_schema_demands() {
        let bare = object(json!({"metadata": {"name": "a"}}));
        let patch = status_patch(&bare, &write(), NOW).unwrap();
        assert_eq!(patch["status"]["state"], empty_state(NOW));
        let mut without = write();
        without.phase = None;
        assert_eq!(status_patch(&bare, &without, NOW), None, "the platform has the status");
    }

    #[test]
    fn other_conditions_and_the_platforms_state_stay() {
        let there = object(json!({
            "metadata": {"name": "a", "resourceVersion": "9"},
            "status": {"phase": "Ready", "state": {"x": 1}, "conditions": [
                {"type": "Provisioned", "status": "True", "reason": "r", "message": "m",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "TalosUpgrade", "status": "True", "reason": "InProgress", "message": "m",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        }));
        let patch = status_patch(&there, &write(), NOW).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "9");
        assert!(patch["status"].get("state").is_none());
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 3);
        assert_eq!(conditions[0]["type"], "Provisioned");
        assert_eq!(conditions[1]["message"], "Upgrading node cp-0");
        // The same status: its time stays.
        assert_eq!(conditions[1]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(conditions[2]["type"], "KubernetesUpgrade");
        assert_eq!(conditions[2]["lastTransitionTime"], NOW);
        assert_eq!(conditions[2]["status"], "False");
    }

    #[test]
    fn changes_are_news_once() {
        let bare = object(json!({"metadata": {"name": "a"}}));
        assert_eq!(transition(&bare, &write(), Product::Talos), Some(Status::InProgress));
        assert_eq!(
            transition(&bare, &write(), Product::Kubernetes),
            None,
            "a first idle is no event"
        );
        let reported = object(json!({"metadata": {"name": "a", "annotations": {
            annotation::TALOS_STATUS: "in-progress"}}}));
        assert_eq!(transition(&reported, &write(), Product::Talos), None);
    }

    #[test]
    fn messages_are_one_line_and_bounded() {
        assert_eq!(shortened("a\nb"), "a b");
        assert_eq!(shortened(&"x".repeat(5000)).chars().count(), LONGEST);
    }
}
