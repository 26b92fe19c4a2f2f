//! Images on a node, with the API of Talos 1.13 and with the older one.

use std::time::Duration;

use talos_proto::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace};
use talos_proto::machine as wire;
use talos_proto::machine::image_service_pull_layer_progress::Status;
use talos_proto::machine::image_service_pull_response::Response;

use crate::client::{Limit, Node};
use crate::error::{Error, Failure};
use crate::stream::Incoming;

/// Where a node keeps an image. An installer is found only in the store it was pulled to, so
/// pulling and installing have to use the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageStore {
    /// The system store on disk, the default for installers and kubelets.
    #[default]
    System,
    /// The Kubernetes store on disk.
    Kubernetes,
    /// The system store in memory, for machines without disk space.
    Memory,
}

impl ImageStore {
    pub(crate) fn instance(self) -> ContainerdInstance {
        let driver = match self {
            Self::System | Self::Kubernetes => ContainerDriver::Cri,
            Self::Memory => ContainerDriver::Containerd,
        };
        ContainerdInstance { driver: driver.into(), namespace: self.namespace().into() }
    }

    const fn namespace(self) -> ContainerdNamespace {
        match self {
            Self::System | Self::Memory => ContainerdNamespace::NsSystem,
            Self::Kubernetes => ContainerdNamespace::NsCri,
        }
    }
}

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The reference it was pulled with.
    pub name: String,
    /// Its content, whatever its name says.
    pub digest: String,
    /// In bytes.
    pub size: u64,
}

/// The progress of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerProgress {
    /// The layer's ID.
    pub layer: String,
    /// Its state.
    pub state: LayerState,
    /// The time spent so far.
    pub elapsed: Option<Duration>,
}

/// The state of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerState {
    /// Downloading; a total of 0 is unknown.
    Downloading {
        /// Bytes downloaded.
        done: u64,
        /// Bytes in total.
        total: u64,
    },
    /// Downloaded but not unpacked yet.
    Downloaded,
    /// Being unpacked.
    Extracting,
    /// Complete.
    Extracted,
    /// Present before the pull.
    Present,
}

/// A running pull. Dropping it stops the pull.
#[derive(Debug)]
pub struct Pulling {
    incoming: Incoming<wire::ImageServicePullResponse>,
    name: Option<String>,
}

impl Pulling {
    /// The next progress; `None` once the image is complete.
    pub async fn next(&mut self) -> Result<Option<LayerProgress>, Error> {
        while let Some(message) = self.incoming.next().await? {
            match message.response {
                Some(Response::Name(name)) => self.name = Some(name),
                Some(Response::PullProgress(progress)) => {
                    return Ok(Some(layer_progress(progress)));
                }
                None => {}
            }
        }
        if self.name.is_some() {
            return Ok(None);
        }
        let failure = Failure::Truncated("the pull ended without naming its image");
        Err(self.incoming.failed(failure))
    }

    /// Waits for the end, and returns the name of the image on the node.
    pub async fn finish(mut self) -> Result<String, Error> {
        while self.next().await?.is_some() {}
        Ok(self.name.unwrap_or_default())
    }
}

fn layer_progress(progress: wire::ImageServicePullProgress) -> LayerProgress {
    let bytes = |number| u64::try_from(number).unwrap_or(0);
    let layer = progress.layer_id;
    let progress = progress.progress.unwrap_or_default();
    let state = match progress.status() {
        Status::Downloading => {
            LayerState::Downloading { done: bytes(progress.offset), total: bytes(progress.total) }
        }
        Status::DownloadComplete => LayerState::Downloaded,
        Status::Extracting => LayerState::Extracting,
        Status::ExtractComplete => LayerState::Extracted,
        Status::AlreadyExists => LayerState::Present,
    };
    LayerProgress {
        layer,
        state,
        elapsed: progress.elapsed.and_then(|elapsed| elapsed.try_into().ok()),
    }
}

impl Node {
    /// Pulls an image with progress (Talos 1.13 and newer). Pulling an existing image changes
    /// nothing.
    pub async fn pull(&self, image: &str, store: ImageStore) -> Result<Pulling, Error> {
        const METHOD: &str = "ImageService.Pull";
        let deadlines = *self.deadlines();
        // The first message may come only after the registry has answered.
        let limit = Limit { attempt: deadlines.progress_idle, total: deadlines.progress_idle };
        let answer = self
            .read_within(METHOD, limit, |line| async move {
                let request = line.request(wire::ImageServicePullRequest {
                    containerd: Some(store.instance()),
                    image_ref: image.to_owned(),
                });
                line.image().pull(request).await
            })
            .await?;
        let total = Some(deadlines.pull);
        Ok(Pulling {
            incoming: Incoming::new(self, METHOD, answer, deadlines.progress_idle, total),
            name: None,
        })
    }

    /// The images in a store (Talos 1.13 and newer).
    pub async fn images(&self, store: ImageStore) -> Result<Vec<Image>, Error> {
        const METHOD: &str = "ImageService.List";
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| async move {
                let request = line
                    .request(wire::ImageServiceListRequest { containerd: Some(store.instance()) });
                line.image().list(request).await
            })
            .await?;
        let (idle, total) = (self.deadlines().data_idle, self.deadlines().read);
        let mut incoming = Incoming::new(self, METHOD, answer, idle, Some(total));
        let mut images = Vec::new();
        while let Some(image) = incoming.next().await? {
            images.push(Image {
                name: image.name,
                digest: image.digest,
                size: u64::try_from(image.size).unwrap_or(0),
            });
        }
        Ok(images)
    }

    /// Pulls an image without progress: the call of Talos up to 1.12, which newer nodes still
    /// support. It does not know [`ImageStore::Memory`] and uses [`ImageStore::System`] instead.
    pub async fn legacy_pull(&self, image: &str, store: ImageStore) -> Result<(), Error> {
        const METHOD: &str = "ImagePull";
        let pull = self.deadlines().pull;
        let limit = Limit { attempt: pull, total: pull };
        let answer = self
            .read_within(METHOD, limit, |line| async move {
                let request = line.request(wire::ImagePullRequest {
                    namespace: store.namespace().into(),
                    reference: image.to_owned(),
                });
                line.machine().image_pull(request).await
            })
            .await?;
        self.only(METHOD, answer.value.messages).map(|_| ())
    }
}
