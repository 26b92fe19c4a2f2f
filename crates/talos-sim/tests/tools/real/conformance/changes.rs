//! Patches in all their types.

use serde_json::{Value, json};

use super::objects::{ROOM, config};
use super::talk::{Call, Talk};

pub(crate) const JSON: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A pod that is never scheduled.
pub(crate) fn pod(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "nobody",
            "containers": [
                {"name": "a", "image": "example.com/a:1", "env": [{"name": "X", "value": "1"}]},
                {"name": "b", "image": "example.com/b:1"},
            ],
        },
    })
}

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("changes");
    let maps = format!("{ROOM}/configmaps");
    let map = format!("{maps}/patched");
    let data = json!({"a": "1", "b": "2"});
    talk.say("create", Call::post(&maps, &config("patched", &Value::Null, &data))).await;
    talk.say("merge", Call::patch(&map, MERGE, &json!({"data": {"a": null, "c": "3"}}))).await;
    let steps = json!([
        {"op": "test", "path": "/data/b", "value": "2"},
        {"op": "replace", "path": "/data/b", "value": "4"},
        {"op": "add", "path": "/data/d", "value": "5"},
        {"op": "copy", "from": "/data/d", "path": "/data/e"},
        {"op": "move", "from": "/data/c", "path": "/data/f"},
        {"op": "remove", "path": "/data/d"},
    ]);
    talk.say("json", Call::patch(&map, JSON, &steps)).await;
    let test = json!([{"op": "test", "path": "/data/b", "value": "no"}]);
    talk.say("json with a test that fails", Call::patch(&map, JSON, &test)).await;
    let missing = json!([{"op": "remove", "path": "/data/zzz"}]);
    talk.say("json without what it removes", Call::patch(&map, JSON, &missing)).await;
    let strange = json!([{"op": "fly", "path": "/data"}]);
    talk.say("json with a strange step", Call::patch(&map, JSON, &strange)).await;
    talk.say("json that is no list", Call::patch(&map, JSON, &json!({"data": {}}))).await;
    talk.say(
        "strategic",
        Call::patch(&map, STRATEGIC, &json!({"data": {"$patch": "replace", "z": "1"}})),
    )
    .await;
    let version = json!({"metadata": {"resourceVersion": "1"}, "data": {"q": "1"}});
    talk.say("merge on an old version", Call::patch(&map, MERGE, &version)).await;
    talk.say("merge that changes nothing", Call::patch(&map, MERGE, &json!({"data": {"z": "1"}})))
        .await;
    talk.say(
        "merge another name",
        Call::patch(&map, MERGE, &json!({"metadata": {"name": "other"}})),
    )
    .await;
    talk.say("merge another kind", Call::patch(&map, MERGE, &json!({"kind": "Secret"}))).await;
    talk.say("merge a wrong type", Call::patch(&map, MERGE, &json!({"data": {"z": 1}}))).await;
    talk.say(
        "dry merge",
        Call::patch(format!("{map}?dryRun=All"), MERGE, &json!({"data": {"y": "1"}})),
    )
    .await;
    talk.say("merge nothing", Call::patch(format!("{maps}/nobody"), MERGE, &json!({}))).await;

    let pods = format!("{ROOM}/pods");
    let one = format!("{pods}/patched");
    talk.say("a pod", Call::post(&pods, &pod("patched", &json!({"app": "p"})))).await;
    let image = json!({"spec": {"containers": [{"name": "a", "image": "example.com/a:2"}]}});
    talk.say("strategic by name", Call::patch(&one, STRATEGIC, &image)).await;
    let gone = json!({"spec": {"containers": [{"name": "b", "$patch": "delete"}]}});
    talk.say("strategic may not drop a container", Call::patch(&one, STRATEGIC, &gone)).await;
    let added = json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}});
    talk.say("a toleration more", Call::patch(&one, STRATEGIC, &added)).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    talk.say("status by strategic", Call::patch(format!("{one}/status"), STRATEGIC, &status)).await;
    let another = json!({"status": {"conditions": [{"type": "Extra", "status": "False"}]}});
    talk.say("a condition more", Call::patch(format!("{one}/status"), STRATEGIC, &another)).await;
    let bad = json!({"spec": {"containers": {"name": "a"}}});
    talk.say("strategic with a wrong shape", Call::patch(&one, STRATEGIC, &bad)).await;
    let unnamed = json!({"spec": {"containers": [{"image": "x"}]}});
    talk.say("strategic without its key", Call::patch(&one, STRATEGIC, &unnamed)).await;
    talk.say("delete the pod", Call::delete(&one, &Value::Null)).await;
}
