//! The steps of a Kubernetes hop. Nothing here reboots a node: images are changed in the machine
//! configuration, which Talos applies at once. A component is done when its image is that of the
//! target and it is Ready, never by a version counter alone.

mod configure;
mod kubelet;
mod manifests;
mod proxy;
mod prune;
mod removals;
mod rollout;
mod static_pod;

use upgrade_core::image::ImageRef;
use upgrade_core::plan::Target;
use upgrade_core::reason::Failure;
use upgrade_core::snapshot::Component;
use upgrade_core::step::Action;

use super::{Completion, Step};
use crate::io::Io;

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    match (step.id.action, step.id.action.component()) {
        (Action::CheckRemovals, _) => removals::run(step).await,
        (Action::SetKubelet, _) => kubelet::run(step).await,
        (Action::SetKubeProxy, _) => proxy::run(step).await,
        (_, Some(component)) => static_pod::run(step, component).await,
        _ => manifests::run(step).await,
    }
}

/// The image that the node's component gets.
fn target<I: Io>(step: &Step<I>, component: Component) -> Result<&ImageRef, Failure> {
    match &step.lane().target {
        Target::Kubernetes { images, .. } => images.get(&component),
        _ => None,
    }
    .ok_or_else(|| step.misplaced("names no image for it"))
}
