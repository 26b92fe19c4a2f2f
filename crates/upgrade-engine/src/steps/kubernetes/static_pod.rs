//! kube-apiserver, kube-controller-manager and kube-scheduler: static pods that
//! Talos renders from the machine configuration and the kubelet runs.

use std::sync::atomic::{AtomicBool, Ordering};

use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{Component, NodeName};
use upgrade_core::workload::{Container, Pod};

use super::super::wait::{Probe, Wait};
use super::super::{Completion, Step};
use super::configure::configure;
use super::target;
use crate::io::{Io, Kubernetes as _, Machines as _};

/// Setting an image that is set already changes nothing, so a resumed step needs no other path than
/// a new one (rule 8).
pub(super) async fn run<I: Io>(
    step: &Step<I>,
    component: Component,
) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let image = target(step, component)?;
    // Only to tell the old pod from the new one: if it cannot be read, the image alone decides.
    let before = step.io.kubernetes().pods(Some(node)).await.unwrap_or_default();
    let before = find(&before, component).map(|(pod, container)| Before {
        hash: pod.config_hash.clone(),
        uid: pod.uid.clone(),
        had_image: container.image == image.to_string(),
    });
    let changed = configure(step, machine, component, image).await?;
    let pulling = AtomicBool::new(false);
    let wait =
        Wait::new(FailureKind::Deadline, format!("{component} on {node} did not become ready"))
            .on(step.io.machines().changes(machine))
            .on(step.io.kubernetes().changes());
    let found = wait
        .poll(step, || async {
            let pods = match step.io.kubernetes().pods(Some(node)).await {
                Ok(pods) => pods,
                Err(error) => return Ok(Probe::NotYet(format!("waiting for pods: {error}"))),
            };
            pulling.store(pulls(&pods, component), Ordering::Relaxed);
            let judged = judge(&pods, node, component, image, before.as_ref());
            if !matches!(judged, Probe::Found(())) {
                return Ok(judged);
            }
            // The pod may be ready before the API server is, and up to Talos 1.13 the API server
            // restarts with the scheduler beside it (rule 1).
            Ok(match step.io.kubernetes().api_server(machine).await {
                Err(error) if guard!(Mutant::StaticPodsUnchecked) => {
                    Probe::NotYet(format!("the API server of {node} does not answer: {error}"))
                }
                _ => Probe::Found(()),
            })
        })
        .await;
    match found {
        Ok(()) if changed => Ok(Completion::Done),
        Ok(()) => Ok(Completion::Skipped(format!("{component} on {node} runs {image} already"))),
        Err(failure) if pulling.load(Ordering::Relaxed) => {
            Err(Failure::new(FailureKind::Pull, failure.text()))
        }
        Err(failure) => Err(failure),
    }
}

/// The pod before the change.
struct Before {
    hash: Option<String>,
    uid: String,
    had_image: bool,
}

/// The pod of the component.
fn find(pods: &[Pod], component: Component) -> Option<(&Pod, &Container)> {
    let of = |pod: &'_ Pod| pod.mirror && pod.name.namespace == "kube-system";
    pods.iter().filter(|pod| of(pod)).find_map(|pod| {
        let mut containers = pod.containers.iter();
        Some((pod, containers.find(|container| container.name == component.name())?))
    })
}

/// Whether the component waits for its image.
fn pulls(pods: &[Pod], component: Component) -> bool {
    let waiting = find(pods, component).and_then(|(_, container)| container.waiting.as_deref());
    waiting.is_some_and(is_about_the_image)
}

/// Whether a kubelet gives this reason for an image that cannot be pulled.
pub(super) fn is_about_the_image(waiting: &str) -> bool {
    let named = ["ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable"];
    waiting.contains("ImagePull") || named.iter().any(|name| waiting.contains(name))
}

fn judge(
    pods: &[Pod],
    node: &NodeName,
    component: Component,
    image: &ImageRef,
    before: Option<&Before>,
) -> Probe<()> {
    let Some((pod, container)) = find(pods, component) else {
        return Probe::NotYet(format!("{node} has no pod of {component} yet"));
    };
    if container.image != image.to_string() {
        let running = &container.image;
        return Probe::NotYet(format!("{component} on {node} is still {running}"));
    }
    if pod.deleting_since.is_some() {
        return Probe::NotYet(format!("the old {component} on {node} is terminating"));
    }
    // Another image means another configuration: a pod that shows the new image under the old hash
    // is still the old pod, with a status that is half updated.
    if let Some(Before { hash, uid, had_image: false }) = before
        && *uid == pod.uid
        && *hash == pod.config_hash
    {
        return Probe::NotYet(format!("{node} does not run its new {component} yet"));
    }
    if let Some(waiting) = &container.waiting {
        return Probe::NotYet(format!("{component} on {node} waits: {waiting} ({image})"));
    }
    if !pod.ready || !container.ready {
        return Probe::NotYet(format!("{component} {image} on {node} is not Ready yet"));
    }
    Probe::Found(())
}
