//! The real kubectl changes existing objects: nodes, workloads and their parts, with every type of
//! patch, and waits for the effects.

use serde_json::json;

use crate::bench::Bench;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  # Of simulated time, and these tests take their own.
  progressDeadlineSeconds: 360000
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'example.com/web:1', env: [{name: A, value: '1'}]}
      - {name: helper, image: 'example.com/helper:1'}
";

async fn bench() -> Bench {
    Bench::quick(1, 2, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_marked() {
    marks_nodes(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_patched_with_every_patch_type() {
    patches(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_proceed_and_are_undone() {
    rolls_out(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_times_out() {
    waits(&bench().await).await;
}

async fn marks_nodes(bench: &Bench) {
    let kubectl = bench.kubectl();
    kubectl.says("label node worker-1 rack=a", &["node/worker-1 labeled"]).await;
    kubectl.says("label node worker-1 rack=a", &["node/worker-1 not labeled"]).await;
    kubectl.fails("label node worker-1 rack=b", &["already has a value (a)"]).await;
    kubectl.ok("label node worker-1 rack=b --overwrite").await;
    assert_eq!(kubectl.ok("get nodes -l rack=b -o name").await.trim(), "node/worker-1");
    assert_eq!(kubectl.ok("get nodes -l rack!=b -o name").await.lines().count(), 2);
    kubectl.says("get nodes -L rack", &["RACK"]).await;
    kubectl.says("label node worker-1 rack-", &["node/worker-1 unlabeled"]).await;

    kubectl.says("annotate node worker-1 note=one", &["node/worker-1 annotated"]).await;
    kubectl.fails("annotate node worker-1 note=two", &["--overwrite is false"]).await;
    kubectl.ok("annotate node worker-1 note=two --overwrite").await;
    assert_eq!(kubectl.get("node worker-1").await["metadata"]["annotations"]["note"], "two");
    kubectl.ok("annotate node worker-1 note-").await;
    let node = kubectl.get("node worker-1").await;
    assert!(node["metadata"]["annotations"].get("note").is_none(), "{node}");
    kubectl.fails("annotate node nobody note=one", &["nodes \"nobody\" not found"]).await;

    kubectl.says("taint node worker-1 only=mine:NoSchedule", &["node/worker-1 tainted"]).await;
    kubectl.says("describe node worker-1", &["only=mine:NoSchedule", "Non-terminated Pods"]).await;
    kubectl.ok("taint node worker-1 only-").await;
}

async fn patches(bench: &Bench) {
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", DEPLOYMENT).await;
    let containers = async || {
        let deployment = kubectl.get("deployment web").await;
        deployment["spec"]["template"]["spec"]["containers"].clone()
    };
    // A strategic merge patch merges lists by name, and loses nothing else.
    let image = json!({"name": "web", "image": "example.com/web:2"});
    let spec = |containers: serde_json::Value| {
        json!({"spec": {"template": {"spec": {"containers": containers}}}}).to_string()
    };
    let patch =
        |kind: &str, patch: &str| format!("patch deployment web --type={kind} -p '{patch}'");
    let one = spec(json!([image]));
    kubectl.says(&patch("strategic", &one), &["deployment.apps/web patched"]).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.says(&patch("strategic", &one), &["deployment.apps/web patched (no change)"]).await;
    let now = containers().await;
    assert_eq!(now[0]["image"], "example.com/web:2");
    assert_eq!(now[0]["env"], json!([{"name": "A", "value": "1"}]));
    assert_eq!(now[1]["name"], "helper");
    let away = json!([{"name": "helper", "$patch": "delete"}]);
    kubectl.ok(&patch("strategic", &spec(away))).await;
    assert_eq!(containers().await.as_array().map(Vec::len), Some(1));

    // A merge patch replaces lists, and removes fields that are null.
    kubectl.ok(&patch("merge", &one)).await;
    assert!(containers().await[0].get("env").is_none());
    kubectl.ok(&patch("merge", r#"{"metadata":{"labels":{"app":null,"tier":"front"}}}"#)).await;
    let labels = kubectl.get("deployment web").await["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"tier": "front"}));

    // A JSON patch applies all of its steps, or none.
    let steps = json!([
        {"op": "test", "path": "/spec/replicas", "value": 2},
        {"op": "replace", "path": "/spec/replicas", "value": 1},
        {"op": "add", "path": "/metadata/labels/more", "value": "yes"},
    ]);
    kubectl.ok(&patch("json", &steps.to_string())).await;
    assert_eq!(kubectl.get("deployment web").await["spec"]["replicas"], 1);
    kubectl.fails(&patch("json", &steps.to_string()), &["the server rejected our request"]).await;
    kubectl
        .fails(&patch("merge", r#"{"spec":{"replicas":"many"}}"#), &["spec.replicas of type int32"])
        .await;
    let moved = r#"{"spec":{"selector":{"matchLabels":{"app":"other"}}}}"#;
    kubectl.fails(&patch("merge", moved), &["field is immutable"]).await;
}

async fn rolls_out(bench: &Bench) {
    let kubectl = bench.kubectl();
    let status = "rollout status deployment/web --timeout=300s";
    kubectl.ok_with("apply -f -", DEPLOYMENT).await;
    kubectl.says(status, &["successfully rolled out"]).await;
    kubectl.ok("set image deployment/web web=example.com/web:2").await;
    kubectl.says(status, &["successfully rolled out"]).await;
    kubectl.says("rollout history deployment/web", &["REVISION", "2"]).await;
    kubectl.says("rollout undo deployment/web", &["deployment.apps/web rolled back"]).await;
    kubectl.says(status, &["successfully rolled out"]).await;
    let deployment = kubectl.get("deployment web").await;
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, "example.com/web:1");
    kubectl.says("rollout restart deployment/web", &["deployment.apps/web restarted"]).await;
    kubectl.says(status, &["successfully rolled out"]).await;
    kubectl.ok("rollout restart daemonset/kube-proxy -n kube-system").await;
    kubectl
        .says(
            "rollout status daemonset/kube-proxy -n kube-system --timeout=300s",
            &["daemon set \"kube-proxy\" successfully rolled out"],
        )
        .await;

    // A rollout that cannot pull its image never completes.
    for node in ["worker-1", "worker-2"] {
        bench.cluster.inject(node, "failing-pull").await.expect("a fault");
    }
    kubectl.ok("set image deployment/web web=example.com/web:3").await;
    kubectl.fails("rollout status deployment/web --timeout=10s", &["timed out"]).await;
    for node in ["worker-1", "worker-2"] {
        bench.cluster.clear(node, "failing-pull").await.expect("the fault was cleared");
    }
    kubectl.says(status, &["successfully rolled out"]).await;
}

async fn waits(bench: &Bench) {
    let kubectl = bench.kubectl();
    kubectl.fails("wait --for=create deployment/web --timeout=10s", &["timed out"]).await;
    kubectl.ok_with("apply -f -", DEPLOYMENT).await;
    kubectl.ok("wait --for=create deployment/web --timeout=300s").await;
    kubectl
        .says("wait --for=condition=Available deployment/web --timeout=300s", &["condition met"])
        .await;
    let replicas = "--for=jsonpath={.status.readyReplicas}=2";
    kubectl.says(&format!("wait {replicas} deployment/web --timeout=300s"), &["met"]).await;
    kubectl.ok("wait --for=condition=Ready pods -l app=web --timeout=300s").await;
    kubectl.ok("wait --for=condition=Ready nodes --all --timeout=300s").await;
    kubectl
        .fails(
            "wait --for=condition=Nonsense deployment/web --timeout=10s",
            &["timed out waiting for the condition on deployments/web"],
        )
        .await;
    kubectl.ok("delete deployment web --wait=false").await;
    kubectl.ok("wait --for=delete deployment/web --timeout=300s").await;
    kubectl.ok("wait --for=delete pods -l app=web --timeout=300s").await;
}
