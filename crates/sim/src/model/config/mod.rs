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
pub(super) use validate::documents;
pub(super) use validate::{Rules, check_images};

use super::kubernetes::Component;
use super::manifests::Extra;

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

    /// Those of a Talos line. Where the configuration names none, the version that
    /// the release comes with is taken. From 1.14 on, a document of the component's
    /// own wins over the large one.
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

/// Every component whose image a configuration names.
pub(super) const COMPONENTS: [Component; 5] = [
    Component::ApiServer,
    Component::ControllerManager,
    Component::Scheduler,
    Component::Proxy,
    Component::Kubelet,
];

/// The images as they are written, by component: in a document of its own, and in
/// the large one.
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
    /// Whether Talos brings the network between pods.
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

/// Whether a component is switched off: in the large document, or in its own.
fn is_off(documents: &[Value], path: &str, kind: &str) -> bool {
    documents.iter().any(|document| {
        document.pointer(path).is_some_and(|off| *off == true)
            || (document["kind"] == kind && document["enabled"] == false)
    })
}

/// A node's configuration.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Config {
    /// What is in force.
    pub(super) active: String,
    /// What the next boot takes, if it differs.
    persisted: Option<String>,
    /// Whether one was written to disk since the boot: only then is there a
    /// resource that shows what lies there.
    #[serde(default)]
    written: bool,
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

/// The first minor of Talos whose API server does not restart when the configuration of
/// the scheduler changes.
const OWN_FILES_SINCE: u64 = 14;

/// What the annotation `talos.dev/config-file-version` of an API server counts: the
/// files that Talos writes for it, which name the API server's image, and up to 1.13 the
/// scheduler's configuration, with its image, as well. Another value is another pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigFiles {
    authorization: u64,
    scheduler: Option<u64>,
}

impl ConfigFiles {
    /// Whether the API server starts anew when the scheduler's configuration changes.
    pub(super) const fn follow_the_scheduler(self) -> bool {
        self.scheduler.is_some()
    }
}

impl std::fmt::Display for ConfigFiles {
    /// One number after the other, as Talos does it; nothing here changes the first two,
    /// admission and audit.
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

    /// The image of the installer that it names.
    pub(super) fn install_image(&self) -> Option<&str> {
        self.settings.install_image.as_deref()
    }

    /// The token that it names for new nodes.
    pub(super) fn bootstrap_token(&self) -> Option<&str> {
        self.settings.bootstrap_token.as_deref()
    }

    /// Whether Talos brings the network between pods, or somebody else does.
    pub(super) fn has_flannel(&self) -> bool {
        self.settings.flannel
    }

    /// Whether kube-proxy is Talos's to run.
    pub(super) fn has_proxy(&self) -> bool {
        !self.settings.no_proxy
    }

    /// Whether CoreDNS is Talos's to run.
    pub(super) fn has_dns(&self) -> bool {
        !self.settings.no_dns
    }

    /// The manifests that it names beside Talos's own.
    pub(super) fn extra_manifests(&self) -> &[Extra] {
        &self.settings.extra
    }

    /// The configuration on disk, as far as the node shows it: once one was
    /// written there since its boot. It differs from the active one if that was
    /// staged, or while another is on trial.
    pub(super) fn on_disk(&self) -> Option<&str> {
        let on_disk = self.persisted.as_deref().or(self.fallback.as_deref());
        self.written.then(|| on_disk.unwrap_or(&self.active))
    }

    /// The images of the components, as a Talos line would read them.
    pub(super) fn components_of(&self, minor: u64) -> Components {
        Components::of(&self.settings.images, minor)
    }

    /// A boot takes what is on disk, and counts versions anew.
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

    /// The version of the resource that a component's image is in.
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
