//! Pulling images: it takes time, reports progress, may fail, and is cancelled when its caller
//! disconnects.

use std::time::Duration;

use talos_proto::machine;
use talos_proto::machine::image_service_pull_layer_progress::Status as LayerStatus;
use upgrade_core::image::ImageRef;

use super::World;
use super::api::{NodeIndex, Reply, Status, StreamId};
use super::fault::{Fault, FaultKind};
use super::images::{Place, digest, size};
use super::schedule::Due;
use super::streams::Stream;
use super::time::Time;
use super::timing::Span;

/// The number of progress reports of a pull.
const STEPS: u32 = 8;

/// The number of layers of an image.
const LAYERS: u32 = 4;

/// A pull in progress.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    id: u64,
    stream: StreamId,
    place: Place,
    reference: String,
    started: Time,
    step: u32,
    interval: Duration,
    then: Then,
}

/// The purpose of a pull.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// `ImageService.Pull`: progress is reported.
    Service,
    /// `MachineService.ImagePull`.
    Legacy,
    /// `MachineService.Upgrade`: the upgrade continues after it.
    Upgrade(Box<machine::UpgradeRequest>),
}

impl World {
    /// The duration of a pull under the current faults.
    fn pull_time(&mut self, node: NodeIndex) -> Duration {
        let lasts = self.draw(node, Span::Pull);
        match self.fault(node, FaultKind::SlowPull) {
            Some(Fault::SlowPull { factor }) => lasts * (*factor).max(1),
            _ => lasts,
        }
    }

    /// Fetches an image that the node itself needs: returns the duration, or `None` if the image is
    /// not available.
    pub(super) fn fetch(
        &mut self,
        node: NodeIndex,
        place: Place,
        reference: &str,
    ) -> Option<Duration> {
        self.collect_images(node);
        if self.has_image(node, place, reference) {
            return Some(Duration::ZERO);
        }
        self.spec.registry.resolve(reference)?;
        if self.unpullable(node).iter().any(|prefix| reference.starts_with(prefix)) {
            return None;
        }
        let lasts = self.pull_time(node);
        self.store_image(node, place, reference);
        Some(lasts)
    }

    /// Starts a pull. An image that is already there takes no time.
    pub(super) fn pull(
        &mut self,
        node: NodeIndex,
        place: Place,
        reference: String,
        then: Then,
    ) -> Reply {
        let stream = self.open(node, Stream::Pull);
        let lasts = if self.has_image(node, place, &reference) {
            Duration::ZERO
        } else if self.spec.registry.resolve(&reference).is_none() {
            // The registry refuses almost at once.
            Duration::from_secs(1)
        } else {
            self.pull_time(node)
        };
        let id = self.next_stream;
        self.next_stream += 1;
        let pull = Pull {
            id,
            stream,
            place,
            reference,
            started: self.now,
            step: 0,
            interval: lasts / STEPS,
            then,
        };
        let boot = self.nodes[node.0].boot;
        let interval = pull.interval;
        self.nodes[node.0].pulls.push(pull);
        if interval.is_zero() {
            self.finish_pull(node, id);
        } else {
            let due = Due::Pull { node, boot, pull: id };
            self.schedule.put(self.now.plus(interval), due);
        }
        Reply::Stream(stream)
    }

    /// Advances a pull by one step.
    pub(super) fn step_pull(&mut self, node: NodeIndex, id: u64) {
        let Some(pull) = self.nodes[node.0].pulls.iter_mut().find(|pull| pull.id == id) else {
            return;
        };
        pull.step += 1;
        let pull = pull.clone();
        let failing = self.spec.registry.resolve(&pull.reference).is_none()
            || self.fault(node, FaultKind::FailingPull).is_some();
        if !failing && matches!(pull.then, Then::Service) {
            for progress in progress(&pull, self.now) {
                self.send(pull.stream, progress);
            }
        }
        if pull.step >= STEPS {
            self.finish_pull(node, id);
        } else {
            let boot = self.nodes[node.0].boot;
            let due = Due::Pull { node, boot, pull: id };
            self.schedule.put(self.now.plus(pull.interval), due);
        }
    }

    fn finish_pull(&mut self, node: NodeIndex, id: u64) {
        let pulls = &mut self.nodes[node.0].pulls;
        let Some(place) = pulls.iter().position(|pull| pull.id == id) else {
            return;
        };
        let pull = pulls.remove(place);
        let reference = &pull.reference;
        let there = self.has_image(node, pull.place, reference);
        let failure = if there {
            None
        } else if self.spec.registry.resolve(reference).is_none() {
            Some(Status::not_found(format!(
                "error pulling image: failed to pull image {reference:?}: failed to resolve \
                 reference {reference:?}: {reference}: not found"
            )))
        } else if self.fault(node, FaultKind::FailingPull).is_some() {
            Some(Status::unknown(format!(
                "failed to pull image {reference:?}: failed to resolve reference {reference:?}: \
                 failed to do request: dial tcp: i/o timeout"
            )))
        } else {
            None
        };
        if let Some(mut status) = failure {
            if matches!(pull.then, Then::Upgrade(_)) {
                status = Status::unknown(format!(
                    "error validating installer image {reference:?}: {}",
                    status.message.trim_start_matches("error pulling image: ")
                ));
            }
            self.end(pull.stream, Err(status));
            return;
        }
        self.store_image(node, pull.place, reference);
        match pull.then {
            Then::Service => {
                let name = self.pinned(node, pull.place, reference);
                let name = machine::image_service_pull_response::Response::Name(name);
                self.send(pull.stream, machine::ImageServicePullResponse { response: Some(name) });
                self.end(pull.stream, Ok(()));
            }
            Then::Legacy => {
                self.send(
                    pull.stream,
                    machine::ImagePullResponse { messages: vec![machine::ImagePull::default()] },
                );
                self.end(pull.stream, Ok(()));
            }
            Then::Upgrade(request) => self.upgrade_after_pull(node, pull.stream, *request),
        }
    }

    /// The caller that wanted the image is gone.
    pub(super) fn cancel_pull(&mut self, node: NodeIndex, stream: StreamId) {
        self.nodes[node.0].pulls.retain(|pull| pull.stream != stream);
    }

    pub(super) fn image_service_pull(
        &mut self,
        node: NodeIndex,
        request: machine::ImageServicePullRequest,
    ) -> Reply {
        match Place::of_instance(request.containerd.as_ref()) {
            Ok(place) => self.pull_checked(node, place, request.image_ref, Then::Service),
            Err(status) => status.into(),
        }
    }

    pub(super) fn image_pull(
        &mut self,
        node: NodeIndex,
        request: machine::ImagePullRequest,
    ) -> Reply {
        match Place::of_namespace(request.namespace()) {
            Ok(place) => self.pull_checked(node, place, request.reference, Then::Legacy),
            Err(status) => status.into(),
        }
    }

    fn pull_checked(
        &mut self,
        node: NodeIndex,
        place: Place,
        reference: String,
        then: Then,
    ) -> Reply {
        if reference.parse::<ImageRef>().is_err() {
            return Status::unknown(format!(
                "failed to parse image reference {reference:?}: invalid reference format"
            ))
            .into();
        }
        if matches!(place, Place::System | Place::Cri | Place::Containers)
            && !self.nodes[node.0].service_runs("cri")
        {
            return Status::unavailable(
                "error connecting to containerd: dial unix /run/containerd/containerd.sock: \
                 connect: no such file or directory",
            )
            .into();
        }
        self.pull(node, place, reference, then)
    }
}

/// One message per layer: layers download together, each a little behind the previous one.
fn progress(pull: &Pull, now: Time) -> Vec<machine::ImageServicePullResponse> {
    let total = size(&pull.reference) / i64::from(LAYERS);
    (0..LAYERS)
        .map(|layer| {
            let behind = pull.step.saturating_sub(layer);
            let share = i64::from(behind.min(STEPS - LAYERS)) * 100 / i64::from(STEPS - LAYERS);
            let status = match behind {
                b if b > STEPS - LAYERS => LayerStatus::ExtractComplete,
                b if b == STEPS - LAYERS => LayerStatus::DownloadComplete,
                _ => LayerStatus::Downloading,
            };
            let layer_id = digest(&format!("{}#{layer}", pull.reference));
            machine::ImageServicePullResponse {
                response: Some(machine::image_service_pull_response::Response::PullProgress(
                    machine::ImageServicePullProgress {
                        layer_id,
                        progress: Some(machine::ImageServicePullLayerProgress {
                            status: status.into(),
                            elapsed: prost_types::Duration::try_from(now.since(pull.started)).ok(),
                            offset: total * share / 100,
                            total,
                        }),
                    },
                )),
            }
        })
        .collect()
}
