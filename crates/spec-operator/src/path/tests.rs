//! The way through both products, cut into stretches.

use serde_json::json;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;

use super::*;
use crate::test_objects::{Hub, control_plane, observed, worker};

fn version(text: &str) -> Version {
    text.parse().expect("a version")
}

fn hub(talos: &str, kubernetes: &str) -> Hub {
    let mut hub = Hub::usual();
    hub.control_planes[0].spec.version = Some(talos.to_owned());
    hub.workers[0].spec.version = Some(talos.to_owned());
    hub.control_planes[0].spec.kube_version = Some(kubernetes.to_owned());
    hub
}

fn of(hub: &Hub, observed: &Observed, rollback: bool) -> Path {
    let unit = hub.unit();
    let matching = Matching::of(&unit, &observed.identities());
    let (matrix, catalogue) = (Matrix::builtin(), Catalogue::builtin());
    path(&unit, &matching, observed, rollback, Releases { matrix: &matrix, catalogue: &catalogue })
}

#[track_caller]
fn stretch(hub: &Hub, observed: &Observed, rollback: bool) -> Stretch {
    match of(hub, observed, rollback) {
        Path::Stretch(stretch) => *stretch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_minors_of_both_are_stretches_of_one_product() {
    // Rule 13.
    let hub = hub("v1.14.1", "v1.36.0");
    let mut now = observed("1.11.6", "1.31.4");
    let mut products = Vec::new();
    loop {
        let stretch = match of(&hub, &now, false) {
            Path::Done => break,
            Path::Stretch(stretch) => *stretch,
            Path::Refused(why) => panic!("{why}"),
        };
        products.push(stretch.product);
        let one_product = match stretch.product {
            Product::Talos => stretch.intent.kubernetes.is_none(),
            Product::Kubernetes => {
                stretch.intent.talos.is_none() && stretch.intent.nodes.is_empty()
            }
        };
        assert!(one_product, "{stretch:?}");
        match stretch.product {
            Product::Talos => {
                now.nodes.values_mut().for_each(|node| node.talos = stretch.to.clone());
            }
            Product::Kubernetes => {
                now.kubernetes = VersionRange { lowest: stretch.to.clone(), newest: stretch.to };
            }
        }
        assert!(products.len() < 10, "{products:?}");
    }
    assert!(products.windows(2).all(|pair| pair[0] != pair[1]), "{products:?}");
    assert_eq!(products[0], Product::Talos);
    assert!(products.contains(&Product::Kubernetes));
    assert_eq!(now.kubernetes.lowest, version("1.36.0"));
    assert!(now.nodes.values().all(|node| node.talos == version("1.14.1")));
}

#[test]
fn what_runs_is_done() {
    assert_eq!(of(&hub("v1.13.9", "v1.35.0"), &observed("1.13.9", "1.35.0"), false), Path::Done);
    let mut hub = hub("v1.13.9", "v1.35.0");
    hub.control_planes[0].spec.version = None;
    hub.control_planes[0].spec.kube_version = None;
    hub.workers[0].spec.version = None;
    assert_eq!(of(&hub, &observed("1.10.3", "1.31.0"), false), Path::Done, "nothing is asked for");
}

#[test]
fn an_impossible_pair_is_refused_before_anything_moves() {
    let Path::Refused(why) = of(&hub("v1.12.4", "v1.36.0"), &observed("1.12.0", "1.34.0"), false)
    else {
        panic!("Talos 1.12 does not run Kubernetes 1.36");
    };
    assert!(why.contains("1.36"), "{why}");
    assert!(matches!(
        of(&hub("v1.99.0", "v1.35.0"), &observed("1.13.9", "1.35.0"), false),
        Path::Refused(_)
    ));
}

#[test]
fn pools_with_other_versions_move_together_as_far_as_they_go() {
    let mut hub = hub("v1.13.9", "v1.34.0");
    hub.workers[0].spec.version = Some("v1.12.11".to_owned());
    let stretch = stretch(&hub, &observed("1.12.4", "1.34.0"), false);
    assert_eq!((stretch.product, stretch.more), (Product::Talos, false));
    let reaches = |name: &str| stretch.intent.talos_of(&name.into()).cloned();
    assert_eq!(reaches("cp-1"), Some(version("1.13.9")));
    assert_eq!(reaches("blue-1"), Some(version("1.12.11")));
}

#[test]
fn an_image_gets_the_tag_of_the_version_on_the_way() {
    let schematic = "a".repeat(64);
    let image = format!("factory.talos.dev/metal-installer/{schematic}:v1.14.1");
    let mut hub = hub("v1.14.1", "v1.36.0");
    let list = json!({"machineSpec": {"image": image}, "machines": [{"address": "10.0.0.1"},
        {"address": "10.0.0.2"}, {"address": "10.0.0.3"}]});
    hub.control_planes[0] = control_plane(
        "prod",
        json!({"version": "v1.14.1", "kubeVersion": "v1.36.0", "metalSpec": list}),
    );
    let first = stretch(&hub, &observed("1.11.6", "1.31.4"), false);
    assert!(first.more && first.to < version("1.14.1"), "{}", first.to);
    let upgrade_core::intent::Installer::Image(image) = first.intent.installer_of(&"cp-1".into())
    else {
        panic!("an image");
    };
    assert_eq!(image.version(), Some(first.to.clone()));
    assert!(image.repository.ends_with(&schematic));
    // Once the version runs, the other schematic alone is a run.
    let there = observed("1.14.1", "1.36.0");
    let content = stretch(&hub, &there, false);
    assert_eq!((content.product, content.more), (Product::Talos, false));
    let mut has = there;
    has.nodes.values_mut().for_each(|node| node.schematic = Some(schematic.clone()));
    assert_eq!(of(&hub, &has, false), Path::Done);
}

#[test]
fn what_is_older_than_what_runs_is_named() {
    // Rule 13.
    let mut hub = hub("v1.13.9", "v1.34.0");
    hub.workers[0] = worker(
        "blue",
        json!({"version": "v1.13.8", "metalSpec": {"machines": [
        {"address": "10.0.0.11"}, {"address": "10.0.0.12", "version": "v1.13.9"}]}}),
    );
    let observed = observed("1.13.9", "1.35.0");
    let unit = hub.unit();
    let found = below(&unit, &Matching::of(&unit, &observed.identities()), &observed);
    let found: Vec<_> =
        found.iter().map(|it| (it.product, it.node.as_ref().map(|it| it.0.as_str()))).collect();
    assert_eq!(found, [(Product::Talos, Some("blue-1")), (Product::Kubernetes, None)]);
    hub.hold_worker(0);
    let unit = hub.unit();
    let found = below(&unit, &Matching::of(&unit, &observed.identities()), &observed);
    assert_eq!(found.len(), 1, "what is held is left alone");
}

#[test]
fn going_back_is_a_stretch_as_well() {
    let stretch = stretch(&hub("v1.13.8", "v1.35.0"), &observed("1.13.9", "1.35.0"), true);
    assert_eq!((stretch.product, stretch.to), (Product::Talos, version("1.13.8")));
    assert!(stretch.intent.rollback);
}
