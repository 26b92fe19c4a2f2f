//! Pulling and listing images with both APIs.

use std::time::Duration;

use talos_client::Failure;
use talos_client::image::{ImageStore, LayerState};
use talos_sim::model::EMPTY_SCHEMATIC;
use tokio::time::{Instant, timeout};

use crate::{KUBERNETES, SOON, TALOS_1_12, TALOS_1_14, World, all_of, code, each_version};

each_version!(pulled_and_listed, what_cannot_be_pulled);

fn installer(version: &str) -> String {
    format!("factory.example/metal-installer/{EMPTY_SCHEMATIC}:v{version}")
}

async fn pulled_and_listed(talos: &'static str) {
    let world = World::start("images", talos, 1, 1).await;
    let node = world.node("worker-1");
    let image = installer(TALOS_1_14);
    let proxy = format!("registry.example/kube-proxy:v{KUBERNETES}");
    node.legacy_pull(&proxy, ImageStore::Kubernetes).await.unwrap();
    // A second pull finds the image present.
    node.legacy_pull(&proxy, ImageStore::Kubernetes).await.unwrap();
    if talos == TALOS_1_12 {
        let error = node.pull(&image, ImageStore::System).await.map(|_| ()).unwrap_err();
        assert!(matches!(error.failure(), Failure::NotSupported(_)), "{error:?}");
        let error = node.images(ImageStore::System).await.unwrap_err();
        assert!(matches!(error.failure(), Failure::NotSupported(_)), "{error:?}");
        node.legacy_pull(&image, ImageStore::System).await.unwrap();
        return;
    }
    let names = async |store| -> Vec<String> {
        let images = node.images(store).await.unwrap();
        assert!(images.iter().all(|it| it.size > 0 && it.digest.starts_with("sha256:")));
        images.into_iter().map(|image| image.name).collect()
    };
    assert!(names(ImageStore::Kubernetes).await.contains(&proxy));
    let system = names(ImageStore::System).await;
    assert!(system.iter().any(|name| name.contains("kubelet")) && !system.contains(&image));

    // Each store has its own images.
    for store in [ImageStore::System, ImageStore::Memory] {
        let mut pulling = node.pull(&image, store).await.unwrap();
        let mut layers = Vec::new();
        while let Some(layer) = pulling.next().await.unwrap() {
            layers.push(layer);
        }
        assert!(layers.iter().all(|layer| !layer.layer.is_empty() && layer.elapsed.is_some()));
        let downloading = |state: &LayerState| matches!(state, LayerState::Downloading { done, total } if done <= total && *total > 0);
        assert!(layers.iter().any(|layer| downloading(&layer.state)));
        assert_eq!(layers.last().unwrap().state, LayerState::Extracted);
        assert!(names(store).await.contains(&image));
    }
    let name = node.pull(&image, ImageStore::System).await.unwrap().finish().await.unwrap();
    assert!(name.starts_with("factory.example/metal-installer/"), "{name}");
    assert!(name.contains("@sha256:"), "{name}");
}

async fn what_cannot_be_pulled(talos: &'static str) {
    let world = World::start("unpulled", talos, 1, 1).await;
    let node = world.node("worker-1");
    let pull = async |image: &str| {
        if talos == TALOS_1_12 {
            node.legacy_pull(image, ImageStore::System).await.map(|()| String::new())
        } else {
            node.pull(image, ImageStore::System).await?.finish().await
        }
    };
    let unknown = pull(&installer("1.99.0")).await.unwrap_err();
    assert!(matches!(unknown.failure(), Failure::NotFound(_)), "{unknown:?}");
    let legacy = node.legacy_pull(&installer("1.99.0"), ImageStore::System).await.unwrap_err();
    assert!(matches!(legacy.failure(), Failure::NotFound(_)), "{legacy:?}");
    let nonsense = pull("Not An Image").await.unwrap_err();
    assert!(code(nonsense.failure()).is_some(), "{nonsense:?}");

    world.inject("worker-1", "failing-pull").await;
    let failing = pull(&installer(TALOS_1_14)).await.unwrap_err();
    assert_eq!(code(failing.failure()), Some(tonic::Code::Unknown), "{failing:?}");
    assert!(all_of(&failing).contains("timeout"), "{failing:?}");
    world.clear("worker-1", "failing-pull").await;
    pull(&installer(TALOS_1_14)).await.unwrap();

    let reader = world.client_as("os:reader").node(world.place("worker-1").address.into());
    let denied = reader.legacy_pull(&installer(TALOS_1_14), ImageStore::System).await.unwrap_err();
    assert!(matches!(denied.failure(), Failure::NotAuthorised(_)), "{denied:?}");
}

#[tokio::test]
async fn dropping_a_pull_stops_it() {
    let world = World::start("dropped", TALOS_1_14, 1, 1).await;
    world.inject("worker-1", "slow-pull=10").await;
    let node = world.node("worker-1");
    let image = installer(TALOS_1_14);
    let mut pulling = node.pull(&image, ImageStore::System).await.unwrap();
    let first = timeout(SOON, pulling.next()).await.unwrap().unwrap();
    assert!(first.is_some());
    drop(pulling);
    world.clear("worker-1", "slow-pull").await;
    // The pull would have taken at most 200 virtual seconds, 2 real ones.
    let until = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < until {
        let images = node.images(ImageStore::System).await.unwrap();
        assert!(images.iter().all(|stored| stored.name != image));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
