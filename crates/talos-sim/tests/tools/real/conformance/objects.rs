//! Creating, reading, replacing; conflicts, generations, dry runs.

use serde_json::{Value, json};

use super::talk::{Call, Talk};

/// The namespace of the conversation.
pub(crate) const ROOM: &str = "/api/v1/namespaces/conformance";
pub(crate) const APPS: &str = "/apis/apps/v1/namespaces/conformance";

/// A ConfigMap.
pub(crate) fn config(name: &str, labels: &Value, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels}, "data": data,
    })
}

/// A Deployment without pods.
pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "paused": true,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
            },
        },
    })
}

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("objects");
    let room =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "conformance"}});
    talk.say("a namespace", Call::post("/api/v1/namespaces", &room)).await;
    talk.until(&format!("{ROOM}/serviceaccounts/default"), |answer| answer["code"] == 200).await;
    let maps = format!("{ROOM}/configmaps");
    let one = format!("{maps}/one");
    talk.say("create", Call::post(&maps, &config("one", &json!({"a": "1"}), &json!({"k": "v"}))))
        .await;
    talk.say("create again", Call::post(&maps, &config("one", &Value::Null, &Value::Null))).await;
    let old = talk.say("get", Call::get(&one)).await;
    let mut new = old.clone();
    new["data"]["k"] = json!("w");
    talk.say("replace", Call::put(&one, &new)).await;
    talk.say("replace an old version", Call::put(&one, &new)).await;
    new["metadata"]["resourceVersion"] = json!("");
    new["data"]["k"] = json!("x");
    talk.say("replace without a version", Call::put(&one, &new)).await;
    talk.say("replace with the same", Call::put(&one, &new)).await;
    new["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    talk.say("replace with another uid", Call::put(&one, &new)).await;
    talk.say("get nothing", Call::get(format!("{maps}/nothing"))).await;
    talk.say(
        "replace nothing",
        Call::put(format!("{maps}/nothing"), &config("nothing", &Value::Null, &Value::Null)),
    )
    .await;
    let dry = format!("{maps}?dryRun=All");
    talk.say("dry run", Call::post(&dry, &config("dry", &Value::Null, &Value::Null))).await;
    talk.say("after a dry run", Call::get(format!("{maps}/dry"))).await;
    talk.say("dry delete", Call::delete(format!("{one}?dryRun=All"), &Value::Null)).await;
    let named = json!({"metadata": {"generateName": "made-"}});
    let made = talk.ask(&Call::post(&maps, &named)).await;
    let name = made["body"]["metadata"]["name"].as_str().unwrap_or_default();
    talk.note("a generated name", json!([made["code"], name.len(), name.starts_with("made-")]));

    let web = format!("{APPS}/deployments/web");
    let made = talk
        .say("a deployment", Call::post(format!("{APPS}/deployments"), &deployment("web", 0)))
        .await;
    assert_eq!(made["metadata"]["generation"], 1, "{made}");
    // Its controller changes it; those changes are not the server's answer.
    let seen = |generation: u64| {
        move |answer: &Value| answer["body"]["status"]["observedGeneration"] == generation
    };
    talk.until(&web, seen(1)).await;
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    let merge = "application/merge-patch+json";
    let labelled = talk.ask(&Call::patch(&web, merge, &label)).await;
    talk.note("a label is no new generation", labelled["body"]["metadata"]["generation"].clone());
    let more = json!({"spec": {"minReadySeconds": 5}});
    let changed = talk.ask(&Call::patch(&web, merge, &more)).await;
    talk.note("a change is a new generation", changed["body"]["metadata"]["generation"].clone());
    talk.until(&web, seen(2)).await;
    talk.say("get scale", Call::get(format!("{web}/scale"))).await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "conformance"}, "spec": {"replicas": 3}});
    talk.say("put scale", Call::put(format!("{web}/scale"), &scale)).await;
    talk.until(&web, seen(3)).await;
    let scaled = talk.ask(&Call::get(&web)).await;
    talk.note("what it wants now", scaled["body"]["spec"]["replicas"].clone());
    let patched = json!({"spec": {"replicas": 0}});
    talk.say("patch scale", Call::patch(format!("{web}/scale"), merge, &patched)).await;
    talk.until(&web, seen(4)).await;
    let wrong = json!({"spec": {"replicas": -1}});
    talk.say("a negative scale", Call::patch(format!("{web}/scale"), merge, &wrong)).await;
    let both = json!({"spec": {"replicas": 7}, "status": {"replicas": 0, "observedGeneration": 4, "conditions": []}});
    let status = talk.ask(&Call::patch(format!("{web}/status"), merge, &both)).await;
    talk.note(
        "status is all that status changes",
        json!([status["code"], status["body"]["spec"]["replicas"]]),
    );
    talk.say("get status", Call::get(format!("{maps}/one/status"))).await;
    talk.ask(&Call::delete(&web, &Value::Null)).await;
    talk.gone(&web).await;
}
