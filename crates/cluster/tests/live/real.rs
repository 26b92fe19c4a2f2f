//! The same against a real API server, whose words are the ones that count.

use std::time::Duration;

use real_control_plane::{ControlPlane, Options, Tools};
use serde_json::json;
use upgrade_cluster::kubernetes::LiveKubernetes;
use upgrade_engine::io::Kubernetes as _;
use upgrade_engine::io::kubernetes::{Apply, Evicted, ObjectName};

use super::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_agrees() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().canonicalize().expect("a path").join("plane");
    let starting = folder.clone();
    let plane = tokio::task::spawn_blocking(move || {
        ControlPlane::start(Options::new(&starting, Tools::find().expect("the tools")))
    });
    let plane = plane.await.expect("no panic").expect("a control plane");
    let kubeconfig = root.path().join("kubeconfig");
    std::fs::write(&kubeconfig, plane.kubeconfig().expect("a kubeconfig")).expect("written");
    let kubernetes = LiveKubernetes::from_file(&kubeconfig).await.expect("a kubeconfig");
    let how = Apply::default();

    // A node that nobody runs, with a pod that a budget covers.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    kubernetes.apply(&node, "test", how).await.expect("a node");
    let account = ObjectName {
        api_version: "v1".to_owned(),
        kind: "ServiceAccount".to_owned(),
        namespace: "default".to_owned(),
        name: "default".to_owned(),
    };
    let changes = kubernetes.changes();
    eventually(changes.clone(), "the default service account", || async {
        kubernetes.object(&account).await.ok()?
    })
    .await;
    let labels = json!({"app": "web"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "default", "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "web", "image": "example.org/web:1"}]},
    });
    kubernetes.apply(&pod, "test", how).await.expect("a pod");
    let ready = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let status = root.path().join("status.json");
    std::fs::write(&status, ready.to_string()).expect("written");
    let patched = plane
        .kubectl()
        .args(["patch", "pod", "web-1", "--subresource=status", "--type=merge", "--patch-file"])
        .arg(&status)
        .output()
        .expect("kubectl starts");
    assert!(patched.status.success(), "{}", String::from_utf8_lossy(&patched.stderr));
    let there = kubernetes.pods(Some(&"n1".into())).await.expect("pods").remove(0);
    assert_eq!(kubernetes.evict(&there.name, "another").await.unwrap(), Evicted::Gone);
    for name in ["first", "second"] {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        kubernetes.apply(&budget, "test", how).await.expect("a budget");
        if name == "first" {
            // Rule 6: the budget is named.
            let pods = kubernetes.pods(Some(&"n1".into())).await.expect("pods");
            let pod = pods.first().expect("a pod");
            assert!(pod.ready && pod.controller.is_none());
            let blocked = eventually(changes.clone(), "a budget that counts its pod", || async {
                match kubernetes.evict(&pod.name, &pod.uid).await.ok()? {
                    Evicted::Blocked { budget, why } if why.contains("healthy") => Some(budget),
                    _ => None,
                }
            })
            .await;
            assert_eq!(blocked.as_deref(), Some("default/first"));
        }
    }
    let pod = kubernetes.pods(Some(&"n1".into())).await.expect("pods").remove(0);
    // The disruption controller and the server's own lists take a moment.
    let several = eventually(changes, "two budgets are too many", || async {
        match kubernetes.evict(&pod.name, &pod.uid).await.ok()? {
            Evicted::Blocked { budget: None, why } => Some(why),
            _ => None,
        }
    })
    .await;
    assert!(several.contains("more than one"), "{several}");
    assert_eq!(kubernetes.budgets().await.expect("budgets").len(), 2);
    kubernetes.set_unschedulable(&"n1".into(), true).await.expect("a cordon");
    kubernetes.set_unschedulable(&"n1".into(), false).await.expect("no cordon");
    assert!(kubernetes.capacity().await.expect("capacity").contains_key(&"n1".into()));
    assert!(kubernetes.attachments(&"n1".into()).await.expect("attachments").is_empty());
    kubernetes.deprecated().await.expect("metrics");
    tokio::time::timeout(Duration::from_mins(1), tokio::task::spawn_blocking(|| plane.stop()))
        .await
        .expect("it stops")
        .expect("no panic")
        .expect("it stops well");
}
