//! The machine configuration: the active one, the one on disk, and the settings that the node reads
//! from it.

mod apply;
mod diff;
mod generate;
mod validate;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

pub(super) use generate::{fill, generate};
pub(super) use validate::documents;
pub(super) use validate::{Rules, check_images};

use super::kubernetes::Component;
use super::manifests::Extra;

/// The images that result from the configuration.
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

    /// Those of a Talos line. Without an image in the configuration, the release's default version
    /// is used. From 1.14 on, a component's own document wins over v1alpha1.
    fn of(named: &Named, minor: u64) -> Self {
        let default = default_kubernetes(minor);
        let image = |component: Component| -> String {
            let own = named.own[component as usize].as_ref().filter(|_| minor >= 14);
            let image = own.or(named.main[component as usize].as_ref());
            image.cloned().unwrap_or_else(|| default_image(component, &default))
        };
        Self {
            api_server: image(Component::ApiServer),
            controller_manager: image(Component::ControllerManager),
            scheduler: image(Component::Scheduler),
            proxy: image(Component::Proxy),
            kubelet: image(Component::Kubelet),
        }
    }

    /// Reads them from documents.
    pub(super) fn read(documents: &[Value], minor: u64) -> Self {
        Self::of(&Named::read(documents), minor)
    }
}

/// Every component with an image in the configuration.
pub(super) const COMPONENTS: [Component; 5] = [
    Component::ApiServer,
    Component::ControllerManager,
    Component::Scheduler,
    Component::Proxy,
    Component::Kubelet,
];

/// The images as written, by component: in its own document, and in v1alpha1.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Named {
    own: [Option<String>; 5],
    main: [Option<String>; 5],
}

impl Named {
    fn read(documents: &[Value]) -> Self {
        let own = |component| {
            let (kind, _) = place(component);
            let mut own = documents.iter().filter(|value| value["kind"] == kind);
            own.find_map(|value| value["image"].as_str()).map(str::to_owned)
        };
        let main = |component| {
            let (_, path) = place(component);
            let mut main = documents.iter().filter(|value| value.get("kind").is_none());
            main.find_map(|value| value.pointer(path)?.as_str()).map(str::to_owned)
        };
        Self { own: COMPONENTS.map(own), main: COMPONENTS.map(main) }
    }
}

/// Where a component's image is written: the kind of its own document, and the path in v1alpha1.
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

/// The Kubernetes version that a Talos line installs by default.
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

/// The other settings of a configuration. Parsing YAML costs more than everything else done with
/// it, so it is parsed once.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Settings {
    /// The machine's installer image.
    install_image: Option<String>,
    /// The token that new nodes join with (rule 14: a secret).
    bootstrap_token: Option<String>,
    /// Whether Talos installs flannel as the pod network.
    flannel: bool,
    /// Whether kube-proxy and CoreDNS are switched off.
    #[serde(default)]
    no_proxy: bool,
    #[serde(default)]
    no_dns: bool,
    /// Manifests beside Talos's own.
    #[serde(default)]
    extra: Vec<Extra>,
    images: Named,
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
            flannel: !documents
                .iter()
                .filter_map(|document| document.pointer("/cluster/network/cni/name"))
                .any(|name| name != "flannel"),
            no_proxy: is_off(documents, "/cluster/proxy/disabled", "KubeProxyConfig"),
            no_dns: is_off(documents, "/cluster/coreDNS/disabled", "KubeCoreDNSConfig"),
            extra: Extra::read(documents),
            images: Named::read(documents),
        }
    }
}

/// Whether a component is disabled: in v1alpha1, or in its own document.
fn is_off(documents: &[Value], path: &str, kind: &str) -> bool {
    documents.iter().any(|document| {
        document.pointer(path).is_some_and(|off| *off == true)
            || (document["kind"] == kind && document["enabled"] == false)
    })
}

/// A node's configuration.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Config {
    /// The active text.
    pub(super) active: String,
    /// The text for the next boot, if it differs.
    persisted: Option<String>,
    /// Whether one was written to disk since the boot: only then is there a resource that shows it.
    #[serde(default)]
    written: bool,
    /// Counts trials, so that the pending revert of an older trial is void.
    trial: u64,
    /// The text that a trial reverts to.
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

/// The first minor of Talos whose API server does not restart when the configuration of
/// the scheduler changes.
const OWN_FILES_SINCE: u64 = 14;

/// The value of an API server's annotation `talos.dev/config-file-version`: it counts the files
/// that Talos writes for it, which contain the API server's image and, up to 1.13, the scheduler's
/// configuration with its image. A new value means a new pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigFiles {
    authorization: u64,
    scheduler: Option<u64>,
}

impl ConfigFiles {
    /// Whether the API server restarts when the scheduler's configuration changes.
    pub(super) const fn follow_the_scheduler(self) -> bool {
        self.scheduler.is_some()
    }
}

impl std::fmt::Display for ConfigFiles {
    /// The numbers joined, as Talos writes them; nothing here changes the first two, admission and
    /// audit.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { authorization, scheduler } = self;
        write!(f, "11{authorization}")?;
        scheduler.map_or(Ok(()), |scheduler| write!(f, "{scheduler}"))
    }
}

impl std::fmt::Debug for Config {
    /// Rule 14: configurations hold keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Config(<{} bytes>)", self.active.len())
    }
}

impl Config {
    pub(super) fn new(text: String, minor: u64) -> Self {
        let settings = Settings::read(&documents(&text).unwrap_or_default());
        Self {
            active: text,
            persisted: None,
            written: false,
            trial: 0,
            fallback: None,
            version: 1,
            components: Components::of(&settings.images, minor),
            settings,
            versions: [1; 5],
            minor,
        }
    }

    /// The installer image in it.
    pub(super) fn install_image(&self) -> Option<&str> {
        self.settings.install_image.as_deref()
    }

    /// The token for new nodes in it.
    pub(super) fn bootstrap_token(&self) -> Option<&str> {
        self.settings.bootstrap_token.as_deref()
    }

    /// Whether Talos installs flannel as the pod network, rather than the user another one.
    pub(super) fn has_flannel(&self) -> bool {
        self.settings.flannel
    }

    /// Whether Talos runs kube-proxy.
    pub(super) fn has_proxy(&self) -> bool {
        !self.settings.no_proxy
    }

    /// Whether Talos runs CoreDNS.
    pub(super) fn has_dns(&self) -> bool {
        !self.settings.no_dns
    }

    /// The manifests in it, beside Talos's own.
    pub(super) fn extra_manifests(&self) -> &[Extra] {
        &self.settings.extra
    }

    /// The configuration on disk, if the node shows it: once one was written there since its boot.
    /// It differs from the active one if it was staged, or while another is on trial.
    pub(super) fn on_disk(&self) -> Option<&str> {
        let on_disk = self.persisted.as_deref().or(self.fallback.as_deref());
        self.written.then(|| on_disk.unwrap_or(&self.active))
    }

    /// The images of the components, as a Talos line reads them.
    pub(super) fn components_of(&self, minor: u64) -> Components {
        Components::of(&self.settings.images, minor)
    }

    /// A boot activates the configuration on disk and resets the versions.
    pub(super) fn boot(&mut self, minor: u64) {
        let trial = self.trial + 1;
        if let Some(on_disk) = self.persisted.take().or_else(|| self.fallback.take()) {
            *self = Self { trial, ..Self::new(on_disk, minor) };
            return;
        }
        self.components = self.components_of(minor);
        (self.trial, self.version, self.versions, self.minor) = (trial, 1, [1; 5], minor);
        self.written = false;
    }

    /// The version of the resource that contains a component's image.
    pub(super) fn version_of(&self, component: Component) -> u64 {
        self.versions[component as usize]
    }

    /// The versions of the files that the API server reads.
    pub(super) fn api_server_files(&self) -> ConfigFiles {
        let scheduler = self.version_of(Component::Scheduler);
        ConfigFiles {
            authorization: self.version_of(Component::ApiServer),
            scheduler: (self.minor < OWN_FILES_SINCE).then_some(scheduler),
        }
    }

    /// Another configuration becomes active.
    fn activate(&mut self, text: String) {
        let documents = documents(&text).unwrap_or_default();
        self.activate_read(text, &documents);
    }

    /// The same for documents that are already parsed.
    fn activate_read(&mut self, text: String, documents: &[Value]) {
        if text == self.active {
            return;
        }
        let settings = Settings::read(documents);
        let components = Components::of(&settings.images, self.minor);
        for component in COMPONENTS {
            if components.image(component) != self.components.image(component) {
                self.versions[component as usize] += 1;
            }
        }
        self.components = components;
        self.settings = settings;
        self.active = text;
        self.version += 1;
    }
}
