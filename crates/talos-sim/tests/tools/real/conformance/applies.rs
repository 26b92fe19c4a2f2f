//! Server-side apply: ownership, conflicts, force, and removed fields.

use serde_json::{Value, json};

use super::objects::{APPS, ROOM, deployment};
use super::talk::{Call, Talk};

const APPLY: &str = "application/apply-patch+yaml";

fn apply(path: &str, manager: &str, more: &str, body: &Value) -> Call {
    Call::patch(format!("{path}?fieldManager={manager}{more}"), APPLY, body)
}

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data})
}

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("applies");
    let path = format!("{ROOM}/configmaps/applied");
    talk.say("create", apply(&path, "one", "", &map(&json!({"a": "1", "b": "1"})))).await;
    talk.say("again", apply(&path, "one", "", &map(&json!({"a": "1", "b": "1"})))).await;
    talk.say("conflict", apply(&path, "two", "", &map(&json!({"a": "2"})))).await;
    talk.say("two conflicts", apply(&path, "two", "", &map(&json!({"a": "2", "b": "2"})))).await;
    talk.say("shared", apply(&path, "two", "", &map(&json!({"b": "1", "c": "1"})))).await;
    talk.say("force", apply(&path, "two", "&force=true", &map(&json!({"a": "2", "b": "1"})))).await;
    talk.say("one drops its fields", apply(&path, "one", "", &map(&json!({})))).await;
    talk.say("two drops a field of its own", apply(&path, "two", "", &map(&json!({"a": "2"}))))
        .await;
    let merge = "application/merge-patch+json";
    let edit =
        Call::patch(format!("{path}?fieldManager=hand"), merge, &json!({"data": {"a": "9"}}));
    talk.say("an edit by hand", edit).await;
    talk.say("conflict with a hand", apply(&path, "two", "", &map(&json!({"a": "2"})))).await;
    talk.say("dry apply", apply(&path, "two", "&force=true&dryRun=All", &map(&json!({"a": "3"}))))
        .await;
    talk.say("afterwards", Call::get(&path)).await;
    talk.say("no manager", Call::patch(&path, APPLY, &map(&json!({})))).await;
    let no_kind = json!({"metadata": {"name": "applied"}});
    talk.say("no kind", apply(&path, "one", "", &no_kind)).await;
    let mut managed = map(&json!({}));
    managed["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Apply"}]);
    talk.say("managed fields", apply(&path, "one", "", &managed)).await;
    let mut other = map(&json!({}));
    other["metadata"]["name"] = json!("other");
    talk.say("another name", apply(&path, "one", "", &other)).await;
    let unknown = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "strange": 1});
    talk.say("an unknown field", apply(&path, "one", "", &unknown)).await;
    let strict = "&fieldValidation=Strict";
    talk.say("an unknown field, strictly", apply(&path, "one", strict, &unknown)).await;
    let yaml = Call::patch(format!("{ROOM}/configmaps/yaml?fieldManager=one"), APPLY, &Value::Null)
        .with_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata:\n  a: 'yes'\n");
    talk.say("yaml", yaml).await;

    let web = format!("{APPS}/deployments/applied");
    let mut wanted = deployment("applied", 0);
    talk.say("a deployment", apply(&web, "one", "", &wanted)).await;
    let seen = |generation: u64| {
        move |answer: &Value| answer["body"]["status"]["observedGeneration"] == generation
    };
    talk.until(&web, seen(1)).await;
    wanted["spec"]["template"]["spec"]["containers"] = json!([
        {"name": "main", "image": "example.com/main:2"}, {"name": "side", "image": "example.com/side:1"},
    ]);
    talk.ask(&apply(&web, "one", "", &wanted)).await;
    let now = talk.until(&web, seen(2)).await;
    let owned = now["metadata"]["managedFields"]
        .as_array()
        .and_then(|entries| entries.iter().find(|entry| entry["operation"] == "Apply").cloned());
    talk.note(
        "fields of lists by key",
        json!([owned, now["spec"]["template"]["spec"]["containers"]]),
    );
    let side = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "applied"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:2"}]}}},
    });
    talk.say("conflict in a list", apply(&web, "two", "", &side)).await;
    talk.ask(&Call::delete(&web, &Value::Null)).await;
    talk.gone(&web).await;
}
