//! Pulls what the hop needs, ahead of time.

use futures_util::future::try_join_all;
use upgrade_core::image::ImageRef;
use upgrade_core::plan::{Change, Target};
use upgrade_core::reason::Failure;
use upgrade_core::snapshot::Component;

use super::{Done, Step};
use crate::io::upgrader::Store;
use crate::io::{Io, NodeUpgrader as _};

/// Runs the step. Pulling what is there already costs nothing, so nothing has
/// to be looked for first.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let machine = step.machine()?;
    let Target::Pulled { images } = &step.lane().target else {
        return Err(step.misplaced("names no images"));
    };
    // All at once: most of a pull is waiting for a registry. The first that
    // fails ends the others.
    let pulls = images.iter().map(|image| async move {
        step.say(format!("pulling {image}"));
        step.permitted()?;
        let pulled = step.io.upgrader().pull(machine, image, store(step, image), step).await;
        pulled.map_err(|trouble| trouble.failure)
    });
    try_join_all(pulls).await?;
    Ok(Done::Did)
}

/// Where Talos looks for it: installers and kubelets run under Talos itself,
/// everything else under Kubernetes.
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
