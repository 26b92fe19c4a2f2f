//! Deletion: preconditions, finalizers, and dependents.

use serde_json::{Value, json};

use super::objects::{ROOM, config};
use super::talk::{Call, Talk};

fn owned(name: &str, uid: &Value, blocks: bool) -> Value {
    let mut object = config(name, &json!({"set": "owned"}), &Value::Null);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid,
        "blockOwnerDeletion": blocks,
    }]);
    object
}

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("endings");
    let maps = format!("{ROOM}/configmaps");
    let one = format!("{maps}/end");
    talk.ask(&Call::post(&maps, &config("end", &Value::Null, &Value::Null))).await;
    let uid = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}});
    talk.say("another's uid", Call::delete(&one, &uid)).await;
    let version = json!({"preconditions": {"resourceVersion": "1"}});
    let refused = talk.ask(&Call::delete(&one, &version)).await;
    talk.note(
        "another version",
        json!([refused["code"], refused["body"]["reason"], refused["body"]["details"]]),
    );
    talk.say("another policy", Call::delete(&one, &json!({"propagationPolicy": "Sideways"}))).await;
    talk.say("delete", Call::delete(&one, &Value::Null)).await;
    talk.say("delete again", Call::delete(&one, &Value::Null)).await;

    let mut held = config("held", &Value::Null, &json!({"a": "1"}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let path = format!("{maps}/held");
    talk.say("a finalizer", Call::post(&maps, &held)).await;
    talk.say("delete what is held", Call::delete(&path, &Value::Null)).await;
    talk.say("delete it again", Call::delete(&path, &Value::Null)).await;
    talk.say("it is still there", Call::get(&path)).await;
    let merge = "application/merge-patch+json";
    talk.say("changed on its way out", Call::patch(&path, merge, &json!({"data": {"a": "2"}})))
        .await;
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    talk.say("no finalizer more", Call::patch(&path, merge, &more)).await;
    talk.say("let go", Call::patch(&path, merge, &json!({"metadata": {"finalizers": null}}))).await;
    talk.say("it is gone", Call::get(&path)).await;
    let mut wrong = config("wrong", &Value::Null, &Value::Null);
    wrong["metadata"]["finalizers"] = json!(["hold"]);
    talk.say("a finalizer without a domain", Call::post(&maps, &wrong)).await;

    let owner = format!("{maps}/owner");
    for (step, policy) in
        [("background", "Background"), ("foreground", "Foreground"), ("orphan", "Orphan")]
    {
        let made = talk.ask(&Call::post(&maps, &config("owner", &Value::Null, &Value::Null))).await;
        let uid = &made["body"]["metadata"]["uid"];
        for name in ["child-1", "child-2"] {
            talk.ask(&Call::post(&maps, &owned(name, uid, true))).await;
        }
        let gone = talk.ask(&Call::delete(&owner, &json!({"propagationPolicy": policy}))).await;
        talk.note(&format!("{step}: the answer"), gone);
        talk.gone(&owner).await;
        if policy == "Orphan" {
            let free = |answer: &Value| answer["body"]["metadata"]["ownerReferences"].is_null();
            let left = talk.until(&format!("{maps}/child-1"), free).await;
            talk.note("orphan: what is left", left);
            talk.ask(&Call::delete(format!("{maps}?labelSelector=set%3Downed"), &Value::Null))
                .await;
        }
        talk.gone(&format!("{maps}/child-1")).await;
        talk.gone(&format!("{maps}/child-2")).await;
    }
    // A dependent of an owner that never existed is deleted too.
    let missing = json!("00000000-0000-0000-0000-000000000001");
    talk.ask(&Call::post(&maps, &owned("foundling", &missing, false))).await;
    talk.gone(&format!("{maps}/foundling")).await;
    let bad = json!({"metadata": {"name": "bad", "ownerReferences": [{"kind": "ConfigMap", "name": "x"}]}});
    talk.say("a wrong owner", Call::post(&maps, &bad)).await;

    let extra = json!({"metadata": {"name": "conformance-ends"}});
    talk.ask(&Call::post("/api/v1/namespaces", &extra)).await;
    let inside = "/api/v1/namespaces/conformance-ends/configmaps";
    talk.until("/api/v1/namespaces/conformance-ends/serviceaccounts/default", |answer| {
        answer["code"] == 200
    })
    .await;
    let mut stays = config("stays", &Value::Null, &Value::Null);
    stays["metadata"]["finalizers"] = json!(["example.com/hold"]);
    talk.ask(&Call::post(inside, &stays)).await;
    let ending = talk.ask(&Call::delete("/api/v1/namespaces/conformance-ends", &Value::Null)).await;
    talk.note(
        "a namespace ends",
        json!([ending["code"], ending["body"]["status"]["phase"], ending["body"]["spec"]]),
    );
    talk.say("nothing new in it", Call::post(inside, &config("late", &Value::Null, &Value::Null)))
        .await;
    talk.ask(&Call::patch(
        format!("{inside}/stays"),
        merge,
        &json!({"metadata": {"finalizers": null}}),
    ))
    .await;
    talk.gone("/api/v1/namespaces/conformance-ends").await;
    talk.say("into nothing", Call::post(inside, &config("late", &Value::Null, &Value::Null))).await;
}
