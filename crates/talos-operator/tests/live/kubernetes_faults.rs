//! Every fault of the simulator's Kubernetes side, and the rollback of a hop that
//! one of them broke.

use crate::bench::Bench;

const HOP: &str = "upgrade k8s --profile test --kubernetes 1.35.4 --yes";
const TALOS: &str = "upgrade os --profile test --talos 1.14.4 --order workers-first --yes";

/// Replicas with a budget that has room for one of them.
const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: \"registry.example.com/web:1\"}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: web}}
";

/// Replicas with a volume each.
const DATABASE: &str = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  replicas: 4
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: \"registry.example.com/db:1\"}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
";

#[test]
fn a_slow_throttling_or_failing_api_is_retried() {
    let bench = Bench::with(3, 2, "1.13.12", "1.34.2", WEB);
    bench.inject("cp-1", "api-throttles=5");
    bench.inject("cp-2", "api-errors=7");
    bench.inject("cp-3", "api-latency=4s");
    bench.run(HOP).code(0).says(&["Kubernetes 1.34.2 → 1.35.4"]);
    bench.run(TALOS).code(0);
    assert_eq!(bench.talos(), ["1.14.4"; 5]);
}

#[test]
fn a_blocking_budget_is_named_and_the_node_uncordoned() {
    let bench = Bench::with(3, 2, "1.13.12", "1.34.2", WEB);
    bench.edit("drain: {timeout: 60s}", "drain: {timeout: 5s}");
    for worker in ["worker-1", "worker-2"] {
        bench.inject(worker, "stuck-budgets");
    }
    let halted = bench.run(TALOS).code(1);
    // Rule 6.
    halted.says(&["halted:", "drain failed", "default/web", "relax their disruption budget"]);
    let health = bench.run("health --profile test");
    assert!(!health.stdout.contains("cordoned"), "rule 7: {health:#?}");
    assert_eq!(bench.talos(), ["1.13.12"; 5]);
    for worker in ["worker-1", "worker-2"] {
        bench.clear(worker, "stuck-budgets");
    }
    bench.edit("drain: {timeout: 5s}", "drain: {timeout: 60s}");
    bench.run("upgrade os --profile test --talos 1.14.4 --yes").code(0);
    assert_eq!(bench.talos(), ["1.14.4"; 5]);
}

#[test]
fn a_volume_that_stays_attached_is_named() {
    let bench = Bench::with(3, 2, "1.13.12", "1.34.2", DATABASE);
    bench.edit("drain: {timeout: 60s}", "drain: {timeout: 20s}");
    for worker in ["worker-1", "worker-2"] {
        bench.inject(worker, "stuck-volumes");
    }
    let halted = bench.run(TALOS).code(1);
    halted.says(&["halted:", "drain failed", "volume", "pvc-"]);
    let health = bench.run("health --profile test");
    assert!(!health.stdout.contains("cordoned"), "rule 7: {health:#?}");
    assert_eq!(bench.talos(), ["1.13.12"; 5]);
}

#[test]
fn a_kubelet_that_never_returns_halts_the_run_which_resumes_later() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    bench.edit("component: 90s", "component: 20s");
    bench.inject("worker-1", "kubelet-never-returns");
    let halted = bench.run(HOP).code(1);
    halted.says(&["halted:", "the kubelet of worker-1 did not come back", "resume --profile test"]);
    bench.clear("worker-1", "kubelet-never-returns");
    bench.run("resume --profile test").code(0);
    bench.run("health --profile test").code(0).says(&["Kubernetes  worker-1  Ready, kubelet 1.35"]);
}

#[test]
fn components_are_rolled_back_to_their_images() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    let boots = bench.boots();
    bench.edit("component: 90s", "component: 20s");
    for node in ["cp-1", "cp-2", "cp-3"] {
        bench.inject(node, "kubelet-never-returns");
    }
    bench.run(HOP).code(1).says(&["halted:", "set-kubelet failed"]);
    for node in ["cp-1", "cp-2", "cp-3"] {
        bench.clear(node, "kubelet-never-returns");
    }
    bench.edit("component: 20s", "component: 90s");
    let back = bench.run("rollback --kubernetes --profile test --yes").code(0);
    back.says(&["Rollback plan", "Kubernetes 1.35.4 → 1.34.2", "no reboots"]);
    let health = bench.run("health --profile test").code(0);
    health.says(&["it is at 1.34.2", "worker-1  Ready, kubelet 1.34.2"]);
    assert_eq!(bench.boots(), boots, "no node reboots for Kubernetes");
    // There is nothing left to take back.
    let none = bench.run("rollback --kubernetes --profile test --yes").code(1);
    none.says(&["nothing to roll back"]);
}

#[test]
fn an_image_of_a_pod_that_cannot_be_pulled_is_named() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    bench.edit("manifests: 90s", "manifests: 20s");
    bench.inject("worker-1", "failing-image=registry.k8s.io/kube-proxy");
    let halted = bench.run(HOP).code(1);
    halted.says(&["halted:", "sync-manifests failed", "kube-proxy"]);
    bench.clear("worker-1", "failing-image=registry.k8s.io/kube-proxy");
    bench.run("resume --profile test").code(0);
}
