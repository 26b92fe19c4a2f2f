//! Container images on a node, and where they come from.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use talos_proto::{common, machine};

use super::World;
use super::api::{NodeIndex, Reply, Response, Status};
use super::registry::Content;
use super::slots::Installed;
use super::time::{self, Time};

/// Which store on the node.
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

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredImage {
    pub(super) place: Place,
    pub(super) reference: String,
    pulled: Time,
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

/// Images that a node has had since it was installed.
pub(super) fn initial(
    components: &super::config::Components,
    control_plane: bool,
    now: Time,
) -> Vec<StoredImage> {
    use super::kubernetes::Component;
    let stored = |place, component| StoredImage {
        place,
        reference: components.image(component).to_owned(),
        pulled: now,
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
        self.nodes[node.0]
            .images
            .iter()
            .any(|image| image.place == place && image.reference == reference)
    }

    pub(super) fn store_image(&mut self, node: NodeIndex, place: Place, reference: &str) {
        if !self.has_image(node, place, reference) {
            let pulled = self.node_time(node);
            self.nodes[node.0].images.push(StoredImage {
                place,
                reference: reference.to_owned(),
                pulled,
            });
        }
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
                digest: digest(&image.reference),
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
                digest: digest(&image.reference),
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
            .retain(|image| image.place != place || image.reference != request.image_ref);
        Reply::Unary(Response::Empty(()))
    }
}
