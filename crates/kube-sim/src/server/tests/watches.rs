use super::*;

#[test]
fn a_watch_without_a_version_starts_with_the_existing_objects() {
    let mut talk = Talk::new();
    talk.configmap("a", &json!({}));
    talk.watch("/api/v1/namespaces/default/configmaps?watch=1");
    talk.configmap("b", &json!({}));
    let events = talk.received();
    assert_eq!(kinds_of(&events), ["ADDED", "ADDED"]);
    assert_eq!(events[1]["object"]["metadata"]["name"], "b");
}

#[test]
fn a_selector_sees_objects_come_and_go() {
    let mut talk = Talk::new();
    talk.watch("/api/v1/configmaps?watch=1&labelSelector=a%3D1");
    talk.configmap("x", &json!({"a": "2"}));
    let path = "/api/v1/namespaces/default/configmaps/x";
    talk.patch(path, MERGE, &json!({"metadata": {"labels": {"a": "1"}}}));
    talk.patch(path, MERGE, &json!({"data": {"k": "v"}}));
    talk.patch(path, MERGE, &json!({"metadata": {"labels": {"a": null}}}));
    talk.delete(path, &json!({}));
    let events = talk.received();
    assert_eq!(kinds_of(&events), ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(events[2]["object"]["metadata"]["labels"], json!({"a": "1"}));
}

#[test]
fn a_streamed_list_ends_with_a_bookmark() {
    let mut talk = Talk::new();
    talk.configmap("a", &json!({}));
    talk.watch(
        "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true",
    );
    let events = talk.received();
    assert_eq!(kinds_of(&events), ["ADDED", "BOOKMARK"]);
    let metadata = &events[1]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(metadata["resourceVersion"], talk.server.store().revision().to_string());
    let (code, status) = talk.get("/api/v1/configmaps?watch=1&sendInitialEvents=true");
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
}

#[test]
fn a_compacted_version_is_gone() {
    let mut talk = Talk::new();
    talk.configmap("a", &json!({}));
    let version = talk.server.store().revision();
    talk.configmap("b", &json!({}));
    talk.server.compact();
    talk.watch(&format!("/api/v1/configmaps?watch=1&resourceVersion={version}"));
    let events = talk.received();
    assert_eq!(kinds_of(&events), ["ERROR", "END"]);
    assert_eq!(events[0]["object"]["code"], 410);
    assert_eq!(events[0]["object"]["reason"], "Expired");
    let version = talk.server.store().revision();
    talk.watch(&format!("/api/v1/configmaps?watch=1&resourceVersion={version}"));
    assert_eq!(talk.received(), Vec::<Value>::new());
}

#[test]
fn history_is_compacted_with_time() {
    let mut talk = Talk::new();
    talk.configmap("a", &json!({}));
    let version = talk.server.store().revision();
    talk.now = talk.now.plus(std::time::Duration::from_mins(30));
    talk.configmap("b", &json!({}));
    assert_eq!(talk.server.store().compacted(), version);
}

#[test]
fn bookmarks_and_timeouts_come_on_time() {
    let mut talk = Talk::new();
    talk.watch("/api/v1/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=90");
    for _ in 0..2 {
        let next = talk.server.next_event().unwrap();
        talk.server.advance(next);
    }
    assert_eq!(kinds_of(&talk.received()), ["BOOKMARK", "END"]);
    assert_eq!(talk.server.next_event(), None);
}

#[test]
fn tables_explain_their_columns_once() {
    let mut talk = Talk::new();
    talk.configmap("a", &json!({}));
    talk.configmap("b", &json!({}));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    talk.send(&Request::get("/api/v1/configmaps?watch=1").accepting(table));
    let events = talk.received();
    assert!(events[0]["object"]["columnDefinitions"].is_array());
    assert!(events[1]["object"]["columnDefinitions"].is_null());
}

mod replay {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Create(u8),
        Label(u8, bool),
        Delete(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4u8).prop_map(Step::Create),
            ((0..4u8), any::<bool>()).prop_map(|(which, on)| Step::Label(which, on)),
            (0..4u8).prop_map(Step::Delete),
        ]
    }

    proptest! {
        /// A client that lists and then watches knows what a later list would return.
        #[test]
        fn a_watch_is_a_list_that_continues(before in prop::collection::vec(step(), 0..12),
                                          after in prop::collection::vec(step(), 0..12)) {
            let mut talk = Talk::new();
            let query = "labelSelector=on";
            let run = |talk: &mut Talk, steps: Vec<Step>| for step in steps {
                let name = |which: u8| format!("/api/v1/namespaces/default/configmaps/c{which}");
                match step {
                    Step::Create(which) => drop(talk.post(
                        "/api/v1/namespaces/default/configmaps",
                        &json!({"metadata": {"name": format!("c{which}"), "labels": {"on": "1"}}}),
                    )),
                    Step::Label(which, on) => {
                        let value = if on { json!("1") } else { Value::Null };
                        let patch = json!({"metadata": {"labels": {"on": value}}});
                        drop(talk.patch(&name(which), MERGE, &patch));
                    }
                    Step::Delete(which) => drop(talk.delete(&name(which), &json!({}))),
                }
            };
            let state = |list: &Value| -> BTreeMap<String, Value> {
                let items = list["items"].as_array().unwrap();
                items.iter().map(|item| (item["metadata"]["name"].to_string(), item.clone())).collect()
            };
            run(&mut talk, before);
            let (_, list) = talk.get(&format!("/api/v1/configmaps?{query}"));
            let mut known = state(&list);
            let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            talk.watch(&format!("/api/v1/configmaps?{query}&watch=1&resourceVersion={version}"));
            run(&mut talk, after);
            for event in talk.received() {
                let mut object = event["object"].clone();
                let name = object["metadata"]["name"].to_string();
                // A list implies the kind of its items.
                object.as_object_mut().unwrap().retain(|field, _| !["kind", "apiVersion"].contains(&field.as_str()));
                if event["type"] == "DELETED" { known.remove(&name); } else { known.insert(name, object); }
            }
            let (_, list) = talk.get(&format!("/api/v1/configmaps?{query}"));
            prop_assert_eq!(known, state(&list));
        }
    }
}

#[test]
fn compressed_history_is_the_same() {
    let mut talk = Talk::new();
    talk.configmap("a", &json!({"n": "0"}));
    let version = talk.server.store().revision();
    for number in 1..40 {
        let path = "/api/v1/namespaces/default/configmaps/a";
        let labels = json!({"n": number.to_string()});
        talk.patch(path, MERGE, &json!({"metadata": {"labels": labels}}));
    }
    let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
    let paths = [
        "/api/v1/namespaces/default/configmaps/a".to_owned(),
        "/api/v1/configmaps".to_owned(),
        format!("/api/v1/configmaps?{exact}"),
        format!("/api/v1/configmaps?limit=1&{exact}"),
    ];
    let observe = |talk: &mut Talk| {
        let read: Vec<_> = paths.iter().map(|path| talk.get(path)).collect();
        talk.watch(&format!("/api/v1/configmaps?watch=1&resourceVersion={version}"));
        let events = talk.received();
        assert_eq!(events.len(), 39);
        (read, events)
    };
    let before = observe(&mut talk);
    for _ in 0..3 {
        talk.server.rest(u64::MAX);
        assert!(talk.server.store().changes_since(version).is_none(), "they are packed");
        assert_eq!(observe(&mut talk), before);
    }
    // A server serialised meanwhile has all of it too.
    let saved = serde_json::to_string(&talk.server).unwrap();
    talk.server = serde_json::from_str(&saved).unwrap();
    assert_eq!(observe(&mut talk), before);
}
