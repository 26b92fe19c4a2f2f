//! Pulls the images that the hop needs, ahead of time.

use futures_util::future::try_join_all;
use upgrade_core::image::ImageRef;
use upgrade_core::plan::{Change, Target};
use upgrade_core::reason::Failure;
use upgrade_core::snapshot::Component;

use super::{Completion, Step};
use crate::io::upgrader::Store;
use crate::io::{Io, NodeUpgrader as _};

/// Pulling an image that is there already costs nothing, so nothing is checked first.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let Target::Pulled { images } = &step.lane().target else {
        return Err(step.misplaced("names no images"));
    };
    // All at once: a pull mostly waits for a registry. The first failure ends the others.
    let pulls = images.iter().map(|image| async move {
        step.report_text(format!("pulling {image}"));
        step.permitted()?;
        let pulled = step.io.upgrader().pull(machine, image, store(step, image), step).await;
        pulled.map_err(|error| error.failure)
    });
    try_join_all(pulls).await?;
    Ok(Completion::Done)
}

/// The containerd namespace that Talos looks in: its own for installers and kubelets, that of
/// Kubernetes for everything else.
fn store<I: Io>(step: &Step<I>, image: &ImageRef) -> Store {
    let hop = step.hop();
    if matches!(hop.change, Change::Talos { .. }) {
        return Store::System;
    }
    let is_kubelet = hop.lanes().any(|lane| {
        matches!(&lane.target, Target::Kubernetes { images, .. }
            if lane.node == step.id.node && images.get(&Component::Kubelet) == Some(image))
    });
    if is_kubelet { Store::System } else { Store::Kubernetes }
}
