//! A run that halts with a node armed, and the runs after it (rule 5).

use serde_json::Value;
use testkit::annotation;
use testkit::cluster::{options, shape, start};
use upgrade_core::jiff::SignedDuration;

use crate::world::{World, node_of, operator_with};

const REASON: &str = "TalosUpgradePlanWarning";

/// Another image than the armed one is refused when it is planned. The same image needs
/// no second installer, although a run without a plan came in between. The warnings of a
/// plan are reported as Events.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_halted_run_armed_is_known_to_the_runs_after_it() {
    let world = World::start("armed").await;
    let cluster = start(options(shape("armed", 1, 1, "1.13.9", "1.34.2"))).await;
    world.register("armed", &cluster).await;
    cluster.inject("worker-1", "lost-reboot").await.expect("a fault");
    let (settings, mut impatient) = world.settings("first");
    impatient.policy.timeouts.reboot = SignedDuration::from_secs(10);
    let operator = operator_with((settings, impatient));
    world.annotate("armed", &["accept-outage=true", "talos-target=1.14.0"]).await;
    let object = world.annotated("armed", "talos-status", "failed").await;
    assert!(annotation(&object, "talos-message").contains("worker-1"), "{object:#}");
    let run = world.run_of("armed").await.expect("a run");
    assert_eq!(node_of(&run, "worker-1")["armed"], true, "{run:#}");
    let warned = |it: &Value| {
        let events = it["items"].as_array().map_or(&[][..], Vec::as_slice);
        let about = |event: &&Value| event["reason"] == REASON && event["type"] == "Warning";
        let mut notes = events.iter().filter(about).filter_map(|event| event["message"].as_str());
        notes.any(|note| note.contains("the Kubernetes API is unavailable"))
    };
    world.until("events", "warned of the outage", warned).await;
    operator.stop().await;

    let operator = world.operator("second");
    let refused = |it: &Value| {
        let message = annotation(it, "talos-message");
        message.contains("worker-1 is armed with") && message.contains("talosctl rollback")
    };
    world.annotate("armed", &["talos-target=1.14.1"]).await;
    world.until("kubernetescluster armed", "refused", refused).await;
    let run = world.run_of("armed").await.expect("a run");
    assert_eq!((&run["spec"]["hash"], &run["status"]["phase"]), (&"".into(), &"Halted".into()));

    cluster.clear("worker-1", "lost-reboot").await.expect("no fault");
    world.annotate("armed", &["talos-target=1.14.0"]).await;
    let object = world.annotated("armed", "talos-status", "completed").await;
    assert_eq!(annotation(&object, "talos-current"), "1.14.0");
    let count = cluster.driver().visit(|inside| {
        let node = inside.world.find("worker-1").expect("a node");
        inside.world.truth(node).expect("a node").installs()
    });
    assert_eq!(count.await.expect("the cluster runs"), 1, "rule 5: one installer in all");
    operator.stop().await;
    cluster.stop().await;
}
