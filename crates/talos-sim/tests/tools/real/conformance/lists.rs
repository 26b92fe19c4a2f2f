//! Lists: selectors, pages, versions, collections.

use serde_json::{Value, json};

use super::objects::{ROOM, config};
use super::talk::{Call, Talk};

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("lists");
    let maps = format!("{ROOM}/configmaps");
    for (name, tier) in [("l1", "a"), ("l2", "b"), ("l3", "a"), ("l4", "c")] {
        let labels = json!({"set": "listed", "tier": tier});
        talk.ask(&Call::post(&maps, &config(name, &labels, &Value::Null))).await;
    }
    for (step, query) in [
        ("by label", "labelSelector=set%3Dlisted"),
        ("by labels", "labelSelector=set%3Dlisted,tier+in+(a,b),tier!%3Db"),
        ("by no label", "labelSelector=set,!tier"),
        ("by label and name", "labelSelector=set&fieldSelector=metadata.name%3Dl2"),
        ("by not a name", "labelSelector=set&fieldSelector=metadata.name!%3Dl2"),
        ("by a wrong selector", "labelSelector=a+b"),
        ("by a wrong operator", "labelSelector=a+in+b"),
        ("by an unknown field", "fieldSelector=data.x%3D1"),
        ("by a wrong field selector", "fieldSelector=metadata.name"),
        ("first page", "labelSelector=set&limit=2"),
        ("at the latest", "labelSelector=set%3Dlisted&resourceVersion=0"),
        ("at a future", "resourceVersion=99999999"),
        ("at nonsense", "resourceVersion=abc"),
        ("matching nothing", "resourceVersionMatch=Exact"),
        ("exactly zero", "resourceVersion=0&resourceVersionMatch=Exact"),
        ("matching nonsense", "resourceVersion=1&resourceVersionMatch=Nearly"),
        ("a wrong token", "limit=2&continue=abc"),
        ("a token and a version", "limit=2&continue=abc&resourceVersion=1"),
        ("a wrong limit", "limit=abc"),
    ] {
        talk.say(step, Call::get(format!("{maps}?{query}"))).await;
    }
    let selected = format!("{maps}?labelSelector=set&limit=2");
    let page = talk.ask(&Call::get(&selected)).await;
    let token = page["body"]["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    // An object created between two pages is not on the second.
    talk.ask(&Call::post(&maps, &config("l5", &json!({"set": "listed"}), &Value::Null))).await;
    talk.say("second page", Call::get(format!("{selected}&continue={token}"))).await;
    talk.say("nowhere", Call::get("/api/v1/namespaces/nowhere/configmaps")).await;
    let secrets = format!("{ROOM}/secrets?limit=1");
    talk.say("nothing", Call::get(&secrets)).await;
    talk.say("delete some", Call::delete(format!("{maps}?labelSelector=tier%3Da"), &Value::Null))
        .await;
    talk.say("the rest", Call::get(format!("{maps}?labelSelector=set"))).await;
    talk.say("delete all of them", Call::delete(format!("{maps}?labelSelector=set"), &Value::Null))
        .await;
    talk.say("nothing is left", Call::get(format!("{maps}?labelSelector=set"))).await;
}
