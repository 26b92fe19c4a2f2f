//! What one machine tells of itself.

use std::collections::BTreeMap;

use talos_client::machine::TalosVersion;
use talos_client::resources::{
    self, ApiServerConfig, ControllerManagerConfig, KubeletSpec, MachineConfig, MachineStatus,
    Manifest, Nodename, SchedulerConfig, Schematic, SecurityState, StaticPodStatus,
};
use talos_client::{Error, Node};
use upgrade_core::image::ImageRef;
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::reason::FailureKind;
use upgrade_core::secret::scrub;
use upgrade_core::snapshot::{Component, Role, Stage, StaticPod, TalosFacts};
use upgrade_core::version::Version;
use upgrade_engine::io::{IoError, Machine};

use super::config;
use crate::talos_error;

/// Under which name Talos keeps the manifest of its own kube-proxy.
const PROXY_MANIFEST: &str = "10-kube-proxy";

/// The mode of a Talos that runs in a container.
const CONTAINER: &str = "container";

/// The answer to a probe: what is asked of a machine of an idle cluster.
#[derive(Clone, Debug)]
pub struct RunningVersions {
    /// Its Talos.
    pub version: Version,
    /// The images of the parts of Kubernetes that were asked for.
    pub images: BTreeMap<Component, ImageRef>,
}

/// Which parts of Kubernetes a machine is asked for. The kubelets of all nodes are
/// told by Kubernetes, at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// None: a worker has no others.
    None,
    /// Those that Talos runs on every control plane.
    Own,
    /// And kube-proxy, whose manifest is the same on all of them.
    All,
}

/// The least that tells which versions run.
pub(super) async fn running_versions(
    node: &Node,
    parts: Parts,
) -> Result<RunningVersions, IoError> {
    let failed = |error: Error| talos_error::read(&error);
    let own = async {
        match parts {
            Parts::None => Ok(BTreeMap::new()),
            Parts::Own | Parts::All => static_pods(node).await,
        }
    };
    let proxy = async {
        match parts {
            Parts::None | Parts::Own => Ok(None),
            // The manifest that Talos writes, alone: the others are many, and large.
            Parts::All => {
                let manifest = node.get_id::<Manifest>(PROXY_MANIFEST).await.map_err(failed)?;
                Ok(config::proxy_image(manifest.into_iter().collect()))
            }
        }
    };
    let running = async { node.version().await.map_err(failed) };
    let (running, mut images, proxy) = tokio::try_join!(running, own, proxy)?;
    add(&mut images, Component::KubeProxy, proxy)?;
    Ok(RunningVersions { version: read(&running)?, images })
}

fn read(running: &TalosVersion) -> Result<Version, IoError> {
    running.version().map_err(|error| {
        IoError::new(FailureKind::Mismatch, &format!("its version cannot be parsed: {error}"))
    })
}

/// Everything that Talos tells, all of it of the same boot: a machine that
/// restarts while it is asked would mix old and new.
pub(super) async fn facts(node: &Node, of: &Machine) -> Result<TalosFacts, IoError> {
    let failed = |error: Error| talos_error::read(&error);
    let before = node.boot_id().await.map_err(failed)?;
    let (running, status, schematic, extensions, config, security, pods) = tokio::try_join!(
        node.version(),
        node.get::<MachineStatus>(),
        node.schematic(),
        node.extensions(),
        node.get::<MachineConfig>(),
        node.get::<SecurityState>(),
        pods(node, of),
    )
    .map_err(failed)?;
    let after = node.boot_id().await.map_err(failed)?;
    if before != after {
        let text = "it restarted while it was asked; look again";
        return Err(IoError::new(FailureKind::Unavailable, text));
    }
    let version = read(&running)?;
    let (stage, ready, unmet) = status.map_or((Stage::Unknown, false, Vec::new()), |status| {
        (status.spec.stage, status.spec.ready, status.spec.unmet)
    });
    let installer = match config {
        Some(config) => config::installer(config.spec.0.expose())?,
        None => None,
    };
    Ok(TalosFacts {
        version,
        boot_id: after,
        stage,
        ready,
        static_pods: pods,
        factory: schematic.as_ref().and_then(factory),
        schematic: schematic.map(|schematic| schematic.id),
        extensions,
        installer,
        platform: running.platform,
        secure_boot: security.as_ref().is_some_and(|security| security.spec.secure_boot),
        unmet: unmet.into_iter().map(scrubbed).collect(),
        uki: security.is_some_and(|security| security.spec.booted_with_uki),
        container: running.mode == CONTAINER,
    })
}

/// Whether this is the machine that is meant: discovery may show it at an address that
/// another one has by now (rule 10).
pub(super) async fn is_meant(node: &Node, of: &Machine) -> Result<(), IoError> {
    let name = node.get::<Nodename>().await.map_err(|error| talos_error::read(&error))?;
    match name.filter(|name| name.spec.name != of.name.0) {
        Some(other) => {
            let text = format!("the machine at {} is {}", of.address, other.spec.name);
            Err(IoError::new(FailureKind::Mismatch, &text))
        }
        None => Ok(()),
    }
}

/// The reasons are a node's own words, and go into journals (rule 14).
fn scrubbed(UnmetCondition { name, reason }: UnmetCondition) -> UnmetCondition {
    UnmetCondition { name, reason: scrub(&reason).into_owned() }
}

/// The URL of the factory that built what runs, where the node tells it.
fn factory(schematic: &Schematic) -> Option<String> {
    let url = schematic.api_url.trim_end_matches('/');
    (!url.is_empty()).then(|| url.to_owned())
}

/// The static pods that a control plane renders, and whether each is ready. A worker
/// renders its own, too, and does not know how they are.
async fn pods(node: &Node, of: &Machine) -> Result<Vec<StaticPod>, Error> {
    if of.role == Role::Worker {
        return Ok(Vec::new());
    }
    let rendered = node.list::<resources::StaticPod>();
    let (rendered, statuses) = tokio::try_join!(rendered, node.list::<StaticPodStatus>())?;
    let pod = |pod: resources::StaticPod| {
        let id = pod.status_id(&of.name.0);
        let status = statuses.iter().find(|status| status.metadata.id == id);
        StaticPod { name: pod.name, ready: status.is_some_and(|it| it.spec.is_well()) }
    };
    Ok(rendered.into_iter().map(|rendered| pod(rendered.spec)).collect())
}

/// The images that the machine's configuration comes to, as Talos itself
/// resolved it: the defaults that the configuration leaves out, and the documents
/// of newer versions, are in there already.
pub(super) async fn images(
    node: &Node,
    role: Role,
) -> Result<BTreeMap<Component, ImageRef>, IoError> {
    let failed = |error: Error| talos_error::read(&error);
    let kubelet = async { node.get::<KubeletSpec>().await.map_err(failed) };
    let (kubelet, mut images) = match role {
        Role::Worker => (kubelet.await?, BTreeMap::new()),
        Role::ControlPlane => {
            let (kubelet, mut images, proxy) =
                tokio::try_join!(kubelet, static_pods(node), proxy(node))?;
            add(&mut images, Component::KubeProxy, proxy)?;
            (kubelet, images)
        }
    };
    add(&mut images, Component::Kubelet, kubelet.map(|kubelet| kubelet.spec.image))?;
    Ok(images)
}

/// What Talos runs on a control plane.
async fn static_pods(node: &Node) -> Result<BTreeMap<Component, ImageRef>, IoError> {
    let (server, manager, scheduler) = tokio::try_join!(
        node.get::<ApiServerConfig>(),
        node.get::<ControllerManagerConfig>(),
        node.get::<SchedulerConfig>(),
    )
    .map_err(|error| talos_error::read(&error))?;
    let server = server.map(|server| server.spec.image);
    let manager = manager.map(|it| it.spec).filter(|it| it.enabled).map(|it| it.image);
    let scheduler = scheduler.map(|it| it.spec).filter(|it| it.enabled).map(|it| it.image);
    let mut images = BTreeMap::new();
    add(&mut images, Component::KubeApiserver, server)?;
    add(&mut images, Component::KubeControllerManager, manager)?;
    add(&mut images, Component::KubeScheduler, scheduler)?;
    Ok(images)
}

/// The kube-proxy of the manifests that Talos applies.
async fn proxy(node: &Node) -> Result<Option<String>, IoError> {
    let manifests = node.list::<Manifest>().await.map_err(|error| talos_error::read(&error))?;
    Ok(config::proxy_image(manifests))
}

fn add(
    images: &mut BTreeMap<Component, ImageRef>,
    component: Component,
    image: Option<String>,
) -> Result<(), IoError> {
    let Some(image) = image else { return Ok(()) };
    let image = image.parse().map_err(|error| {
        IoError::new(FailureKind::Mismatch, &format!("the image of its {component}: {error}"))
    })?;
    images.insert(component, image);
    Ok(())
}
