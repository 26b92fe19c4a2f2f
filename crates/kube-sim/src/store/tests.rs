use super::*;
use crate::names::{CONFIG_MAPS, PODS};

fn store() -> Store {
    Store::new(1, Time::from_secs(1_767_323_045))
}

fn me() -> Write {
    Write::by("me")
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    })
}

#[test]
fn a_created_object_can_be_read() {
    let mut store = store();
    let made = store.create(&me(), &PODS, pod("a")).unwrap();
    assert_eq!(store.get(&PODS, "default", "a"), Some(&made));
    assert_eq!(object::text(&made, &["metadata", "creationTimestamp"]), "2026-01-02T03:04:05Z");
    assert_eq!(object::number(&made, &["metadata", "generation"]), Some(1));
    assert_eq!(object::revision(&made), store.revision());
    assert_eq!(store.create(&me(), &PODS, pod("a")).unwrap_err().code, 409);
    assert_eq!(store.list(&PODS, Some("default")).count(), 1);
    assert_eq!(store.list(&PODS, Some("kube-system")).count(), 0);
}

#[test]
fn names_are_generated() {
    let mut store = store();
    let object = json!({"metadata": {"generateName": "web-", "namespace": "default"}});
    let one = store.create(&me(), &CONFIG_MAPS, object.clone()).unwrap();
    let two = store.create(&me(), &CONFIG_MAPS, object).unwrap();
    assert!(object::name(&one).starts_with("web-"));
    assert_eq!(object::name(&one).len(), 9);
    assert_ne!(object::name(&one), object::name(&two));
}

#[test]
fn an_old_version_is_a_conflict() {
    let mut store = store();
    let made = store.create(&me(), &PODS, pod("a")).unwrap();
    store
        .modify(&me(), &PODS, "default", "a", |pod| {
            object::set(pod, &["metadata", "labels", "x"], "1");
        })
        .unwrap();
    let error = store.update(&me(), &PODS, made.as_ref().clone()).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "Conflict"));
}

#[test]
fn an_update_without_a_change_creates_no_revision() {
    let mut store = store();
    store.create(&me(), &PODS, pod("a")).unwrap();
    let before = store.revision();
    store.modify(&me(), &PODS, "default", "a", |_| {}).unwrap();
    assert_eq!(store.revision(), before);
}

#[test]
fn status_and_spec_are_updated_separately() {
    let mut store = store();
    store.create(&me(), &PODS, pod("a")).unwrap();
    let both = |pod: &mut Value| {
        object::set(pod, &["spec", "nodeName"], "n2");
        object::set(pod, &["status", "phase"], "Running");
    };
    let changed = store.modify_status(&me(), &PODS, "default", "a", both).unwrap();
    assert_eq!(object::text(&changed, &["spec", "nodeName"]), "n1");
    assert_eq!(object::text(&changed, &["status", "phase"]), "Running");
    assert_eq!(object::number(&changed, &["metadata", "generation"]), Some(1));
    let other = |pod: &mut Value| {
        object::set(pod, &["spec", "activeDeadlineSeconds"], 9);
        object::set(pod, &["status", "phase"], "Failed");
    };
    let changed = store.modify(&me(), &PODS, "default", "a", other).unwrap();
    assert_eq!(object::text(&changed, &["status", "phase"]), "Running");
    assert_eq!(object::number(&changed, &["metadata", "generation"]), Some(2));
}

#[test]
fn a_pod_is_removed_when_its_kubelet_confirms() {
    let mut store = store();
    store.create(&me(), &PODS, pod("a")).unwrap();
    let options = DeleteOptions::default();
    let deleted = store.delete(&me(), &PODS, "default", "a", &options).unwrap();
    let Deleted::Marked(pod) = deleted else { panic!("{deleted:?}") };
    assert_eq!(object::text(&pod, &["metadata", "deletionTimestamp"]), "2026-01-02T03:04:35Z");
    assert!(store.get(&PODS, "default", "a").is_some());
    store.delete(&me(), &PODS, "default", "a", &DeleteOptions::now()).unwrap();
    assert!(store.get(&PODS, "default", "a").is_none());
}

#[test]
fn finalizers_delay_a_deletion() {
    let mut store = store();
    let object = json!({"metadata": {"name": "a", "namespace": "default", "finalizers": ["x/y"]}});
    store.create(&me(), &CONFIG_MAPS, object).unwrap();
    let options = DeleteOptions::default();
    store.delete(&me(), &CONFIG_MAPS, "default", "a", &options).unwrap();
    assert!(object::is_deleting(store.get(&CONFIG_MAPS, "default", "a").unwrap()));
    store
        .modify(&me(), &CONFIG_MAPS, "default", "a", |object| {
            object::remove(object, &["metadata", "finalizers"]);
        })
        .unwrap();
    assert!(store.get(&CONFIG_MAPS, "default", "a").is_none());
    let kinds: Vec<_> = store
        .changes_since(0)
        .unwrap()
        .filter(|change| change.resource == CONFIG_MAPS)
        .map(|change| change.kind)
        .collect();
    assert_eq!(kinds, [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted]);
}

#[test]
fn a_missing_namespace_is_an_error() {
    let mut store = store();
    let object = json!({"metadata": {"name": "a", "namespace": "nowhere"}});
    let error = store.create(&me(), &CONFIG_MAPS, object).unwrap_err();
    assert_eq!(error.message, "namespaces \"nowhere\" not found");
}

#[test]
fn a_store_survives_serialisation() {
    let mut store = store();
    store.create(&me(), &PODS, pod("a")).unwrap();
    let text = serde_json::to_string(&store).unwrap();
    let mut again: Store = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    assert_eq!(again.create(&me(), &PODS, pod("b")), store.create(&me(), &PODS, pod("b")));
}
