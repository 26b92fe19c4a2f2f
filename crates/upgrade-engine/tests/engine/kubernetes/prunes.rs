//! What left the manifests: deleted if everybody is known to agree, and kept
//! otherwise (rule 10). And what must not be overwritten.

use serde_json::{Value, json};
use upgrade_core::advice::{Advice, Permission};
use upgrade_core::policy::{ManifestPolicy, Prune};

use super::*;

const INVENTORY: &str = "ConfigMap kube-system/talos-bootstrap-manifests-inventory";
const URL: &str = "99-https://example.org/cni.yaml";

fn cni() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "cni", "namespace": "kube-system"}})
}

/// A cluster that has applied the manifest of a CNI once.
fn with_cni() -> Arc<World> {
    let world = World::new(3, 0, "1.13.9");
    world.change(|cluster| {
        for sim in cluster.nodes.values_mut().filter(|sim| sim.role == Role::ControlPlane) {
            sim.extra.insert(URL.to_owned(), Some(cni()));
        }
        let inventory = cluster.objects.get_mut(INVENTORY).unwrap();
        inventory["data"]["kube-system_cni_apps_DaemonSet"] = json!("");
        let mut there = cni();
        there["status"] = json!({"observedGeneration": 1});
        cluster.objects.insert("DaemonSet kube-system/cni".to_owned(), there);
    });
    world
}

/// The node's configuration names the manifest, and its download failed.
fn not_downloaded(world: &World, node: &str) {
    world.change(|cluster| {
        let extra = &mut cluster.nodes.get_mut(&node.into()).unwrap().extra;
        extra.insert(URL.to_owned(), None);
    });
}

/// The node's configuration no longer names the manifest.
fn left_out(world: &World, node: &str) {
    world.change(|cluster| {
        cluster.nodes.get_mut(&node.into()).unwrap().extra.remove(URL);
    });
}

fn policy() -> Policy {
    Policy { accept_outage: true, ..Policy::default() }
}

async fn upgraded(world: &Arc<World>, planned: Planned) -> Driver {
    let mut driver = Driver::new(world, &Arc::new(planned.plan));
    assert_eq!(driver.go().await, End::Done, "{}", driver.trace());
    driver
}

fn warned(planned: &Planned) -> String {
    planned.report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_was_not_downloaded_has_not_left() {
    for node in ["cp-1", "cp-3"] {
        let world = with_cni();
        for name in ["cp-1", "cp-2", "cp-3"] {
            if name == node { not_downloaded(&world, name) } else { left_out(&world, name) }
        }
        let planned = planned_as(&world, "1.35.4", false, policy()).await;
        assert_eq!(planned.plan.prune, []);
        let said = warned(&planned);
        assert!(said.contains(&format!("{node} has not rendered or downloaded {URL}")), "{said}");
        upgraded(&world, planned).await;
        assert_eq!(world.acts("delete "), Vec::<String>::new(), "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_that_fails_after_the_plan_holds_all_pruning() {
    let world = with_cni();
    let planned = planned_as(&world, "1.35.4", false, policy()).await;
    let listed: Vec<String> = planned.plan.prune.iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["ConfigMap kube-system/left-over"]);
    not_downloaded(&world, "cp-2");
    let driver = upgraded(&world, planned).await;
    assert_eq!(world.acts("delete "), Vec::<String>::new());
    let why = format!("cp-2 has not rendered or downloaded {URL}");
    let said = driver.messages();
    assert!(said.contains(&why), "rule 11: told while it lasts: {said:?}");
    let held = |it: &String| it.starts_with("nothing is pruned") && it.contains(&why);
    assert!(said.iter().any(held), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn what_one_control_plane_still_renders_stays() {
    let world = with_cni();
    let planned = planned_as(&world, "1.35.4", false, policy()).await;
    left_out(&world, "cp-1");
    left_out(&world, "cp-2");
    let again = planned_as(&world, "1.35.4", false, policy()).await;
    assert_eq!(again.plan.prune, planned.plan.prune, "cp-3 has it");
    upgraded(&world, again).await;
    assert_eq!(world.acts("delete "), ["ConfigMap kube-system/left-over"]);
}

#[tokio::test(start_paused = true)]
async fn what_none_renders_is_listed_and_goes() {
    let world = with_cni();
    for name in ["cp-1", "cp-2", "cp-3"] {
        left_out(&world, name);
    }
    let planned = planned_as(&world, "1.35.4", false, policy()).await;
    let said = warned(&planned);
    assert!(said.contains("ConfigMap kube-system/left-over, DaemonSet kube-system/cni"), "{said}");
    upgraded(&world, planned).await;
    let deleted = world.acts("delete ");
    assert_eq!(deleted, ["ConfigMap kube-system/left-over", "DaemonSet kube-system/cni"]);
}

#[tokio::test(start_paused = true)]
async fn what_left_after_the_plan_waits_for_the_next_one() {
    let world = with_cni();
    let planned = planned_as(&world, "1.35.4", false, policy()).await;
    for name in ["cp-1", "cp-2", "cp-3"] {
        left_out(&world, name);
    }
    upgraded(&world, planned).await;
    assert_eq!(world.acts("delete "), ["ConfigMap kube-system/left-over"]);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_cannot_be_read_holds_all_pruning() {
    let world = with_cni();
    let planned = planned_as(&world, "1.35.4", false, policy()).await;
    world.change(|cluster| cluster.fault = Some(Fault::Unread("cp-3".to_owned())));
    let driver = upgraded(&world, planned).await;
    assert_eq!(world.acts("delete "), Vec::<String>::new());
    let said = driver.messages();
    assert!(said.iter().any(|it| it.starts_with("nothing is pruned")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_definition_goes_with_consent_only() {
    let key = "_things.example.org_apiextensions.k8s.io_CustomResourceDefinition";
    let world = || {
        let world = World::new(1, 0, "1.13.9");
        world.change(|cluster| {
            cluster.objects.get_mut(INVENTORY).unwrap()["data"][key] = json!("");
            let name = "CustomResourceDefinition /things.example.org".to_owned();
            let metadata = json!({"name": "things.example.org"});
            let definition = json!({"kind": "CustomResourceDefinition", "metadata": metadata});
            cluster.objects.insert(name, definition);
        });
        world
    };
    let kept = world();
    let planned = planned_as(&kept, "1.35.4", false, policy()).await;
    let consent = Some(Advice::Allow(Permission::PruneAll));
    let warnings = &planned.report.warnings;
    assert!(warnings.iter().any(|warning| warning.advice() == consent), "{warnings:?}");
    upgraded(&kept, planned).await;
    assert_eq!(kept.acts("delete "), ["ConfigMap kube-system/left-over"]);
    let inventory = kept.cluster().objects[INVENTORY].clone();
    assert_eq!(inventory["data"][key], "", "it may be agreed to later");

    let all = world();
    let policy = Policy { manifests: ManifestPolicy { prune: Prune::All }, ..policy() };
    let planned = planned_as(&all, "1.35.4", false, policy).await;
    upgraded(&all, planned).await;
    let definition = "CustomResourceDefinition things.example.org".to_owned();
    assert!(all.acts("delete ").contains(&definition), "{:?}", all.acts("delete "));
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_if_the_policy_says_so() {
    let world = World::new(1, 0, "1.13.9");
    let policy = Policy { manifests: ManifestPolicy { prune: Prune::None }, ..policy() };
    let planned = planned_as(&world, "1.35.4", false, policy).await;
    assert_eq!(planned.plan.prune, []);
    upgraded(&world, planned).await;
    assert_eq!(world.acts("delete "), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_staged_configuration_is_not_overwritten() {
    // Rule 10: what lies on disk and what runs contradict each other.
    for to in ["1.34.4", "1.35.4"] {
        let world = World::new(1, 2, "1.13.9");
        world.change(|it| it.nodes.get_mut(&"worker-2".into()).unwrap().staged = true);
        let plan = planned(&world, to, false).await;
        let mut driver = Driver::new(&world, &plan);
        let end = driver.go().await;
        let (action, kind, text) = driver.failure(&end);
        assert_eq!((action, kind), (Action::CheckRemovals, FailureKind::Refused), "{text}");
        assert!(text.contains("the disk of worker-2 is not the active one"), "{text}");
        assert_eq!(world.acts("set "), Vec::<String>::new(), "nothing was changed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_inventory_is_found_before_anything_changes() {
    let world = World::new(3, 1, "1.13.9");
    world.change(|cluster| {
        let metadata = json!({"annotations": {"config.k8s.io/owning-inventory": "flux"}});
        let object = json!({"kind": "Deployment", "metadata": metadata});
        cluster.objects.insert("Deployment kube-system/coredns".to_owned(), object);
    });
    let plan = planned(&world, "1.34.4", false).await;
    let mut driver = Driver::new(&world, &plan);
    let end = driver.go().await;
    let (action, kind, text) = driver.failure(&end);
    assert_eq!((action, kind), (Action::CheckRemovals, FailureKind::Refused), "{text}");
    assert!(text.contains("Deployment kube-system/coredns belongs to inventory flux"), "{text}");
    assert_eq!(world.acts("set "), Vec::<String>::new(), "nothing was changed");
}
