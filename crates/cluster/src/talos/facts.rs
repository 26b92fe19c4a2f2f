//! What one machine tells of itself.

use std::collections::BTreeMap;

use talos_client::resources::{
    ApiServerConfig, ControllerManagerConfig, KubeletSpec, MachineConfig, MachineStatus, Manifest,
    SchedulerConfig, SecurityState,
};
use talos_client::{Error, Node};
use upgrade_core::image::ImageRef;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{Component, Role, Stage, TalosFacts};
use upgrade_engine::io::Trouble;

use super::config;
use crate::trouble;

/// Everything that Talos tells, all of it of the same boot: a machine that
/// restarts while it is asked would mix old and new.
pub(super) async fn facts(node: &Node) -> Result<TalosFacts, Trouble> {
    let look = |error: Error| trouble::look(&error);
    let before = node.boot_id().await.map_err(look)?;
    let (running, status, schematic, extensions, config, security) = tokio::try_join!(
        node.version(),
        node.get::<MachineStatus>(),
        node.schematic(),
        node.extensions(),
        node.get::<MachineConfig>(),
        node.get::<SecurityState>(),
    )
    .map_err(look)?;
    let after = node.boot_id().await.map_err(look)?;
    if before != after {
        let text = "it restarted while it was asked; look again";
        return Err(Trouble::new(FailureKind::Unavailable, text));
    }
    let version = running.version().map_err(|error| {
        Trouble::new(FailureKind::Mismatch, &format!("its version makes no sense: {error}"))
    })?;
    let (stage, ready) =
        status.map_or((Stage::Unknown, false), |status| (status.spec.stage, status.spec.ready));
    let installer = match config {
        Some(config) => config::installer(config.spec.0.expose())?,
        None => None,
    };
    Ok(TalosFacts {
        version,
        boot_id: after,
        stage,
        ready,
        schematic: schematic.map(|schematic| schematic.id),
        extensions,
        installer,
        platform: running.platform,
        secure_boot: security.is_some_and(|security| security.spec.secure_boot),
    })
}

/// The images that the machine's configuration comes to, as Talos itself
/// resolved it: the defaults that the configuration leaves out, and the documents
/// of newer versions, are in there already.
pub(super) async fn images(
    node: &Node,
    role: Role,
) -> Result<BTreeMap<Component, ImageRef>, Trouble> {
    let look = |error: Error| trouble::look(&error);
    let mut images = BTreeMap::new();
    let kubelet = node.get::<KubeletSpec>().await.map_err(look)?;
    add(&mut images, Component::Kubelet, kubelet.map(|kubelet| kubelet.spec.image))?;
    if role == Role::Worker {
        return Ok(images);
    }
    let (server, manager, scheduler, manifests) = tokio::try_join!(
        node.get::<ApiServerConfig>(),
        node.get::<ControllerManagerConfig>(),
        node.get::<SchedulerConfig>(),
        node.list::<Manifest>(),
    )
    .map_err(look)?;
    let server = server.map(|server| server.spec.image);
    let manager = manager.map(|it| it.spec).filter(|it| it.enabled).map(|it| it.image);
    let scheduler = scheduler.map(|it| it.spec).filter(|it| it.enabled).map(|it| it.image);
    add(&mut images, Component::KubeApiserver, server)?;
    add(&mut images, Component::KubeControllerManager, manager)?;
    add(&mut images, Component::KubeScheduler, scheduler)?;
    let objects = config::objects(manifests);
    add(&mut images, Component::KubeProxy, config::proxy_image(&objects))?;
    Ok(images)
}

fn add(
    images: &mut BTreeMap<Component, ImageRef>,
    component: Component,
    image: Option<String>,
) -> Result<(), Trouble> {
    let Some(image) = image else { return Ok(()) };
    let image = image.parse().map_err(|error| {
        Trouble::new(FailureKind::Mismatch, &format!("the image of its {component}: {error}"))
    })?;
    images.insert(component, image);
    Ok(())
}
