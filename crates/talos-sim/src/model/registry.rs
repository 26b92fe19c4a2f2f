//! The images in the world's registries.

use std::sync::LazyLock;

use upgrade_core::image::ImageRef;
use upgrade_core::matrix::Matrix;
use upgrade_core::version::Version;

use super::platform;
use super::slots::Installed;
use super::spec::{NodeSpec, Registry};

/// The support matrix that installers and nodes check against, read once for all worlds.
pub(super) static MATRIX: LazyLock<Matrix> = LazyLock::new(Matrix::builtin);

/// The repository of the plain installer.
const PLAIN: &str = "siderolabs/installer";

/// The content of an image.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Installer(Installed),
    /// A Kubernetes component, or anything else that is not an installer.
    Other,
}

impl Registry {
    /// The image behind a reference; `None` if there is none.
    pub(super) fn resolve(&self, reference: &str) -> Option<Content> {
        if self.others.iter().any(|other| other == reference) {
            return Some(Content::Other);
        }
        let image: ImageRef = reference.parse().ok()?;
        if let Some(installer) = self.installer(&image) {
            return Some(Content::Installer(installer));
        }
        let version = image.version()?;
        let name = image.repository.rsplit('/').next()?;
        let known = matches!(
            name,
            "kube-apiserver"
                | "kube-controller-manager"
                | "kube-scheduler"
                | "kube-proxy"
                | "kubelet"
        );
        (known && self.has_kubernetes(&version)).then_some(Content::Other)
    }

    fn installer(&self, image: &ImageRef) -> Option<Installed> {
        let version = match image.tag.as_deref()? {
            "latest" => self.talos.iter().filter(|version| !version.is_prerelease()).max()?.clone(),
            _ => image.version()?,
        };
        if !self.has_talos(&version) {
            return None;
        }
        let (platform, signed) = self.flavour(image)?;
        let (platform, extensions) = (platform.to_owned(), Vec::new());
        let installed = Installed { version, schematic: None, platform, signed, extensions };
        if let Some(own) = self.own.get(&repository(image)) {
            return Some(Installed { extensions: own.extensions.clone(), ..installed });
        }
        // The plain installer is no longer published since 1.14.
        if image.repository == PLAIN {
            let published = installed.version.minor() < Version::new(1, 14, 0).minor();
            return published.then_some(installed);
        }
        let (_, schematic) = image.repository.rsplit_once('/')?;
        let known = self.schematics.contains_key(schematic);
        known.then(|| Installed { schematic: Some(schematic.to_owned()), ..installed })
    }

    /// The platform of an installer, and whether it is signed, for any tag.
    pub(super) fn flavour<'a>(&'a self, image: &'a ImageRef) -> Option<(&'a str, bool)> {
        if let Some(own) = self.own.get(&repository(image)) {
            return Some((&own.platform, own.secure_boot));
        }
        if image.repository == PLAIN {
            return Some((platform::METAL, false));
        }
        let (path, _) = image.repository.rsplit_once('/')?;
        platform::of_kind(path.rsplit('/').next()?)
    }

    /// The extensions of a node whose image was not built by an Image Factory.
    pub(super) fn own_extensions(&self, node: &NodeSpec) -> Vec<String> {
        let image = node.install_image.as_ref().and_then(|image| image.parse::<ImageRef>().ok());
        let own = image.and_then(|image| self.own.get(&repository(&image)));
        own.filter(|_| node.schematic.is_none())
            .map(|own| own.extensions.clone())
            .unwrap_or_default()
    }
}

/// Registry and repository of a reference.
fn repository(image: &ImageRef) -> String {
    ImageRef { tag: None, digest: None, ..image.clone() }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EMPTY_SCHEMATIC;

    #[test]
    fn references_resolve_to_published_images() {
        let registry = Registry::default();
        let installer = |reference: &str| match registry.resolve(reference) {
            Some(Content::Installer(installed)) => Some(installed),
            _ => None,
        };
        let plain = installer("ghcr.io/siderolabs/installer:v1.13.9").unwrap();
        assert_eq!(plain.schematic, None);
        assert_eq!(installer("ghcr.io/siderolabs/installer:v1.14.1"), None);
        for name in ["metal-installer", "installer", "nocloud-installer-secureboot"] {
            let reference = format!("factory.talos.dev/{name}/{EMPTY_SCHEMATIC}:v1.14.1");
            let built = installer(&reference).unwrap();
            assert_eq!(built.schematic.as_deref(), Some(EMPTY_SCHEMATIC));
            assert_eq!(built.version, Version::new(1, 14, 1));
            let platform = ["nocloud", "metal"][usize::from(!name.starts_with("nocloud"))];
            assert_eq!((built.platform.as_str(), built.signed), (platform, platform == "nocloud"));
        }
        let equinix = format!("factory.talos.dev/equinixMetal-installer/{EMPTY_SCHEMATIC}:v1.14.1");
        assert_eq!(installer(&equinix), None);
        let mirror = format!("127.0.0.1:5000/metal-installer/{EMPTY_SCHEMATIC}:v1.13.1");
        assert!(installer(&mirror).is_some());
        assert_eq!(installer("factory.talos.dev/metal-installer/beef:v1.14.1"), None);
        assert_eq!(registry.resolve("registry.k8s.io/kube-apiserver:v1.99.0"), None);
        assert!(registry.resolve("registry.k8s.io/kube-apiserver:v1.35.1").is_some());
        assert!(registry.resolve("ghcr.io/siderolabs/kubelet:v1.35.1-fat").is_some());
    }
}
