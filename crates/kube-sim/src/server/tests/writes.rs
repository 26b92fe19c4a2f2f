use super::*;

#[test]
fn errors_are_what_a_real_server_says() {
    let mut talk = Talk::new();
    let message =
        |(code, status): (u16, Value)| (code, status["message"].as_str().unwrap_or("").to_owned());
    let error = message(talk.get("/api/v1/nodes/zz"));
    assert_eq!(error, (404, "nodes \"zz\" not found".to_owned()));
    assert_eq!(talk.get("/apis/foo/v1/x"), (404, Value::Null));
    let error = message(talk.get("/api/v1/foo"));
    assert_eq!(error, (404, "the server could not find the requested resource".to_owned()));
    assert_eq!(talk.put("/api/v1/nodes", &json!({})).0, 405);
    let error = message(
        talk.post("/api/v1/namespaces/default/pods", &json!({"kind": "Node", "apiVersion": "v1"})),
    );
    assert_eq!(
        error.1,
        "Node in version \"v1\" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): \
         unknown conversion"
    );
    let other = json!({"metadata": {"name": "a", "namespace": "other"}});
    assert_eq!(talk.post("/api/v1/namespaces/default/configmaps", &other).0, 400);
    let request = Request::new(Method::Post, "/api/v1/namespaces/default/configmaps");
    assert_eq!(talk.ask(&request.with_content_type("text/plain")).0, 415);
    let xml = Request::get("/api/v1/nodes").accepting("application/xml");
    assert_eq!(talk.ask(&xml).0, 406);
    let (code, status) =
        talk.post("/api/v1/namespaces/default/pods", &json!({"metadata": {"name": "P 1"}}));
    assert_eq!(code, 422);
    let fields: Vec<&Value> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| &cause["field"])
        .collect();
    assert!(
        fields.contains(&&json!("metadata.name")) && fields.contains(&&json!("spec.containers"))
    );
}

#[test]
fn unknown_fields_follow_field_validation() {
    let mut talk = Talk::new();
    let body =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "foo": 1});
    let path = "/api/v1/namespaces/default/configmaps";
    let (code, status) = talk.post(&format!("{path}?fieldValidation=Strict"), &body);
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
             unknown field \"foo\""
        )
    );
    let Reply::Response { status, warnings, .. } =
        talk.send(&Request::new(Method::Post, path).with_json(&body))
    else {
        panic!("no response")
    };
    assert_eq!((status, warnings), (201, vec!["unknown field \"foo\"".to_owned()]));
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut talk = Talk::new();
    let body = json!({"metadata": {"name": "x"}});
    let revision = talk.server.store().revision();
    assert_eq!(talk.post("/api/v1/namespaces/default/configmaps?dryRun=All", &body).0, 201);
    assert_eq!(talk.server.store().revision(), revision);
    assert_eq!(talk.get("/api/v1/namespaces/default/configmaps/x").0, 404);
}

fn deployment(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"x": "1"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";

#[test]
fn server_side_apply_creates_owns_and_conflicts() {
    let mut talk = Talk::new();
    let path = |manager: &str| format!("{DEPLOYMENT}?fieldManager={manager}");
    let (code, object) = talk.patch(&path("them"), APPLY, &deployment(2, "i"));
    assert_eq!(code, 201);
    // What kube-apiserver 1.36.4 writes for the same configuration.
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({
            "f:metadata": {"f:labels": {"f:x": {}}},
            "f:spec": {
                "f:replicas": {}, "f:selector": {},
                "f:template": {
                    "f:metadata": {"f:labels": {"f:a": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:image": {}, "f:name": {},
                    }}},
                },
            },
        })
    );
    let again = talk.patch(&path("them"), APPLY, &deployment(2, "i")).1;
    assert_eq!(again, object, "nothing changed, so there is no new version");
    let five = json!({"spec": {"replicas": 5}});
    assert_eq!(talk.patch(&path("upd"), MERGE, &five).1["metadata"]["generation"], 2);
    let (code, status) = talk.patch(&path("me"), APPLY, &deployment(2, "j"));
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        "Apply failed with 2 conflicts: conflicts with \"them\":\n\
         - .spec.template.spec.containers[name=\"c\"].image\n\
         conflicts with \"upd\" using apps/v1:\n- .spec.replicas"
    );
    let (code, object) =
        talk.patch(&format!("{}&force=true", path("me")), APPLY, &deployment(2, "j"));
    assert_eq!((code, &object["spec"]["replicas"]), (200, &json!(2)));
}

#[test]
fn scale_reads_and_writes_the_replica_count() {
    let mut talk = Talk::new();
    talk.post("/apis/apps/v1/namespaces/default/deployments", &deployment(2, "i"));
    let path = format!("{DEPLOYMENT}/scale");
    let (_, scale) = talk.get(&path);
    assert_eq!(scale["status"]["selector"], "a=b");
    let (code, scale) = talk.patch(&path, MERGE, &json!({"spec": {"replicas": 7}}));
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(7)));
    assert_eq!(talk.get(DEPLOYMENT).1["spec"]["replicas"], 7);
}

#[test]
fn a_budget_is_respected() {
    let mut talk = Talk::new();
    for name in ["a", "b"] {
        talk.pod(name, &json!({"app": "x"}));
    }
    let budget = json!({
        "metadata": {"name": "pdb"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    });
    talk.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget);
    let evict = |talk: &mut Talk, pod: &str, query: &str| {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction{query}");
        let body =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        talk.post(&path, &body)
    };
    // The budget has no numbers yet.
    let (code, status) = evict(&mut talk, "a", "");
    assert_eq!((code, &status["details"]["retryAfterSeconds"]), (429, &json!(10)));
    let numbers = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
        "expectedPods": 2,
    }});
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/pdb";
    assert_eq!(talk.patch(&format!("{path}/status"), MERGE, &numbers).0, 200);
    assert_eq!(evict(&mut talk, "a", "?dryRun=All").0, 201);
    assert_eq!(evict(&mut talk, "a", "").0, 201);
    let budget = talk.get(path).1;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["a"].is_string());
    let (code, status) = evict(&mut talk, "b", "");
    assert_eq!(code, 429);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "reason": "TooManyRequests", "code": 429,
            "details": {"causes": [{
                "reason": "DisruptionBudget",
                "message": "The disruption budget pdb does not allow evicting pods currently",
            }]},
        })
    );
    assert_eq!(evict(&mut talk, "zz", "").0, 404);
    // Evicting a terminating pod disrupts nothing.
    assert_eq!(evict(&mut talk, "a", "").0, 201);
}

#[test]
fn a_deletion_returns_the_object_or_a_status() {
    let mut talk = Talk::new();
    talk.configmap("x", &json!({}));
    let path = "/api/v1/namespaces/default/configmaps/x";
    let wrong = json!({"preconditions": {"uid": "other"}});
    assert_eq!(talk.delete(path, &wrong).0, 409);
    let (code, status) = talk.delete(path, &json!({"propagationPolicy": "Background"}));
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
    assert_eq!(status["details"]["kind"], "configmaps");
    talk.pod("p", &json!({}));
    let (code, pod) =
        talk.delete("/api/v1/namespaces/default/pods/p", &json!({"gracePeriodSeconds": 5}));
    assert_eq!((code, &pod["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(5)));
    talk.configmap("y", &json!({"a": "1"}));
    talk.configmap("z", &json!({}));
    let (_, list) =
        talk.delete("/api/v1/namespaces/default/configmaps?labelSelector=a", &json!({}));
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(talk.get("/api/v1/namespaces/default/configmaps/z").0, 200);
}

#[test]
fn a_namespace_goes_when_it_is_finalized() {
    let mut talk = Talk::new();
    talk.post("/api/v1/namespaces", &json!({"metadata": {"name": "a"}}));
    let (_, namespace) = talk.delete("/api/v1/namespaces/a", &json!({}));
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let refused = talk.post("/api/v1/namespaces/a/configmaps", &json!({"metadata": {"name": "x"}}));
    assert_eq!(refused.0, 403);
    assert_eq!(refused.1["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let body = json!({"metadata": {"name": "a"}, "spec": {"finalizers": []}});
    assert_eq!(talk.put("/api/v1/namespaces/a/finalize", &body).0, 200);
    assert_eq!(talk.get("/api/v1/namespaces/a").0, 404);
}

#[test]
fn events_are_served_in_both_groups() {
    let mut talk = Talk::new();
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Node", "name": "n1"}, "note": "hello",
        "reportingController": "me", "reason": "R", "type": "Normal",
    });
    assert_eq!(talk.post("/apis/events.k8s.io/v1/namespaces/default/events", &event).0, 201);
    let (_, list) = talk.get("/api/v1/events?fieldSelector=involvedObject.name%3Dn1");
    assert_eq!(list["items"][0]["message"], "hello");
    assert_eq!(list["apiVersion"], "v1");
    let (_, list) = talk.get("/apis/events.k8s.io/v1/events");
    assert_eq!(list["items"][0]["note"], "hello");
}
