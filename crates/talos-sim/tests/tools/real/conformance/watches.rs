//! Watches: events, bookmarks, selections, and histories that are forgotten.

use serde_json::{Value, json};

use super::objects::{ROOM, config};
use super::talk::{Call, Talk};

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("watches");
    let maps = format!("{ROOM}/configmaps");
    let select = "labelSelector=set%3Dwatched";
    let before = talk.ask(&Call::get(format!("{maps}?{select}"))).await;
    let version =
        before["body"]["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let labels = json!({"set": "watched"});
    talk.ask(&Call::post(&maps, &config("w1", &labels, &json!({"a": "1"})))).await;
    let merge = "application/merge-patch+json";
    let one = format!("{maps}/w1");
    talk.ask(&Call::patch(&one, merge, &json!({"data": {"a": "2"}}))).await;
    talk.ask(&Call::patch(&one, merge, &json!({"metadata": {"labels": {"set": "other"}}}))).await;
    talk.ask(&Call::patch(&one, merge, &json!({"metadata": {"labels": {"set": "watched"}}}))).await;
    talk.ask(&Call::delete(&one, &Value::Null)).await;
    let from = format!("{maps}?watch=1&{select}&resourceVersion={version}");
    talk.watch("all that happened", &from, 5).await;
    talk.ask(&Call::post(&maps, &config("w2", &labels, &Value::Null))).await;
    talk.watch("what is there", &format!("{maps}?watch=true&{select}"), 1).await;
    let streaming =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    talk.watch("a list as a watch", &format!("{maps}?watch=1&{select}&{streaming}"), 2).await;
    talk.watch("one by name", &format!("{maps}?watch=1&fieldSelector=metadata.name%3Dw2"), 1).await;
    let ends = format!("{maps}?watch=1&{select}&timeoutSeconds=1");
    talk.watch("until its time is over", &ends, 99).await;
    for (step, query) in [
        ("a version that is none", "watch=1&resourceVersion=abc"),
        ("initial events without a match", "watch=1&sendInitialEvents=true"),
        ("a match without initial events", "watch=1&resourceVersionMatch=NotOlderThan"),
    ] {
        talk.say(step, Call::get(format!("{maps}?{query}"))).await;
    }
    talk.ask(&Call::delete(format!("{maps}?{select}"), &Value::Null)).await;
}
