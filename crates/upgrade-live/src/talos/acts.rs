//! Single acts on one machine. What disrupts is sent at most once; the client
//! sees to that.

use std::collections::BTreeMap;

use talos_client::boot::BootEntries;
use talos_client::image::{ImageStore, LayerState};
use talos_client::machine::RebootMode as CallMode;
use talos_client::upgrade::LegacyUpgrade;
use talos_client::{Error, Failure, Node};
use upgrade_core::event::{StepProgress, Unit};
use upgrade_core::image::ImageRef;
use upgrade_core::plan::RebootMode;
use upgrade_core::slots::{Entries, Slots};
use upgrade_core::version::Minor;
use upgrade_engine::io::etcd::Downgrade;
use upgrade_engine::io::upgrader::Store;
use upgrade_engine::io::{IoError, ProgressSink};

use crate::talos_error;

/// Pulls an image: with progress where the node can tell it (from 1.13), else by
/// the older call.
pub(super) async fn pull(
    node: &Node,
    image: &ImageRef,
    store: Store,
    progress: &dyn ProgressSink,
) -> Result<String, IoError> {
    let image = image.to_string();
    let store = match store {
        Store::System => ImageStore::System,
        Store::Kubernetes => ImageStore::Kubernetes,
    };
    let pulled = match pull_telling(node, &image, store, progress).await {
        Err(error) if matches!(error.failure(), Failure::NotSupported(_)) => {
            node.legacy_pull(&image, store).await.map(|()| image)
        }
        pulled => pulled,
    };
    pulled.map_err(|error| talos_error::pull(&error))
}

async fn pull_telling(
    node: &Node,
    image: &str,
    store: ImageStore,
    progress: &dyn ProgressSink,
) -> Result<String, Error> {
    let mut pulling = node.pull(image, store).await?;
    let mut layers: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    while let Some(layer) = pulling.next().await? {
        let seen = layers.entry(layer.layer).or_default();
        match layer.state {
            LayerState::Downloading { done, total } => *seen = (done, total),
            LayerState::Downloaded | LayerState::Extracting | LayerState::Extracted => {
                seen.0 = seen.1;
            }
            LayerState::Present => {}
        }
        let (done, total) =
            layers.values().fold((0, 0), |(done, total), (here, of)| (done + here, total + of));
        if total > 0 {
            let message = format!("{} of {} MB", megabytes(done), megabytes(total));
            progress.report(StepProgress::counted(Unit::Bytes, done, Some(total), message));
        }
    }
    pulling.finish().await
}

const fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

/// Writes the inactive slot, telling the installer's lines.
pub(super) async fn install(
    node: &Node,
    pulled: &str,
    progress: &dyn ProgressSink,
) -> Result<(), IoError> {
    let installing = node.install(pulled, ImageStore::System).await;
    let mut installing = installing.map_err(|error| talos_error::install(&error))?;
    while let Some(line) = installing.next().await.map_err(|error| talos_error::install(&error))? {
        progress.report(StepProgress::text(line));
    }
    Ok(())
}

/// What the boot loader tells, and whether an installer runs.
pub(super) async fn slots(node: &Node) -> Result<Slots, IoError> {
    let installing = node.installer_runs().await.map_err(|error| talos_error::read(&error))?;
    let entries = node.boot_entries().await.map_err(|error| talos_error::read(&error))?;
    let entries = entries.map(|BootEntries { booted, default }| Entries { booted, default });
    Ok(Slots { installing, entries })
}

/// The call of Talos up to 1.12. Never `preserve`, and `force` only where the plan
/// says so: both make nodes skip their own checks of etcd, which are worth having
/// beside ours, except that they refuse one of two members whatever the user accepts.
pub(super) async fn upgrade(
    node: &Node,
    image: &ImageRef,
    force: bool,
    mode: RebootMode,
) -> Result<(), IoError> {
    let upgrade = LegacyUpgrade {
        image: image.to_string(),
        stage: false,
        force,
        preserve: false,
        reboot: call_mode(mode),
    };
    let accepted = node.legacy_upgrade(&upgrade).await;
    accepted.map(|_| ()).map_err(|error| talos_error::act(&error))
}

/// Restarts into what was installed last.
pub(super) async fn reboot(node: &Node, mode: RebootMode) -> Result<(), IoError> {
    let accepted = node.reboot(call_mode(mode)).await;
    accepted.map(|_| ()).map_err(|error| talos_error::act(&error))
}

const fn call_mode(mode: RebootMode) -> CallMode {
    match mode {
        RebootMode::Default => CallMode::Default,
        RebootMode::Powercycle => CallMode::PowerCycle,
    }
}

/// Restarts into the other slot.
pub(super) async fn rollback(node: &Node) -> Result<(), IoError> {
    node.rollback().await.map_err(|error| talos_error::act(&error))
}

/// Asks etcd whether it can be downgraded.
pub(super) async fn validate_downgrade(node: &Node, to: Minor) -> Result<Downgrade, IoError> {
    match node.etcd_downgrade_validate(to).await {
        Ok(_) => Ok(Downgrade::Possible),
        Err(error) => {
            let error = talos_error::read(&error);
            Downgrade::of_refusal(error.failure.text()).ok_or(error)
        }
    }
}

/// Enables etcd's downgrade.
pub(super) async fn enable_downgrade(node: &Node, to: Minor) -> Result<(), IoError> {
    let enabled = node.etcd_downgrade_enable(to).await;
    enabled.map(|_| ()).map_err(|error| talos_error::act(&error))
}

/// Hands etcd's leadership to another member.
pub(super) async fn forfeit(node: &Node) -> Result<(), IoError> {
    let given = node.etcd_forfeit_leadership().await;
    given.map(|_| ()).map_err(|error| talos_error::act(&error))
}
