//! Evictions, with and without a blocking budget.

use serde_json::{Value, json};

use super::changes::{STRATEGIC, pod};
use super::objects::ROOM;
use super::talk::{Call, Talk};

const BUDGETS: &str = "/apis/policy/v1/namespaces/conformance/poddisruptionbudgets";

fn budget(name: &str, app: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name}, "spec": spec,
    });
    object["spec"]["selector"] = json!({"matchLabels": {"app": app}});
    object
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "conformance"}})
}

/// A pod whose status says that it is running.
async fn run(talk: &mut Talk, name: &str, app: &str) {
    let pods = format!("{ROOM}/pods");
    talk.ask(&Call::post(&pods, &pod(name, &json!({"app": app})))).await;
    let status = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"},
    ]}});
    talk.ask(&Call::patch(format!("{pods}/{name}/status"), STRATEGIC, &status)).await;
}

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("evictions");
    let evict = |name: &str| Call::post(format!("{ROOM}/pods/{name}/eviction"), &eviction(name));
    for name in ["e1", "e2"] {
        run(talk, name, "guarded").await;
    }
    talk.say(
        "a budget",
        Call::post(BUDGETS, &budget("guard", "guarded", &json!({"minAvailable": 2}))),
    )
    .await;
    let path = format!("{BUDGETS}/guard");
    let counted = |healthy: u64, allowed: u64| {
        move |answer: &Value| {
            let status = &answer["body"]["status"];
            status["currentHealthy"] == healthy
                && status["disruptionsAllowed"] == allowed
                && status["observedGeneration"] == answer["body"]["metadata"]["generation"]
        }
    };
    let status = talk.until(&path, counted(2, 0)).await;
    talk.note("its status", status["status"].clone());
    talk.say("refused", evict("e1")).await;
    let dry = Call::post(format!("{ROOM}/pods/e1/eviction?dryRun=All"), &eviction("e1"));
    talk.say("refused on trial", dry).await;
    let merge = "application/merge-patch+json";
    talk.ask(&Call::patch(&path, merge, &json!({"spec": {"minAvailable": 1}}))).await;
    let status = talk.until(&path, counted(2, 1)).await;
    talk.note("its status then", status["status"].clone());
    talk.say("allowed", evict("e1")).await;
    talk.gone(&format!("{ROOM}/pods/e1")).await;
    talk.until(&path, counted(1, 0)).await;
    talk.say("the next one is refused", evict("e2")).await;
    talk.say("a missing pod", evict("nobody")).await;
    talk.say("another name", Call::post(format!("{ROOM}/pods/e2/eviction"), &eviction("e1"))).await;
    talk.say(
        "no name",
        Call::post(
            format!("{ROOM}/pods/e2/eviction"),
            &json!({"apiVersion": "policy/v1", "kind": "Eviction"}),
        ),
    )
    .await;
    talk.say(
        "another kind",
        Call::post(
            format!("{ROOM}/pods/e2/eviction"),
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e2"}}),
        ),
    )
    .await;
    talk.say("a get", Call::get(format!("{ROOM}/pods/e2/eviction"))).await;
    talk.say(
        "a second budget",
        Call::post(BUDGETS, &budget("second", "guarded", &json!({"maxUnavailable": 0}))),
    )
    .await;
    talk.say("two budgets", evict("e2")).await;
    let both = json!({"minAvailable": 1, "maxUnavailable": 1});
    talk.say("a budget of both kinds", Call::post(BUDGETS, &budget("both", "x", &both))).await;
    run(talk, "free", "free").await;
    talk.say("without a budget", evict("free")).await;
    talk.gone(&format!("{ROOM}/pods/free")).await;
    talk.ask(&Call::post(format!("{ROOM}/pods"), &pod("waits", &json!({"app": "guarded"})))).await;
    talk.say("what has not begun", evict("waits")).await;
    let bind = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "e2"}, "target": {"kind": "Node", "name": "nowhere"}});
    talk.say("bind", Call::post(format!("{ROOM}/pods/e2/binding"), &bind)).await;
    talk.say("bind again", Call::post(format!("{ROOM}/pods/e2/binding"), &bind)).await;
    talk.ask(&Call::delete(format!("{ROOM}/pods/e2"), &json!({"gracePeriodSeconds": 0}))).await;
    talk.ask(&Call::delete(BUDGETS, &Value::Null)).await;
}
