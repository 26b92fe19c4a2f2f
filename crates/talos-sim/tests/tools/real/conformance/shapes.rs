//! The form of answers: tables, partial metadata, discovery, versions.

use serde_json::{Value, json};

use super::objects::{ROOM, config};
use super::talk::{Call, Talk};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const META: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METAS: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                }},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object", "required": ["size"],
                            "properties": {
                                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                            },
                        },
                        "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    },
                }},
            }],
        },
    })
}

fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("shapes");
    let maps = format!("{ROOM}/configmaps");
    let labels = json!({"set": "shaped"});
    talk.ask(&Call::post(&maps, &config("s1", &labels, &json!({"a": "1"})))).await;
    let one = format!("{maps}/s1");
    let some = format!("{maps}?labelSelector=set%3Dshaped");
    let table = talk.say("one as a table", Call::get(&one).accepting(TABLE)).await;
    assert_eq!(table["kind"], "Table");
    talk.say("many as a table", Call::get(&some).accepting(TABLE)).await;
    talk.say(
        "a table with objects",
        Call::get(format!("{some}&includeObject=Object")).accepting(TABLE),
    )
    .await;
    talk.say(
        "a table with nothing",
        Call::get(format!("{some}&includeObject=None")).accepting(TABLE),
    )
    .await;
    talk.say("one's metadata", Call::get(&one).accepting(META)).await;
    talk.say("many's metadata", Call::get(&some).accepting(METAS)).await;
    talk.say("an unsupported media type", Call::get(&one).accepting("application/xml")).await;
    for (step, path) in [
        ("table of namespaces", "/api/v1/namespaces?fieldSelector=metadata.name%3Dconformance"),
        ("table of no pods", "/api/v1/namespaces/conformance/pods"),
        ("table of no deployments", "/apis/apps/v1/namespaces/conformance/deployments"),
        ("table of no nodes", "/api/v1/nodes?fieldSelector=metadata.name%3Dnobody"),
        ("table of no jobs", "/apis/batch/v1/namespaces/conformance/jobs"),
        ("table of no budgets", "/apis/policy/v1/namespaces/conformance/poddisruptionbudgets"),
    ] {
        talk.say(step, Call::get(path).accepting(TABLE)).await;
    }
    talk.say("versions", Call::get("/api")).await;
    for group in ["apps", "batch", "policy", "coordination.k8s.io", "rbac.authorization.k8s.io"] {
        talk.say(&format!("group {group}"), Call::get(format!("/apis/{group}"))).await;
        talk.say(&format!("resources of {group}"), Call::get(format!("/apis/{group}/v1"))).await;
    }
    let all = talk.ask(&Call::get("/apis").accepting(AGGREGATED)).await;
    let groups = all["body"]["items"].as_array().cloned().unwrap_or_default();
    for group in ["apps", "policy"] {
        let found = groups.iter().find(|found| found["metadata"]["name"] == group);
        talk.note(&format!("{group} among all"), json!(found));
    }
    talk.say("no such group", Call::get("/apis/nonsense.example.com")).await;
    talk.say("no such version", Call::get("/apis/apps/v9")).await;

    talk.say("a definition", Call::post(DEFINITION, &definition())).await;
    let things = "/apis/example.com/v1/namespaces/conformance/things";
    talk.until("/apis/example.com/v1", |answer| answer["code"] == 200).await;
    talk.until(things, |answer| answer["code"] == 200).await;
    talk.say("resources of a definition", Call::get("/apis/example.com/v1")).await;
    talk.say("a thing", Call::post(things, &thing("one", &json!({"size": 3})))).await;
    talk.say("too small a thing", Call::post(things, &thing("two", &json!({"size": 0})))).await;
    talk.say("a thing without size", Call::post(things, &thing("two", &json!({})))).await;
    talk.say("a thing of words", Call::post(things, &thing("two", &json!({"size": "big"})))).await;
    talk.say(
        "a green thing",
        Call::post(things, &thing("two", &json!({"size": 1, "color": "green"}))),
    )
    .await;
    let strange = thing("two", &json!({"size": 1, "strange": true}));
    talk.say("a strange thing", Call::post(format!("{things}?fieldValidation=Strict"), &strange))
        .await;
    talk.say(
        "a strange thing, warned",
        Call::post(format!("{things}?fieldValidation=Warn"), &strange),
    )
    .await;
    // The real server has no history from before the first object existed.
    talk.forget().await;
    talk.watch("a version that is forgotten", &format!("{things}?watch=1&resourceVersion=1"), 1)
        .await;
    let merge = "application/merge-patch+json";
    talk.say("scale of a thing", Call::get(format!("{things}/one/scale"))).await;
    talk.say(
        "a larger thing",
        Call::patch(format!("{things}/one"), merge, &json!({"spec": {"size": 4}})),
    )
    .await;
    let status = json!({"spec": {"size": 8}, "status": {"size": 4}});
    talk.say("status of a thing", Call::patch(format!("{things}/one/status"), merge, &status))
        .await;
    talk.say(
        "strategic on a thing",
        Call::patch(format!("{things}/one"), "application/strategic-merge-patch+json", &json!({})),
    )
    .await;
    talk.say("table of things", Call::get(things).accepting(TABLE)).await;
    talk.say("delete a thing", Call::delete(format!("{things}/one"), &Value::Null)).await;
    talk.ask(&Call::delete(format!("{DEFINITION}/things.example.com"), &Value::Null)).await;
    talk.gone(&format!("{DEFINITION}/things.example.com")).await;
    talk.ask(&Call::delete(&one, &Value::Null)).await;
}
