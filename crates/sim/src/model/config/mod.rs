//! The machine configuration: what is active, what is on disk, and what the
//! node reads from it.

mod apply;
mod diff;
mod generate;
mod validate;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

pub(super) use generate::{fill, generate};
pub(super) use validate::{Rules, check_images, documents};

use super::kubernetes::Component;

/// The images that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Components {
    pub(super) api_server: String,
    pub(super) controller_manager: String,
    pub(super) scheduler: String,
    pub(super) proxy: String,
    pub(super) kubelet: String,
}

impl Components {
    pub(super) fn image(&self, component: Component) -> &str {
        match component {
            Component::ApiServer => &self.api_server,
            Component::ControllerManager => &self.controller_manager,
            Component::Scheduler => &self.scheduler,
            Component::Proxy => &self.proxy,
            Component::Kubelet => &self.kubelet,
        }
    }

    /// Reads them from documents. Where the configuration names none, the
    /// version that the Talos release comes with is taken. From 1.14 on, a
    /// document of the component's own wins over the large one.
    pub(super) fn read(documents: &[Value], minor: u64) -> Self {
        let default = default_kubernetes(minor);
        let image = |component: Component| -> String {
            let (document, path) = place(component);
            let own = documents
                .iter()
                .filter(|value| minor >= 14 && value["kind"] == document)
                .find_map(|value| value["image"].as_str());
            let main = documents
                .iter()
                .filter(|value| value.get("kind").is_none())
                .find_map(|value| value.pointer(path)?.as_str());
            own.or(main).map_or_else(|| default_image(component, &default), str::to_owned)
        };
        Self {
            api_server: image(Component::ApiServer),
            controller_manager: image(Component::ControllerManager),
            scheduler: image(Component::Scheduler),
            proxy: image(Component::Proxy),
            kubelet: image(Component::Kubelet),
        }
    }
}

/// Where a component's image stands: the kind of its own document, and the
/// path in the large one.
fn place(component: Component) -> (&'static str, &'static str) {
    match component {
        Component::ApiServer => ("KubeAPIServerConfig", "/cluster/apiServer/image"),
        Component::ControllerManager => {
            ("KubeControllerManagerConfig", "/cluster/controllerManager/image")
        }
        Component::Scheduler => ("KubeSchedulerConfig", "/cluster/scheduler/image"),
        Component::Proxy => ("KubeProxyConfig", "/cluster/proxy/image"),
        Component::Kubelet => ("KubeletConfig", "/machine/kubelet/image"),
    }
}

/// The Kubernetes that a Talos line installs unless told otherwise.
fn default_kubernetes(minor: u64) -> Version {
    Version::new(1, minor + 23, 0)
}

pub(super) fn default_image(component: Component, version: &Version) -> String {
    let tag = version.tag();
    match component {
        Component::Kubelet => format!("ghcr.io/siderolabs/kubelet:{tag}"),
        other => format!("registry.k8s.io/{}:{tag}", other.name()),
    }
}

/// The version in an image's tag.
pub(super) fn image_version(image: &str) -> Option<Version> {
    image.parse::<ImageRef>().ok()?.version()
}

/// The rest that a node reads from its configuration. Reading YAML costs more
/// than all that is done with it, so it is done once.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Settings {
    /// What the installer of this machine is.
    install_image: Option<String>,
    /// What new nodes come in with (rule 14: a secret).
    bootstrap_token: Option<String>,
}

impl Settings {
    fn read(documents: &[Value]) -> Self {
        let image = |document: &Value| {
            let main = document.pointer("/machine/install/image");
            Some(main.or_else(|| document.pointer("/installer/image"))?.as_str()?.to_owned())
        };
        let token =
            |document: &Value| Some(document.pointer("/cluster/token")?.as_str()?.to_owned());
        Self {
            install_image: documents.iter().filter_map(image).next_back(),
            bootstrap_token: documents.iter().find_map(token),
        }
    }
}

/// A node's configuration.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Config {
    /// What is in force.
    pub(super) active: String,
    /// What the next boot takes, if it differs.
    persisted: Option<String>,
    /// Counts trials, so that an older one that is still due is void.
    trial: u64,
    /// What a trial falls back to.
    fallback: Option<String>,
    /// The version of the resource.
    pub(super) version: u64,
    pub(super) components: Components,
    settings: Settings,
    /// Versions of the resources that depend on one image each: API server,
    /// controller manager, scheduler, proxy, kubelet.
    versions: [u64; 5],
    minor: u64,
}

impl std::fmt::Debug for Config {
    /// Rule 14: configurations hold keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Config(<{} bytes>)", self.active.len())
    }
}

impl Config {
    pub(super) fn new(text: String, minor: u64) -> Self {
        let documents = documents(&text).unwrap_or_default();
        Self {
            active: text,
            persisted: None,
            trial: 0,
            fallback: None,
            version: 1,
            components: Components::read(&documents, minor),
            settings: Settings::read(&documents),
            versions: [1; 5],
            minor,
        }
    }

    /// The image of the installer that it names.
    pub(super) fn install_image(&self) -> Option<&str> {
        self.settings.install_image.as_deref()
    }

    /// The token that it names for new nodes.
    pub(super) fn bootstrap_token(&self) -> Option<&str> {
        self.settings.bootstrap_token.as_deref()
    }

    /// A boot takes what is on disk, and counts versions anew.
    pub(super) fn boot(&mut self, minor: u64) {
        let trial = self.trial + 1;
        let other = self.persisted.take().or_else(|| self.fallback.take());
        if other.is_none() && minor == self.minor {
            (self.trial, self.version, self.versions) = (trial, 1, [1; 5]);
            return;
        }
        let on_disk = other.unwrap_or_else(|| std::mem::take(&mut self.active));
        *self = Self { trial, ..Self::new(on_disk, minor) };
    }

    /// The version of the resource that a component's image is in.
    pub(super) fn version_of(&self, component: Component) -> u64 {
        self.versions[component as usize]
    }

    /// Another configuration comes into force.
    fn activate(&mut self, text: String) {
        let documents = documents(&text).unwrap_or_default();
        self.activate_read(text, &documents);
    }

    /// The same where it has been read.
    fn activate_read(&mut self, text: String, documents: &[Value]) {
        if text == self.active {
            return;
        }
        let components = Components::read(documents, self.minor);
        for component in [
            Component::ApiServer,
            Component::ControllerManager,
            Component::Scheduler,
            Component::Proxy,
            Component::Kubelet,
        ] {
            if components.image(component) != self.components.image(component) {
                self.versions[component as usize] += 1;
            }
        }
        self.components = components;
        self.settings = Settings::read(documents);
        self.active = text;
        self.version += 1;
    }
}
