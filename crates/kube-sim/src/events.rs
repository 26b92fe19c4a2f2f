//! Events: what kubelets and controllers report about objects.
//!
//! A repeated event increases its count instead of creating another object. An event expires one
//! hour after its last occurrence; when there are too many, the oldest is removed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kubelet::Api;
use crate::names::EVENTS;
use crate::object;
use crate::time::Time;

/// How long an event is kept after its last occurrence, as in an API server.
pub(crate) const KEPT: Duration = Duration::from_hours(1);

/// The maximum number of events.
pub(crate) const MOST: usize = 1000;

/// The component that reports an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// The component, `kubelet`.
    pub(crate) component: &'a str,
    /// The node it runs on, if that matters.
    pub(crate) host: &'a str,
}

impl Source<'static> {
    /// A part of the control plane.
    pub(crate) const fn controller(component: &'static str) -> Self {
        Self { component, host: "" }
    }
}

/// What an event is about.
pub(crate) fn about(object: &Value) -> Value {
    let mut reference = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object::name(object), "uid": object::uid(object),
    });
    if !object::namespace(object).is_empty() {
        reference["namespace"] = json!(object::namespace(object));
    }
    reference
}

/// A node in events of its own kubelet: by name, whatever its UID is.
pub(crate) fn about_node(name: &str) -> Value {
    json!({"kind": "Node", "name": name, "uid": name})
}

/// A container of a pod.
pub(crate) fn about_container(pod: &Value, container: &str) -> Value {
    let mut reference = about(pod);
    reference["fieldPath"] = json!(format!("spec.containers{{{container}}}"));
    reference
}

/// Records an event; bad news has type `Warning`. Events are best effort: one that cannot be
/// written is dropped.
pub(crate) fn tell(
    api: &mut dyn Api,
    now: Time,
    source: Source<'_>,
    about: &Value,
    warning: bool,
    reason: &str,
    message: &str,
) {
    if !api.keeps_events() {
        return;
    }
    let namespace = match object::text(about, &["namespace"]) {
        "" => "default",
        namespace => namespace,
    };
    let uid = object::text(about, &["uid"]);
    let hash = fnv(&[uid, object::text(about, &["fieldPath"]), reason, message, source.component]);
    let name = format!("{}.{hash:016x}", object::text(about, &["name"]));
    let time = now.to_text();
    if let Ok(Some(known)) = api.get(&EVENTS, namespace, &name) {
        let count = object::number(&known, &["count"]).unwrap_or(1) + 1;
        let patch = json!({"count": count, "lastTimestamp": time});
        let _ = api.patch(&EVENTS, namespace, &name, "", &patch);
        return;
    }
    let mut origin = json!({"component": source.component});
    if !source.host.is_empty() {
        origin["host"] = json!(source.host);
    }
    let event = json!({
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "source": origin,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "type": if warning { "Warning" } else { "Normal" },
        "reportingComponent": source.component,
        "reportingInstance": source.host,
    });
    let _ = api.create(&EVENTS, event);
}

/// When an event last happened.
pub(crate) fn last(event: &Value) -> Option<Time> {
    let times = [&["lastTimestamp"][..], &["eventTime"], &["metadata", "creationTimestamp"]];
    times.into_iter().find_map(|path| Time::from_text(object::text(event, path)))
}

/// FNV-1a: small, and the same everywhere.
fn fnv(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::{Cluster, NodeFacts, Timings};
    use crate::names::{NODES, PODS};
    use crate::store::{DeleteOptions, Write};

    fn at(seconds: u64) -> Time {
        Time::from_secs(1_767_323_045 + seconds)
    }

    fn facts(boot: &str, up: bool) -> Vec<NodeFacts> {
        let mut facts = NodeFacts::new("w1", "10.0.0.2", false);
        boot.clone_into(&mut facts.boot_id);
        facts.kubelet_up = up;
        vec![facts]
    }

    fn reported_events(cluster: &Cluster, about: &str) -> Vec<(String, i64)> {
        let mut found: Vec<(String, i64)> = cluster
            .server
            .store()
            .list(&EVENTS, None)
            .filter(|event| object::text(event, &["involvedObject", "name"]) == about)
            .map(|event| {
                let count = object::number(event, &["count"]).unwrap();
                (object::text(event, &["reason"]).to_owned(), count)
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn the_lifecycles_of_a_pod_and_a_node_are_reported() {
        let mut cluster = Cluster::new(1, at(0), Timings::default());
        cluster.sync(at(0), &facts("1", true));
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        });
        let me = Write::by("me");
        cluster.server.store_mut().create(&me, &PODS, pod).unwrap();
        cluster.advance(at(20));
        let once = |reason: &str| (reason.to_owned(), 1);
        assert_eq!(reported_events(&cluster, "p"), [once("Scheduled"), once("Started")]);
        // The machine goes away and comes back.
        cluster.sync(at(20), &facts("1", false));
        cluster.advance(at(100));
        assert!(reported_events(&cluster, "w1").contains(&once("NodeNotReady")));
        assert!(reported_events(&cluster, "p").contains(&once("NodeNotReady")));
        cluster.sync(at(100), &facts("2", true));
        cluster.advance(at(120));
        let node = reported_events(&cluster, "w1");
        assert!(node.contains(&once("Rebooted")) && node.contains(&once("NodeReady")), "{node:?}");
        assert!(node.contains(&("Starting".to_owned(), 2)), "{node:?}");
        assert!(reported_events(&cluster, "p").contains(&("Started".to_owned(), 2)));
        cluster
            .server
            .store_mut()
            .delete(&me, &PODS, "default", "p", &DeleteOptions::default())
            .unwrap();
        cluster.advance(at(160));
        assert!(reported_events(&cluster, "p").contains(&once("Killing")));
        let node = cluster.server.store().get(&NODES, "", "w1").unwrap();
        assert_eq!(about(node)["uid"], object::uid(node));
        // Events expire after an hour.
        cluster.advance(at(160 + 3600));
        assert_eq!(cluster.server.store().count(&EVENTS), 0);
    }

    #[test]
    fn the_number_of_events_is_limited() {
        let mut cluster = Cluster::new(1, at(0), Timings::default());
        for number in 0..u64::try_from(MOST).unwrap() + 50 {
            let now = at(number);
            cluster.advance(now);
            let store = cluster.server.store_mut();
            let source = Source::controller("me");
            tell(store, now, source, &about_node("w1"), false, "Number", &number.to_string());
        }
        cluster.advance(at(1060));
        assert_eq!(cluster.server.store().count(&EVENTS), MOST);
        let quiet = cluster.server.store_mut();
        quiet.set_quiet(true);
        tell(quiet, at(1061), Source::controller("me"), &about_node("w1"), false, "Hush", "hush");
        cluster.advance(at(1062));
        assert!(reported_events(&cluster, "w1").iter().all(|(reason, _)| reason == "Number"));
    }
}
