//! The real kubectl and other objects: creating, changing, waiting, deleting, and invalid requests.

use testkit::workloads::WEB;

use crate::bench::Bench;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing.
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How large it is.}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '1'}}\n")
}

async fn bench() -> Bench {
    Bench::quick(1, 2, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_from_apply_to_delete() {
    let bench = bench().await;
    let kubectl = bench.kubectl();
    let made = kubectl.ok_with("apply -f -", WEB).await;
    assert!(made.contains("deployment.apps/web created"), "{made}");
    let again = kubectl.ok_with("apply -f -", WEB).await;
    assert!(again.contains("deployment.apps/web unchanged"), "{again}");
    kubectl
        .says("rollout status deployment/web --timeout=300s", &["successfully rolled out"])
        .await;
    kubectl.says("wait --for=condition=Available deployment/web --timeout=300s", &["met"]).await;
    kubectl.says("get deployment web", &["READY", "2/2"]).await;
    let changed = WEB.replace("web:1", "web:2");
    let changed = kubectl.ok_with("apply -f -", &changed).await;
    assert!(changed.contains("deployment.apps/web configured"), "{changed}");
    kubectl
        .says("rollout status deployment/web --timeout=300s", &["successfully rolled out"])
        .await;
    kubectl.says("get pods -l app=web -o wide", &["Running", "worker-"]).await;
    let pods = kubectl.get("pods -l app=web").await;
    assert_eq!(pods["items"][0]["spec"]["containers"][0]["image"], "example.com/web:2");
    kubectl.says("scale deployment web --replicas=1", &["scaled"]).await;
    kubectl.says("describe deployment web", &["1 desired", "RollingUpdateStrategy"]).await;
    kubectl.says("delete deployment web", &["deployment.apps \"web\" deleted"]).await;
    kubectl.ok("wait --for=delete pod -l app=web --timeout=300s").await;
    kubectl.says("get pods -l app=web", &["No resources found"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_tracks_field_owners() {
    let bench = bench().await;
    let kubectl = bench.kubectl();
    let object = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: own}}\ndata: {{key: {value}}}\n"
        )
    };
    let apply = |manager: &str| format!("apply --server-side --field-manager={manager} -f -");
    let one = kubectl.ok_with(&apply("one"), &object("a")).await;
    assert!(one.contains("configmap/own serverside-applied"), "{one}");
    kubectl
        .fails_with(
            &apply("two"),
            &object("b"),
            &["Apply failed with 1 conflict: conflict with \"one\": .data.key"],
        )
        .await;
    kubectl.ok_with(&format!("{} --force-conflicts", apply("two")), &object("b")).await;
    let now = kubectl.get("configmap own --show-managed-fields").await;
    assert_eq!(now["data"]["key"], "b");
    let managers: Vec<&str> = now["metadata"]["managedFields"]
        .as_array()
        .expect("managers")
        .iter()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert!(managers.contains(&"two"), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn small_changes() {
    let bench = bench().await;
    let kubectl = bench.kubectl();
    // These subcommands send protobuf.
    kubectl.says("create configmap small --from-literal=a=1", &["configmap/small created"]).await;
    kubectl.says("annotate configmap small note=yes", &["annotated"]).await;
    kubectl.says("label configmap small tier=one", &["labeled"]).await;
    kubectl.fails("label configmap small tier=two", &["--overwrite is false"]).await;
    kubectl.ok("label configmap small tier-").await;
    kubectl.ok("patch configmap small --type=merge -p '{\"data\":{\"b\":\"2\"}}'").await;
    let json = "[{\"op\":\"replace\",\"path\":\"/data/a\",\"value\":\"3\"}]";
    kubectl.ok(&format!("patch configmap small --type=json -p '{json}'")).await;
    kubectl.ok("patch configmap small --type=strategic -p '{\"data\":{\"c\":\"4\"}}'").await;
    let now = kubectl.get("configmap small").await;
    assert_eq!(now["data"], serde_json::json!({"a": "3", "b": "2", "c": "4"}));
    assert_eq!(now["metadata"]["annotations"]["note"], "yes");
    kubectl.ok("patch configmap small --dry-run=server --type=merge -p '{\"data\":null}'").await;
    assert_eq!(kubectl.get("configmap small").await["data"]["a"], "3");
    kubectl.says("delete configmap small --wait=true", &["deleted"]).await;
    kubectl.says("create namespace room", &["namespace/room created"]).await;
    kubectl.ok_with("create -n room -f -", &config_map("inside")).await;
    kubectl.says("delete namespace room --timeout=300s", &["namespace \"room\" deleted"]).await;
    kubectl.fails("get configmap inside -n room", &["not found"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources() {
    let bench = bench().await;
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", DEFINITION).await;
    kubectl.ok("wait --for=condition=Established crd/things.example.com --timeout=300s").await;
    kubectl.says("explain things", &["KIND:", "Thing", "A thing."]).await;
    kubectl.says("explain thing.spec.size", &["How large it is."]).await;
    let thing = |size: &str| {
        format!(
            "apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: t}}\nspec: {{size: {size}}}\n"
        )
    };
    kubectl.ok_with("apply -f -", &thing("3")).await;
    kubectl.says("get th", &["SIZE", "3"]).await;
    kubectl.fails_with("apply -f -", &thing("0"), &["should be greater than or equal to 1"]).await;
    kubectl
        .fails_with("apply --validate=false -f -", &thing("{}"), &["must be of type integer"])
        .await;
    kubectl.ok("delete crd things.example.com --timeout=300s").await;
    kubectl.fails("get things", &["(NotFound)"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused() {
    let bench = bench().await;
    let kubectl = bench.kubectl();
    kubectl.fails("get nonsense", &["the server doesn't have a resource type \"nonsense\""]).await;
    kubectl.fails("get --raw /nowhere", &["NotFound"]).await;
    let twice = config_map("twice");
    kubectl.ok_with("create -f -", &twice).await;
    let error =
        "(AlreadyExists): error when creating \"STDIN\": configmaps \"twice\" already exists";
    kubectl.fails_with("create -f -", &twice, &[error]).await;
    let nameless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'Bad_Name'}\n";
    kubectl
        .fails_with("create -f -", nameless, &["is invalid: metadata.name: Invalid value"])
        .await;
    let strange = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\nstrange: 1\n";
    kubectl.fails_with("apply -f -", strange, &["unknown field \"strange\""]).await;
    let nowhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: nowhere}\n";
    kubectl.fails_with("create -f -", nowhere, &["namespaces \"nowhere\" not found"]).await;
    let bare = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: s}\nspec: {}\n";
    kubectl
        .fails_with("create --validate=false -f -", bare, &["is invalid", "Required value"])
        .await;
    let old = kubectl.ok("get configmap twice -o json").await;
    kubectl.ok("label configmap twice a=b").await;
    kubectl.fails_with("replace -f -", &old, &["the object has been modified"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_objects() {
    let bench = bench().await;
    let kubectl = bench.kubectl();
    let item = |name: &str, more: &str| {
        format!("- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}{more}}}\n")
    };
    let list = |items: &str| format!("apiVersion: v1\nkind: List\nitems:\n{items}");
    let both = list(&format!("{}{}", item("l1", ", data: {a: '1'}"), item("l2", "")));
    let made = kubectl.ok_with("apply -f -", &both).await;
    assert_eq!(made, "configmap/l1 created\nconfigmap/l2 created\n");
    let again = kubectl.ok_with("apply -f -", &both).await;
    assert_eq!(again, "configmap/l1 unchanged\nconfigmap/l2 unchanged\n");
    let strange = list(&item("l1", ", strange: 1"));
    kubectl.fails_with("apply -f -", &strange, &["unknown field \"strange\""]).await;
    // Objects missing from the list are pruned on request.
    let prune = "apply -f - --prune -l set=pruned --prune-allowlist=core/v1/ConfigMap";
    let labelled = |name: &str| {
        format!(
            "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{set: pruned}}}}}}\n"
        )
    };
    kubectl.ok_with(prune, &list(&format!("{}{}", labelled("p1"), labelled("p2")))).await;
    let pruned = kubectl.ok_with(prune, &list(&labelled("p1"))).await;
    assert!(pruned.contains("configmap/p2 pruned"), "{pruned}");
    kubectl.ok_with("delete -f -", &both).await;
}
