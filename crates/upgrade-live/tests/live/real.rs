//! The same against real servers, whose answers count.

mod s3;

use serde_json::json;
use testkit::Hub;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::io::Kubernetes as _;
use upgrade_engine::io::kubernetes::{Apply, Evicted, ObjectName};
use upgrade_live::kubernetes::LiveKubernetes;

use super::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_agrees() {
    let tenant = Hub::shared().await.tenant("adapters").await;
    let namespace = tenant.namespace.as_str();
    let kubernetes = LiveKubernetes::from_file(&tenant.admin()).await.expect("a kubeconfig");
    let how = Apply::default();

    // A node without a kubelet, with a pod that a budget covers. Nodes have no namespace:
    // its name is unique on the hub.
    let name = format!("n1-{namespace}");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let n1: NodeName = name.as_str().into();
    kubernetes.apply(&node, "test", how).await.expect("a node");
    let account = ObjectName {
        api_version: "v1".to_owned(),
        kind: "ServiceAccount".to_owned(),
        namespace: namespace.to_owned(),
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
        "metadata": {"name": "web-1", "namespace": namespace, "labels": labels},
        "spec": {"nodeName": name, "containers": [{"name": "web", "image": "example.org/web:1"}]},
    });
    kubernetes.apply(&pod, "test", how).await.expect("a pod");
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    tenant.merge_status("pod web-1", &ready).await;
    let there = kubernetes.pods(Some(&n1)).await.expect("pods").remove(0);
    assert_eq!(kubernetes.evict(&there.name, "another").await.unwrap(), Evicted::Gone);
    for name in ["first", "second"] {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        kubernetes.apply(&budget, "test", how).await.expect("a budget");
        if name == "first" {
            // Rule 6: the budget is named.
            let pods = kubernetes.pods(Some(&n1)).await.expect("pods");
            let pod = pods.first().expect("a pod");
            assert!(pod.ready && pod.controller.is_none());
            let blocked = eventually(changes.clone(), "a budget that counts its pod", || async {
                match kubernetes.evict(&pod.name, &pod.uid).await.ok()? {
                    Evicted::Blocked { budget, why } if why.contains("healthy") => Some(budget),
                    _ => None,
                }
            })
            .await;
            assert_eq!(blocked.as_deref(), Some(format!("{namespace}/first").as_str()));
        }
    }
    let pod = kubernetes.pods(Some(&n1)).await.expect("pods").remove(0);
    // The disruption controller and the caches of the API server need a moment.
    let several = eventually(changes, "two budgets are too many", || async {
        match kubernetes.evict(&pod.name, &pod.uid).await.ok()? {
            Evicted::Blocked { budget: None, why } => Some(why),
            _ => None,
        }
    })
    .await;
    assert!(several.contains("more than one"), "{several}");
    // Other tests may have budgets of their own.
    let budgets = kubernetes.budgets().await.expect("budgets");
    let ours = budgets.iter().filter(|budget| budget.namespace == namespace);
    assert_eq!(ours.count(), 2);
    kubernetes.set_unschedulable(&n1, true).await.expect("a cordon");
    kubernetes.set_unschedulable(&n1, false).await.expect("no cordon");
    assert!(kubernetes.capacity().await.expect("capacity").contains_key(&n1));
    assert!(kubernetes.attachments(&n1).await.expect("attachments").is_empty());
    kubernetes.deprecated().await.expect("metrics");
}
