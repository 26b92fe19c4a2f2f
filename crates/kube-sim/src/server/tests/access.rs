//! Authorization tests.

use super::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn robot() -> Caller {
    Caller {
        user: "system:serviceaccount:default:robot".to_owned(),
        groups: vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()],
    }
}

fn ask(talk: &mut Talk, request: &Request) -> (u16, Value) {
    match talk.server.request(talk.now, &robot(), request) {
        Reply::Response { status, body, .. } => {
            (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
        }
        Reply::Watch { .. } => (200, Value::Null),
    }
}

fn get(talk: &mut Talk, path: &str) -> (u16, String) {
    let (code, body) = ask(talk, &Request::get(path));
    (code, body["message"].as_str().unwrap_or_default().to_owned())
}

fn bind(talk: &mut Talk, path: &str, kind: &str, role: &str) {
    let body = json!({
        "metadata": {"name": format!("robot-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    });
    assert_eq!(talk.post(&format!("{RBAC}/{path}"), &body).0, 201);
}

#[test]
fn a_user_without_roles_may_only_use_discovery() {
    let mut talk = Talk::new();
    assert_eq!(get(&mut talk, "/api/v1").0, 200);
    assert_eq!(get(&mut talk, "/version").0, 200);
    let who = r#"User "system:serviceaccount:default:robot""#;
    for (path, message) in [
        (
            "/api/v1/namespaces/default/pods",
            format!(
                r#"pods is forbidden: {who} cannot list resource "pods" in API group "" in the namespace "default""#
            ),
        ),
        (
            "/api/v1/nodes/n1",
            format!(
                r#"nodes "n1" is forbidden: {who} cannot get resource "nodes" in API group "" at the cluster scope"#
            ),
        ),
        (
            "/apis/apps/v1/deployments?watch=1",
            format!(
                r#"deployments.apps is forbidden: {who} cannot watch resource "deployments" in API group "apps" at the cluster scope"#
            ),
        ),
        (
            "/api/v1/namespaces/default",
            format!(
                r#"namespaces "default" is forbidden: {who} cannot get resource "namespaces" in API group "" in the namespace "default""#
            ),
        ),
        ("/metrics", format!(r#"forbidden: {who} cannot get path "/metrics""#)),
    ] {
        assert_eq!(get(&mut talk, path), (403, message), "{path}");
    }
    let evict = Request::new(Method::Post, "/api/v1/namespaces/default/pods/p/eviction");
    let (code, status) = ask(&mut talk, &evict);
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert!(
        status["message"].as_str().unwrap().contains(r#"cannot create resource "pods/eviction""#)
    );
}

#[test]
fn roles_grant_their_rules_in_their_scope() {
    let mut talk = Talk::new();
    let role = json!({
        "metadata": {"name": "reader"},
        "rules": [
            {"apiGroups": [""], "resources": ["pods", "*/status"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["get"]},
        ],
    });
    assert_eq!(talk.post(&format!("{RBAC}/namespaces/default/roles"), &role).0, 201);
    bind(&mut talk, "namespaces/default/rolebindings", "Role", "reader");
    assert_eq!(get(&mut talk, "/api/v1/namespaces/default/pods").0, 200);
    assert_eq!(get(&mut talk, "/api/v1/namespaces/default/pods?watch=1").0, 403);
    assert_eq!(get(&mut talk, "/api/v1/namespaces/kube-system/pods").0, 403);
    assert_eq!(get(&mut talk, "/api/v1/pods").0, 403);
    assert_eq!(get(&mut talk, "/api/v1/namespaces/default/configmaps/one").0, 404);
    assert_eq!(get(&mut talk, "/api/v1/namespaces/default/configmaps/two").0, 403);
    assert_eq!(get(&mut talk, "/api/v1/namespaces/default/services/s/status").0, 404);
    bind(&mut talk, "clusterrolebindings", "ClusterRole", "nobody");
    let (code, message) = get(&mut talk, "/api/v1/nodes");
    let missing = r#": RBAC: clusterrole.rbac.authorization.k8s.io "nobody" not found"#;
    assert!(code == 403 && message.ends_with(missing), "{message}");
    bind(&mut talk, "clusterrolebindings", "ClusterRole", "view");
    assert_eq!(get(&mut talk, "/apis/apps/v1/deployments").0, 200);
    assert_eq!(get(&mut talk, "/api/v1/secrets").0, 403);
    bind(&mut talk, "clusterrolebindings", "ClusterRole", "cluster-admin");
    assert_eq!(get(&mut talk, "/api/v1/secrets").0, 200);
}

#[test]
fn reviews_answer_for_their_subject() {
    let mut talk = Talk::new();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let (code, review) = talk.post(path, &body);
    assert_eq!((code, &review["status"]["allowed"]), (201, &json!(true)));
    let (code, review) = ask(&mut talk, &Request::new(Method::Post, path).with_json(&body));
    assert_eq!((code, &review["status"]["allowed"]), (201, &json!(false)));
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let body = json!({"spec": {
        "user": "x", "groups": ["system:masters"],
        "resourceAttributes": {"verb": "delete", "resource": "nodes"},
    }});
    assert_eq!(talk.post(path, &body).1["status"]["allowed"], true);
}

#[test]
fn a_token_is_valid_for_its_account_until_it_expires() {
    let mut talk = Talk::new();
    let account = json!({"metadata": {"name": "robot"}});
    assert_eq!(talk.post("/api/v1/namespaces/default/serviceaccounts", &account).0, 201);
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let (_, made) = talk.post(path, &json!({"spec": {"expirationSeconds": 600}}));
    let token = made["status"]["token"].as_str().unwrap().to_owned();
    let user = |talk: &Talk| talk.server.account_of(&token).map(|caller| caller.user);
    assert_eq!(user(&talk).as_deref(), Some("system:serviceaccount:default:robot"));
    assert!(!format!("{:?}", talk.server.tokens).contains(&token), "rule 14");
    assert!(talk.server.account_of("token-x").is_none());
    talk.now = talk.now.plus(std::time::Duration::from_secs(601));
    talk.server.advance(talk.now);
    assert_eq!(user(&talk), None);
    let (_, made) = talk.post(path, &json!({}));
    let token = made["status"]["token"].as_str().unwrap().to_owned();
    talk.delete("/api/v1/namespaces/default/serviceaccounts/robot", &json!({}));
    assert_eq!(talk.post("/api/v1/namespaces/default/serviceaccounts", &account).0, 201);
    assert!(talk.server.account_of(&token).is_none(), "another account of the same name");
}
