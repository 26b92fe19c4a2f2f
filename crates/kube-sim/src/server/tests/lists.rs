use super::*;

#[test]
fn pages_show_one_version() {
    let mut talk = Talk::new();
    for name in ["a", "b", "c"] {
        talk.configmap(name, &json!({}));
    }
    let (_, page) = talk.get("/api/v1/configmaps?limit=2");
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    talk.configmap("d", &json!({}));
    talk.delete("/api/v1/namespaces/default/configmaps/c", &json!({}));
    let (_, page) = talk.get(&format!("/api/v1/configmaps?limit=2&continue={token}"));
    let names: Vec<&Value> =
        page["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["c"]);
    talk.server.compact();
    let (code, status) = talk.get(&format!("/api/v1/configmaps?limit=2&continue={token}"));
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    assert_eq!(talk.get("/api/v1/configmaps?continue=abc").0, 400);
}

#[test]
fn versions_of_lists() {
    let mut talk = Talk::new();
    talk.configmap("a", &json!({}));
    let version = talk.server.store().revision();
    talk.configmap("b", &json!({}));
    let count = |list: &Value| list["items"].as_array().unwrap().len();
    let exact = format!("/api/v1/configmaps?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(count(&talk.get(&exact).1), 1);
    assert_eq!(count(&talk.get(&format!("/api/v1/configmaps?resourceVersion={version}")).1), 2);
    let (code, status) = talk.get("/api/v1/configmaps?resourceVersion=99999");
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
}

#[test]
fn a_table_of_nodes() {
    let mut talk = Talk::new();
    let node = json!({
        "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": true},
        "status": {
            "nodeInfo": {"kubeletVersion": "v1.36.0"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    assert_eq!(talk.post("/api/v1/nodes", &node).0, 201);
    talk.now = talk.now.plus(std::time::Duration::from_secs(318));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (code, table) = talk.ask(&Request::get("/api/v1/nodes").accepting(table));
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(
        cells[..5],
        [
            json!("n1"),
            json!("Ready,SchedulingDisabled"),
            json!("control-plane"),
            json!("5m18s"),
            json!("v1.36.0"),
        ]
    );
    assert_eq!(cells.len(), table["columnDefinitions"].as_array().unwrap().len());
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let types = crate::types::Types::default();
    for kind in types.iter() {
        let object = json!({"metadata": {"name": "a"}});
        let columns = table::columns(kind, &kind.version).len();
        let cells = table::cells(kind, &kind.version, &object, Time::default()).len();
        assert_eq!(columns, cells, "{}", kind.name);
    }
}

#[test]
fn discovery_in_both_forms() {
    let mut talk = Talk::new();
    let (_, list) = talk.get("/api/v1");
    let names: Vec<&str> =
        list["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    for name in ["nodes", "nodes/status", "pods/eviction", "namespaces/finalize"] {
        assert!(names.contains(&name), "{name}");
    }
    let (_, groups) = talk.get("/apis");
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "apps"));
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (_, list) = talk.ask(&Request::get("/apis").accepting(accept));
    assert_eq!(list["kind"], "APIGroupDiscoveryList");
    assert_eq!(talk.get("/apis/nothing.io").0, 404);
    assert_eq!(talk.get("/version").1["gitVersion"], "v1.36.4");
    assert_eq!(talk.get("/healthz").0, 200);
}

#[test]
fn openapi_has_shapes_and_parameters() {
    let mut talk = Talk::new();
    let (_, index) = talk.get("/openapi/v3");
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let (_, document) = talk.get(&url);
    let patch =
        &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("io.k8s.api.core.v1.PodSpec"));
}
