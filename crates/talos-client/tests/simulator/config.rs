//! Applying configurations: every mode, dry runs and refusals.

use std::time::Duration;

use talos_client::config::ApplyMode;
use talos_client::machine::RebootMode;
use talos_client::resources::{KubeletSpec, MachineConfig, ServiceStatus};
use talos_client::{Failure, Node, Outcome};

use crate::{KUBERNETES, SOON, World, all_of, back_up, each_version};

each_version!(modes, dry_runs, staged, refused);

async fn current(node: &Node) -> String {
    let config = node.get::<MachineConfig>().await.unwrap().expect("a configuration");
    config.spec.0.expose().clone()
}

/// The same configuration with another kubelet.
fn with_kubelet(config: &str, version: &str) -> String {
    let line = config.lines().find(|line| line.contains("/kubelet:")).expect("a kubelet image");
    let image = line.trim().trim_start_matches("image:").trim().trim_matches('"');
    let (name, _) = image.rsplit_once(':').expect("a tag");
    let changed = config.replace(image, &format!("{name}:v{version}"));
    assert_ne!(changed, config);
    changed
}

async fn kubelet(node: &Node) -> String {
    node.get::<KubeletSpec>().await.unwrap().expect("a kubelet").spec.image
}

async fn modes(talos: &'static str) {
    let world = World::start("apply", talos, 1, 1).await;
    let node = world.node("worker-1");
    let old = current(&node).await;
    let new = with_kubelet(&old, "1.34.3");
    // The kubelet is restarted, and nothing else.
    let mut services = node.watch_id::<ServiceStatus>("kubelet");
    let up = |count: usize| {
        move |watch: &talos_client::watch::Watch<ServiceStatus>| watch.state().count() == count
    };
    services.wait_for(SOON, up(1)).await.unwrap();
    let boot_id = node.boot_id().await.unwrap();
    let applied = node.apply_config(new.as_bytes(), ApplyMode::NoReboot).await.unwrap();
    assert_eq!(applied.mode, ApplyMode::NoReboot);
    assert_eq!(applied.warnings, [""; 0]);
    services.wait_for(SOON, up(0)).await.unwrap();
    services.wait_for(SOON, up(1)).await.unwrap();
    assert!(kubelet(&node).await.ends_with(":v1.34.3"));
    assert_eq!(current(&node).await, new);

    // A change without a reboot is applied immediately.
    let applied = node.apply_config(old.as_bytes(), ApplyMode::Auto).await.unwrap();
    assert_eq!(applied.mode, ApplyMode::NoReboot);
    assert_eq!(current(&node).await, old);

    // Applied and reverted: ten virtual seconds are a tenth of a real one, so the old configuration
    // may be back before the test can read it.
    let back_after = Some(Duration::from_secs(10));
    let applied = node.apply_config(new.as_bytes(), ApplyMode::Try { back_after }).await.unwrap();
    assert!(matches!(applied.mode, ApplyMode::Try { .. }));
    let mut watch = node.watch::<MachineConfig>();
    watch
        .wait_for(SOON, |watch| watch.get("v1alpha1").is_some_and(|it| *it.spec.0.expose() == old))
        .await
        .unwrap();
    assert_eq!(node.boot_id().await.unwrap(), boot_id);

    // Only nodes in maintenance mode support this mode.
    let error = node.apply_config(new.as_bytes(), ApplyMode::Reboot).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Refused);
    assert!(matches!(error.error.failure(), Failure::NotSupported(_)), "{error:?}");
}

async fn dry_runs(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-1");
    let old = current(&node).await;
    let new = with_kubelet(&old, "1.34.3");
    for mode in [ApplyMode::Auto, ApplyMode::NoReboot, ApplyMode::Staged] {
        let preview = node.check_config(new.as_bytes(), mode).await.unwrap();
        let details = preview.details.expose();
        assert!(details.contains(":v1.34.3") && details.contains(&format!(":v{KUBERNETES}")));
        assert!(!format!("{preview:?}").contains("1.34.3"), "a difference may hold secrets");
    }
    let preview = node.check_config(old.as_bytes(), ApplyMode::Auto).await.unwrap();
    assert!(preview.details.expose().contains("No changes"));
    assert_eq!(current(&node).await, old);
}

async fn staged(talos: &'static str) {
    let world = World::start("staged", talos, 1, 1).await;
    let node = world.node("worker-1");
    let old = current(&node).await;
    let new = with_kubelet(&old, "1.34.3");
    let applied = node.apply_config(new.as_bytes(), ApplyMode::Staged).await.unwrap();
    assert_eq!(applied.mode, ApplyMode::Staged);
    assert_eq!(current(&node).await, old);
    let boot_id = node.boot_id().await.unwrap();
    node.reboot(RebootMode::Default).await.unwrap();
    back_up(&node, &boot_id).await;
    assert_eq!(current(&node).await, new);
    assert!(kubelet(&node).await.ends_with(":v1.34.3"));
}

async fn refused(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-1");
    let old = current(&node).await;
    // A Kubernetes version that this Talos does not run, an unknown key, invalid YAML, and an empty
    // configuration.
    let too_new = with_kubelet(&old, "1.99.0");
    let unknown = old.replace("machine:\n", "machine:\n    hunter2: token\n");
    for (config, word) in
        [(too_new.as_str(), "1.99.0"), (unknown.as_str(), "unknown keys"), ("{", ""), ("", "")]
    {
        let error = node.apply_config(config.as_bytes(), ApplyMode::Auto).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Refused, "{error:?}");
        assert!(all_of(&error).contains(word), "{word}: {error:?}");
        assert!(node.check_config(config.as_bytes(), ApplyMode::Auto).await.is_err());
    }
    let operator = world.client_as("os:operator").node(world.place("cp-1").address.into());
    let denied = operator.apply_config(old.as_bytes(), ApplyMode::Auto).await.unwrap_err();
    assert_eq!(denied.outcome, Outcome::Refused);
    assert_eq!(current(&node).await, old);
}
