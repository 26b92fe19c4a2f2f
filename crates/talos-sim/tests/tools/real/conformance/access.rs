//! Service accounts, their tokens, and the permissions of their roles.

use serde_json::{Value, json};

use super::objects::ROOM;
use super::talk::{Call, Talk};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/conformance";
const REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Sends a request as another user, and records the answer here.
async fn say(talk: &mut Talk, robot: &mut Talk, step: &str, call: Call) {
    let answer = robot.ask(&call).await;
    talk.note(step, answer);
}

pub(crate) async fn chapter(talk: &mut Talk) {
    talk.begin("access");
    let account = json!({"metadata": {"name": "robot"}});
    talk.say("an account", Call::post(format!("{ROOM}/serviceaccounts"), &account)).await;
    let path = format!("{ROOM}/serviceaccounts/robot/token");
    let made = talk.ask(&Call::post(&path, &json!({"spec": {"expirationSeconds": 3600}}))).await;
    let token = made["body"]["status"]["token"].as_str().expect("a token").to_owned();
    talk.note("its token", json!([made["code"], made["body"]["spec"]["expirationSeconds"]]));
    let mut robot = talk.with_token(&token);
    let mut stranger = talk.with_token("nonsense");
    let pods = format!("{ROOM}/pods");
    say(talk, &mut stranger, "an unknown token", Call::get(&pods)).await;
    say(talk, &mut robot, "list", Call::get(&pods)).await;
    say(talk, &mut robot, "get", Call::get(format!("{pods}/p"))).await;
    say(talk, &mut robot, "watch everywhere", Call::get("/apis/apps/v1/deployments?watch=1")).await;
    say(talk, &mut robot, "a namespace", Call::get(ROOM)).await;
    say(talk, &mut robot, "a node", Call::delete("/api/v1/nodes/n", &Value::Null)).await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    say(talk, &mut robot, "evict", Call::post(format!("{pods}/p/eviction"), &eviction)).await;
    say(talk, &mut robot, "delete all", Call::delete(&pods, &Value::Null)).await;
    say(talk, &mut robot, "a path", Call::get("/metrics")).await;
    say(talk, &mut robot, "look around", Call::get("/apis/policy")).await;
    let ask = json!({"spec": {"resourceAttributes": {
        "verb": "list", "resource": "pods", "namespace": "conformance",
    }}});
    let may = robot.ask(&Call::post(REVIEW, &ask)).await;
    talk.note("may it", json!([may["code"], may["body"]["status"]["allowed"]]));
    let role = json!({"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]});
    talk.say("a role", Call::post(format!("{RBAC}/roles"), &role)).await;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "conformance"}],
    });
    talk.say("a binding", Call::post(format!("{RBAC}/rolebindings"), &binding)).await;
    // The real server notices after a moment.
    robot.until(&pods, |answer| answer["code"] == 200).await;
    say(talk, &mut robot, "still not get", Call::get(format!("{pods}/p"))).await;
    let lost = json!({
        "metadata": {"name": "lost"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lost"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "conformance"}],
    });
    talk.ask(&Call::post(format!("{RBAC}/rolebindings"), &lost)).await;
    let not_found = |answer: &Value| {
        answer["body"]["message"].as_str().is_some_and(|text| text.contains("not found"))
    };
    robot.until(&format!("{pods}/p"), not_found).await;
    say(talk, &mut robot, "a role that is missing", Call::get(format!("{pods}/p"))).await;
}
