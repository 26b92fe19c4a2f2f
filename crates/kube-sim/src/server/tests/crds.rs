use super::*;

fn definition() -> Value {
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "shortNames": ["th"]},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                    },
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object", "required": ["mode"],
                                "properties": {
                                    "size": {"type": "integer", "default": 3, "minimum": 0},
                                    "mode": {"type": "string", "enum": ["a", "b"]},
                                    "parts": {
                                        "type": "array", "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["id"],
                                        "items": {"type": "object", "properties": {
                                            "id": {"type": "string"}, "v": {"type": "string"},
                                        }},
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        },
                    }},
                },
                {"name": "v1beta1", "served": true, "storage": false,
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ],
        },
    })
}

const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

fn talk() -> Talk {
    let mut talk = Talk::new();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(talk.post(path, &definition()).0, 201);
    talk
}

#[test]
fn a_definition_is_established_and_served() {
    let mut talk = talk();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
    let (_, definition) = talk.get(path);
    assert_eq!(definition["status"]["conditions"][1]["type"], "Established");
    assert_eq!(definition["spec"]["names"]["listKind"], "ThingList");
    assert_eq!(talk.get("/apis/example.com").1["preferredVersion"]["version"], "v1");
    let (_, document) = talk.get("/openapi/v3/apis/example.com/v1");
    assert!(document["components"]["schemas"]["com.example.v1.Thing"].is_object());
    talk.delete(path, &json!({}));
    assert_eq!(talk.get(THINGS).0, 404);
}

#[test]
fn objects_get_defaults_pruning_and_validation() {
    let mut talk = talk();
    let thing = |spec: Value| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec,
            "status": {"size": 9},
        })
    };
    let (code, made) = talk.post(THINGS, &thing(json!({"mode": "a", "other": 1})));
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"], json!({"mode": "a", "size": 3}));
    assert_eq!(made.get("status"), None);
    assert_eq!(made["metadata"]["generation"], 1);
    let (code, status) = talk.post(THINGS, &thing(json!({"mode": "c", "size": -1})));
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert_eq!(status["details"]["causes"].as_array().unwrap().len(), 2);
    assert_eq!(talk.post(THINGS, &thing(json!({}))).0, 422);
    let path = format!("{THINGS}/t");
    let (_, changed) = talk.patch(
        &format!("{path}/status"),
        MERGE,
        &json!({"status": {"size": 1}, "spec": {"size": 8}}),
    );
    assert_eq!((&changed["status"]["size"], &changed["spec"]["size"]), (&json!(1), &json!(3)));
    assert_eq!(talk.get(&format!("{path}/scale")).1["spec"]["replicas"], 3);
    assert_eq!(talk.patch(&path, STRATEGIC, &json!({})).0, 415);
    let other = talk.get("/apis/example.com/v1beta1/namespaces/default/things/t").1;
    assert_eq!(other["apiVersion"], "example.com/v1beta1");
    let table = Request::get(THINGS).accepting("application/json;as=Table;v=v1;g=meta.k8s.io");
    assert_eq!(talk.ask(&table).1["rows"][0]["cells"], json!(["t", 3]));
}

#[test]
fn server_side_apply_uses_the_list_types() {
    let mut talk = talk();
    let config = |parts: Value| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"},
            "spec": {"mode": "a", "parts": parts},
        })
    };
    let path = |manager: &str| format!("{THINGS}/t?fieldManager={manager}&force=true");
    talk.patch(&path("one"), APPLY, &config(json!([{"id": "x", "v": "1"}])));
    let (_, thing) = talk.patch(&path("two"), APPLY, &config(json!([{"id": "y", "v": "2"}])));
    assert_eq!(thing["spec"]["parts"].as_array().unwrap().len(), 2);
    let (_, thing) = talk.patch(&path("one"), APPLY, &config(json!([])));
    assert_eq!(thing["spec"]["parts"], json!([{"id": "y", "v": "2"}]));
}

#[test]
fn objects_are_deleted_with_their_definition() {
    let mut talk = talk();
    let thing = json!({"metadata": {"name": "t"}, "spec": {"mode": "a"}});
    assert_eq!(talk.post(THINGS, &thing).0, 201);
    talk.watch(&format!("{THINGS}?watch=1"));
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
    talk.delete(path, &json!({}));
    assert_eq!(kinds_of(&talk.received()), ["ADDED", "DELETED"]);
}

#[test]
fn types_survive_serialisation() {
    let mut talk = talk();
    let text = serde_json::to_string(&talk.server).unwrap();
    talk.server = serde_json::from_str(&text).unwrap();
    assert_eq!(talk.get(THINGS).0, 200);
}
