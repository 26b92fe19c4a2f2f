//! The real kubectl deletes: cascading deletion, finalizers, and the pods that a drain refuses to
//! evict without flags.

use crate::bench::Bench;

/// A pod without an owner, one with local data, and two under a budget.
const WORKLOADS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {nodeName: worker-1, containers: [{name: a, image: 'example.com/a:1'}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cache}
spec:
  replicas: 1
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {labels: {app: cache}}
    spec:
      nodeSelector: {kubernetes.io/hostname: worker-1}
      volumes: [{name: data, emptyDir: {}}]
      containers: [{name: c, image: 'example.com/c:1'}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {kubernetes.io/hostname: worker-1}
      containers: [{name: web, image: 'example.com/web:1'}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web-budget}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
";

async fn bench() -> Bench {
    Bench::quick(1, 1, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_refuses_to_lose_data_without_flags() {
    drains(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_cascades_as_requested() {
    deletes(&bench().await).await;
}

async fn drains(bench: &Bench) {
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", WORKLOADS).await;
    for name in ["cache", "web"] {
        kubectl.ok(&format!("rollout status deployment/{name} --timeout=300s")).await;
    }
    kubectl.ok("wait --for=condition=Ready pod/alone --timeout=300s").await;
    kubectl
        .fails(
            "drain worker-1 --timeout=300s",
            &[
                "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)",
                "use --force to override",
                "default/alone",
                "cannot delete Pods with local storage (use --delete-emptydir-data to override)",
            ],
        )
        .await;
    // No pod was evicted, but the node is cordoned.
    kubectl.ok("get pod alone").await;
    kubectl.says("get node worker-1", &["Ready,SchedulingDisabled"]).await;

    // The server names the budget; kubectl shows it only with `-v=8`.
    let drain = "drain worker-1 --ignore-daemonsets --force --delete-emptydir-data";
    kubectl
        .fails(
            &format!("{drain} --timeout=20s -v=8"),
            &[
                "Cannot evict pod as it would violate the pod's disruption budget.",
                "The disruption budget web-budget needs 2 healthy pods and has 2 currently",
                "DisruptionBudget",
            ],
        )
        .await;
    kubectl.says("get pdb web-budget", &["ALLOWED DISRUPTIONS", "web-budget"]).await;
    kubectl.says("describe pdb web-budget", &["Min available:", "Allowed disruptions:  0"]).await;
    kubectl.ok("delete pdb web-budget").await;
    kubectl.says(&format!("{drain} --timeout=300s"), &["node/worker-1 drained"]).await;
    kubectl.fails("get pod alone", &["NotFound"]).await;
    kubectl.says(&format!("{drain} --timeout=300s"), &["already cordoned", "drained"]).await;
    // No node is schedulable: the other pods stay pending.
    kubectl.says("get pods -l app=web", &["Pending"]).await;
    kubectl.says("describe pods -l app=web", &["Status:", "Pending"]).await;
    kubectl.ok("uncordon worker-1").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
}

async fn deletes(bench: &Bench) {
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", WORKLOADS).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;

    // Orphan: the owner is deleted, its dependents stay without an owner.
    kubectl.ok("delete deployment web --cascade=orphan").await;
    let sets = kubectl.get("replicasets -l app=web").await;
    let set = &sets["items"][0];
    assert!(set["metadata"].get("ownerReferences").is_none(), "{set}");
    let name = set["metadata"]["name"].as_str().expect("a name").to_owned();
    // Foreground: the dependents first, then the owner.
    kubectl.ok(&format!("delete replicaset {name} --cascade=foreground --timeout=300s")).await;
    kubectl.says("get pods -l app=web", &["No resources found"]).await;
    // Background: the owner first, its dependents later.
    kubectl.ok("delete deployment cache --timeout=300s").await;
    kubectl.ok("wait --for=delete pods -l app=cache --timeout=300s").await;

    kubectl
        .says("delete pod alone --grace-period=0 --force", &["pod \"alone\" force deleted"])
        .await;
    kubectl.fails("get pod alone", &["NotFound"]).await;
    kubectl.fails("delete pod alone", &["pods \"alone\" not found"]).await;
    kubectl.ok("delete pod alone --ignore-not-found").await;

    // A finalizer keeps a deleted object until the finalizer is removed.
    for name in ["one", "two", "held"] {
        kubectl.ok(&format!("create configmap {name}")).await;
        kubectl.ok(&format!("label configmap {name} gone=soon")).await;
    }
    let finalizers = |list: &str| {
        format!("patch configmap held --type=merge -p '{{\"metadata\":{{\"finalizers\":{list}}}}}'")
    };
    kubectl.ok(&finalizers("[\"example.com/hold\"]")).await;
    kubectl.says("delete configmap -l gone=soon --wait=false", &["\"one\"", "\"two\""]).await;
    let held = kubectl.get("configmap held").await;
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    kubectl.fails("get configmap one", &["NotFound"]).await;
    kubectl.fails("delete configmap held --timeout=5s", &["timed out waiting"]).await;
    kubectl.ok(&finalizers("null")).await;
    kubectl.ok("wait --for=delete configmap/held --timeout=300s").await;
}
