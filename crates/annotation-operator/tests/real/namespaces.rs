//! An operator that watches one namespace.

use testkit::{Hub, annotation};

use crate::world::World;

/// A cluster of another namespace has a target too, and was there first.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_leaves_other_namespaces_alone() {
    let hub = Hub::shared().await;
    let other = hub.tenant("unwatched").await;
    let world = World::on(&hub, "watched").await;
    other.cluster("outside").await;
    other.annotate("outside", &["talos-target=1.13.9"]).await;
    world.cluster("inside").await;
    world.annotate("inside", &["talos-target=1.13.9"]).await;
    let operator = world.operator("only");
    // There is no Secret, and the message says so.
    let reported = |it: &serde_json::Value| !annotation(it, "talos-message").is_empty();
    world.until("kubernetescluster inside", "told", reported).await;
    let outside = other.get("kubernetescluster outside").await;
    assert_eq!(annotation(&outside, "talos-message"), "", "{outside:#}");
    assert_eq!(annotation(&outside, "talos-status"), "", "{outside:#}");
    operator.stop().await;
}
