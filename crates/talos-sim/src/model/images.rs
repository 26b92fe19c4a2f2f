//! Container images on a node, and where they come from.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use talos_proto::{common, machine};
use upgrade_core::image::ImageRef;

use super::World;
use super::api::{NodeIndex, Reply, Response, Status};
use super::registry::Content;
use super::slots::Installed;
use super::time::{self, Time};

/// An image store on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    /// On disk, for Talos.
    System,
    /// On disk, for Kubernetes.
    Cri,
    /// In memory, for Talos; gone after a reboot.
    InMemory,
    /// On disk, for containers of the configuration, since 1.14.
    Containers,
}

impl Place {
    pub(super) fn of_namespace(namespace: common::ContainerdNamespace) -> Result<Self, Status> {
        use common::ContainerdNamespace as Namespace;
        match namespace {
            Namespace::NsSystem => Ok(Self::System),
            Namespace::NsCri => Ok(Self::Cri),
            Namespace::NsTaloscontainers => Ok(Self::Containers),
            Namespace::NsUnknown => Err(Status::invalid_argument("invalid namespace NS_UNKNOWN")),
        }
    }

    pub(super) fn of_instance(
        instance: Option<&common::ContainerdInstance>,
    ) -> Result<Self, Status> {
        let instance =
            instance.ok_or_else(|| Status::invalid_argument("containerd instance is required"))?;
        let place = Self::of_namespace(instance.namespace())?;
        match (instance.driver(), place) {
            (common::ContainerDriver::Cri, place) => Ok(place),
            (common::ContainerDriver::Containerd, Self::System) => Ok(Self::InMemory),
            (common::ContainerDriver::Containerd, _) => {
                Err(Status::invalid_argument("unsupported containerd instance"))
            }
        }
    }
}

/// How often Talos collects unused images.
const COLLECTED_EVERY: Duration = Duration::from_mins(15);

/// How long an image must have been unused before it is collected.
const COLLECTED_AFTER: Duration = Duration::from_hours(1);

/// An image on a node, as it was when it was pulled: a tag that has moved since is not pulled
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredImage {
    pub(super) place: Place,
    pub(super) reference: String,
    /// By the node's clock.
    pulled: Time,
    /// When it was stored, by the world's clock.
    #[serde(default)]
    came: Time,
    #[serde(default)]
    digest: String,
    /// The system that it installs, if it is an installer.
    #[serde(default)]
    installs: Option<Installed>,
}

impl StoredImage {
    /// Whether the node has it under this name: the name it was pulled by, the same with its
    /// digest, or the digest alone.
    fn is_named(&self, name: &str) -> bool {
        self.reference == name || self.digest == name || self.pinned() == name
    }

    /// The name pinned by digest.
    fn pinned(&self) -> String {
        match self.reference.parse::<ImageRef>() {
            Ok(image) if image.digest.is_none() => {
                let name = ImageRef { tag: None, ..image };
                format!("{name}@{}", self.digest)
            }
            _ => self.reference.clone(),
        }
    }

    /// When it is collected on a node that booted at `booted`, if it is unused: it must be seen
    /// unused at every round for an hour, and rounds are counted from the boot.
    fn collected(&self, booted: Time) -> Time {
        let since = if self.came > booted { self.came.since(booted) } else { Duration::ZERO };
        let rounds = since.as_secs() / COLLECTED_EVERY.as_secs() + 1;
        let seen = COLLECTED_EVERY * u32::try_from(rounds).unwrap_or(u32::MAX);
        booted.plus(seen + COLLECTED_AFTER)
    }
}

pub(super) fn digest(reference: &str) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(reference.as_bytes()) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Between 20 and 120 MB, the same for the same image.
pub(super) fn size(reference: &str) -> i64 {
    let sum: i64 = reference.bytes().map(i64::from).sum();
    20_000_000 + sum * 7_919 % 100_000_000
}

/// The images of a node since its installation.
pub(super) fn initial(
    components: &super::config::Components,
    control_plane: bool,
    now: Time,
) -> Vec<StoredImage> {
    use super::kubernetes::Component;
    let stored = |place, component| {
        let reference = components.image(component).to_owned();
        let digest = digest(&reference);
        StoredImage { place, reference, pulled: now, came: now, digest, installs: None }
    };
    let mut images =
        vec![stored(Place::System, Component::Kubelet), stored(Place::Cri, Component::Proxy)];
    if control_plane {
        images.extend(super::kubernetes::STATIC.map(|component| stored(Place::Cri, component)));
    }
    images
}

impl World {
    pub(super) fn has_image(&self, node: NodeIndex, place: Place, reference: &str) -> bool {
        self.image(node, place, reference).is_some()
    }

    fn image(&self, node: NodeIndex, place: Place, name: &str) -> Option<&StoredImage> {
        self.images_in(node, place).find(|image| image.is_named(name))
    }

    /// Stores an image as the registry has it now, unless the node already has it.
    pub(super) fn store_image(&mut self, node: NodeIndex, place: Place, reference: &str) {
        if self.has_image(node, place, reference) {
            return;
        }
        let (pulled, came) = (self.node_time(node), self.now);
        let (digest, installs) = (self.digest_now(reference), self.installer_of(reference));
        let reference = reference.to_owned();
        self.nodes[node.0].images.push(StoredImage {
            place,
            reference,
            pulled,
            came,
            digest,
            installs,
        });
    }

    /// The digest that a reference resolves to now: an Image Factory that builds another content
    /// under the same name makes another image.
    fn digest_now(&self, reference: &str) -> String {
        let schematic = self.installer_of(reference).and_then(|installer| installer.schematic);
        let schematic = schematic.and_then(|id| self.spec.registry.schematics.get(&id));
        match schematic {
            Some(schematic) => digest(&format!("{reference} {:?}", schematic.extensions)),
            None => digest(reference),
        }
    }

    /// The pinned name of a stored image.
    pub(super) fn pinned(&self, node: NodeIndex, place: Place, name: &str) -> String {
        self.image(node, place, name).map_or_else(|| name.to_owned(), StoredImage::pinned)
    }

    /// The system that a stored image installs.
    pub(super) fn installs(&self, node: NodeIndex, place: Place, name: &str) -> Option<Installed> {
        self.image(node, place, name).and_then(|image| image.installs.clone())
    }

    /// Runs Talos's image garbage collection up to now: in its namespace, all images that neither
    /// the kubelet nor etcd uses.
    pub(super) fn collect_images(&mut self, node: NodeIndex) {
        let now = self.now;
        let here = &mut self.nodes[node.0];
        let in_memory = here.minor() >= 13;
        let kubelet = here.config.components.image(super::kubernetes::Component::Kubelet);
        let booted = here.booted;
        here.images.retain(|image| {
            let collects = match image.place {
                Place::System => image.reference != kubelet,
                Place::InMemory => in_memory,
                Place::Cri | Place::Containers => false,
            };
            !collects || now < image.collected(booted)
        });
    }

    pub(super) fn installer_of(&self, reference: &str) -> Option<Installed> {
        match self.spec.registry.resolve(reference) {
            Some(Content::Installer(installed)) => Some(installed),
            _ => None,
        }
    }

    fn images_in(&self, node: NodeIndex, place: Place) -> impl Iterator<Item = &StoredImage> {
        self.nodes[node.0].images.iter().filter(move |image| image.place == place)
    }

    pub(super) fn image_list(&self, node: NodeIndex, request: machine::ImageListRequest) -> Reply {
        let place = match Place::of_namespace(request.namespace()) {
            Ok(place) => place,
            Err(status) => return status.into(),
        };
        let items = self.images_in(node, place).map(|image| {
            Response::from(machine::ImageListResponse {
                metadata: None,
                name: image.reference.clone(),
                digest: image.digest.clone(),
                size: size(&image.reference),
                created_at: Some(time::to_proto(image.pulled)),
            })
        });
        Reply::Items(items.collect())
    }

    pub(super) fn image_service_list(
        &self,
        node: NodeIndex,
        request: machine::ImageServiceListRequest,
    ) -> Reply {
        let place = match Place::of_instance(request.containerd.as_ref()) {
            Ok(place) => place,
            Err(status) => return status.into(),
        };
        let items = self.images_in(node, place).map(|image| {
            Response::from(machine::ImageServiceListResponse {
                name: image.reference.clone(),
                digest: image.digest.clone(),
                size: size(&image.reference),
                created_at: Some(time::to_proto(image.pulled)),
                labels: std::collections::BTreeMap::default(),
            })
        });
        Reply::Items(items.collect())
    }

    pub(super) fn image_service_remove(
        &mut self,
        node: NodeIndex,
        request: &machine::ImageServiceRemoveRequest,
    ) -> Reply {
        let place = match Place::of_instance(request.containerd.as_ref()) {
            Ok(place) => place,
            Err(status) => return status.into(),
        };
        if !self.has_image(node, place, &request.image_ref) {
            return Status::not_found(format!("image {} not found", request.image_ref)).into();
        }
        self.nodes[node.0]
            .images
            .retain(|image| image.place != place || !image.is_named(&request.image_ref));
        Reply::Unary(Response::Empty(()))
    }
}
