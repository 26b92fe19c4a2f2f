//! Invalid requests, and the status and code of their answers.

use serde_json::{Value, json};

use super::changes::{JSON, MERGE, pod};
use super::objects::{APPS, ROOM, config, deployment};
use super::talk::{Call, Talk};

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("bad");
    bodies(talk).await;
    options(talk).await;
    changes(talk).await;
    workloads(talk).await;
}

fn named(name: &str) -> Value {
    config(name, &Value::Null, &Value::Null)
}

fn with(field: &str, value: Value) -> Value {
    let mut object = named("plain");
    object[field] = value;
    object
}

async fn bodies(talk: &mut Talk) {
    let maps = format!("{ROOM}/configmaps");
    let post = |body: &Value| Call::post(format!("{ROOM}/configmaps"), body);
    let plain = named("plain");
    talk.say("unknown path", Call::get("/nonsense")).await;
    talk.say("unknown resource", Call::get("/api/v1/namespaces/conformance/nonsense")).await;
    talk.say("unknown subresource", Call::get(format!("{maps}/x/nonsense"))).await;
    talk.say("unknown version", Call::get("/api/v9/pods")).await;
    talk.say("cluster resource in a namespace", Call::get(format!("{ROOM}/nodes"))).await;
    talk.say("create without a namespace", Call::post("/api/v1/configmaps", &plain)).await;
    talk.say("unknown kind", post(&with("kind", json!("Nonsense")))).await;
    talk.say("another kind", post(&with("kind", json!("Secret")))).await;
    talk.say("unknown version in the data", post(&with("apiVersion", json!("v9")))).await;
    talk.say("another version in the data", post(&with("apiVersion", json!("apps/v1")))).await;
    talk.say("malformed json", post(&Value::Null).with_text("{\"kind\": \"ConfigMap\",")).await;
    talk.say("json of nothing", post(&Value::Null).with_text("null")).await;
    talk.say("json of a list", post(&json!([]))).await;
    talk.say("json of a word", post(&json!("word"))).await;
    talk.say("empty body", post(&Value::Null)).await;
    talk.say("missing name", post(&named(""))).await;
    talk.say("missing metadata", post(&json!({"apiVersion": "v1", "kind": "ConfigMap"}))).await;
    talk.say("too long a name", post(&named(&"n".repeat(254)))).await;
    talk.say("a name of capitals", post(&named("Capital"))).await;
    talk.say("a name with a slash", post(&named("a/b"))).await;
    talk.say("a wrong label", post(&config("plain", &json!({"a b": "c"}), &Value::Null))).await;
    talk.say(
        "a wrong value of a label",
        post(&config("plain", &json!({"a": "b c"}), &Value::Null)),
    )
    .await;
    talk.say("a wrong key of data", post(&config("plain", &Value::Null, &json!({"a b": "c"}))))
        .await;
    talk.say("a wrong type", post(&config("plain", &Value::Null, &json!({"a": 1})))).await;
    talk.say("a wrong shape", post(&with("metadata", json!("plain")))).await;
    let mut elsewhere = plain.clone();
    elsewhere["metadata"]["namespace"] = json!("default");
    talk.say("another namespace", post(&elsewhere)).await;
    let mut versioned = plain.clone();
    versioned["metadata"]["resourceVersion"] = json!("1");
    talk.say("a version at birth", post(&versioned)).await;
    talk.say("wrong content type", post(&plain).of_kind("text/plain")).await;
}

async fn options(talk: &mut Talk) {
    let maps = format!("{ROOM}/configmaps");
    let plain = named("plain");
    let strict = format!("{maps}?fieldValidation=Strict");
    let warn = format!("{maps}?fieldValidation=Warn");
    let strange = with("strange", json!(1));
    talk.say("unknown field, strictly", Call::post(&strict, &strange)).await;
    talk.say("field twice, strictly", Call::post(&strict, &Value::Null).with_text(
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"twice\"},\"data\":{\"a\":\"1\",\"a\":\"2\"}}",
    )).await;
    talk.say("unknown field, warned", Call::post(format!("{warn}&dryRun=All"), &strange)).await;
    talk.say(
        "unknown field, ignored",
        Call::post(format!("{maps}?fieldValidation=Ignore&dryRun=All"), &strange),
    )
    .await;
    talk.say("wrong validation", Call::post(format!("{maps}?fieldValidation=Perhaps"), &plain))
        .await;
    talk.say("wrong dry run", Call::post(format!("{maps}?dryRun=Some"), &plain)).await;
    talk.say(
        "too long a manager",
        Call::post(format!("{maps}?fieldManager={}", "m".repeat(129)), &plain),
    )
    .await;
}

async fn changes(talk: &mut Talk) {
    let maps = format!("{ROOM}/configmaps");
    let plain = named("plain");
    talk.ask(&Call::post(&maps, &plain)).await;
    let path = format!("{maps}/plain");
    talk.say("put without a name", Call::put(&path, &named(""))).await;
    talk.say("put another name", Call::put(&path, &named("other"))).await;
    talk.say("post to a name", Call::post(&path, &plain)).await;
    talk.say("put to all", Call::put(&maps, &plain)).await;
    talk.say("patch of all", Call::patch(&maps, MERGE, &json!({}))).await;
    talk.say("patch of no type", Call::patch(&path, "text/plain", &json!({}))).await;
    talk.say("patch of json", Call::patch(&path, "application/json", &json!({}))).await;
    talk.say("patch that is malformed", Call::patch(&path, MERGE, &Value::Null).with_text("{"))
        .await;
    talk.say(
        "json patch that is malformed",
        Call::patch(&path, JSON, &Value::Null).with_text("[{"),
    )
    .await;
    talk.say("patch with force", Call::patch(format!("{path}?force=true"), MERGE, &json!({})))
        .await;
    talk.say("deletion of nonsense", Call::delete(&path, &Value::Null).with_text("{")).await;
    talk.ask(&Call::patch(&path, MERGE, &json!({"immutable": true}))).await;
    talk.say("immutable data", Call::patch(&path, MERGE, &json!({"data": {"a": "1"}}))).await;
    talk.say("immutable for ever", Call::patch(&path, MERGE, &json!({"immutable": false}))).await;
    talk.say(
        "immutable birth",
        Call::patch(
            &path,
            MERGE,
            &json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}, "immutable": true}),
        ),
    )
    .await;
    talk.ask(&Call::delete(&path, &Value::Null)).await;
}

async fn workloads(talk: &mut Talk) {
    let deployments = format!("{APPS}/deployments");
    talk.say(
        "a bare deployment",
        Call::post(&deployments, &json!({"metadata": {"name": "bare"}, "spec": {}})),
    )
    .await;
    let mut differs = deployment("differs", 0);
    differs["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    talk.say("a selector that does not match", Call::post(&deployments, &differs)).await;
    talk.ask(&Call::post(&deployments, &deployment("fixed", 0))).await;
    talk.until(&format!("{deployments}/fixed"), |answer| {
        answer["body"]["status"]["observedGeneration"] == 1
    })
    .await;
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "fixed", "more": "x"}}, "template": {"metadata": {"labels": {"app": "fixed", "more": "x"}}}}});
    talk.say(
        "an immutable selector",
        Call::patch(format!("{deployments}/fixed"), MERGE, &selector),
    )
    .await;
    talk.say(
        "negative replicas",
        Call::patch(format!("{deployments}/fixed"), MERGE, &json!({"spec": {"replicas": -1}})),
    )
    .await;
    talk.ask(&Call::delete(format!("{deployments}/fixed"), &Value::Null)).await;
    let pods = format!("{ROOM}/pods");
    talk.say(
        "a pod of nothing",
        Call::post(&pods, &json!({"metadata": {"name": "empty"}, "spec": {"containers": []}})),
    )
    .await;
    let mut twice = pod("twice", &Value::Null);
    twice["spec"]["containers"][1]["name"] = json!("a");
    talk.say("a container twice", Call::post(&pods, &twice)).await;
    let mut shapeless = pod("shapeless", &Value::Null);
    shapeless["spec"]["containers"][0]["image"] = json!(1);
    talk.say("a numbered image", Call::post(&pods, &shapeless)).await;
}
