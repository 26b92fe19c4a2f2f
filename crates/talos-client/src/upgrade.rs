//! Upgrading a node with either of Talos's APIs.
//!
//! Up to 1.12 one call installs and reboots. From 1.13 on, pulling, installing and rebooting are
//! separate calls, and the caller decides what happens in between. [`Node::upgrade`] hides the
//! difference and is enough for a single node; an engine that drains, checks etcd and writes a
//! journal in between uses [`Node::pull`], [`Node::install`], [`Node::reboot`] and
//! [`Node::legacy_upgrade`] separately.

use talos_proto::machine as wire;
use thiserror::Error;
use upgrade_core::plan::UpgradeApi;
use upgrade_core::version::ParseVersionError;

use crate::client::Node;
use crate::error::{ActError, Error};
use crate::image::{ImageStore, LayerProgress};
use crate::install::InstallError;
use crate::machine::{ActorId, RebootMode};

/// The target of an upgrade, and how to perform it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The installer image.
    pub image: String,
    /// The store for the installer; the legacy call ignores it.
    pub store: ImageStore,
    /// How to reboot.
    pub reboot: RebootMode,
}

/// The options of the legacy call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyUpgrade {
    /// The installer image.
    pub image: String,
    /// Install during the next boot instead of now.
    pub stage: bool,
    /// Skip the node's own checks of etcd.
    pub force: bool,
    /// Ignored for data since 1.8, but newer nodes then skip their etcd checks. Do not set it
    /// without a reason.
    pub preserve: bool,
    /// How to reboot.
    pub reboot: RebootMode,
}

/// The progress of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeProgress {
    /// The API that the node's version supports.
    Chosen(UpgradeApi),
    /// A layer of the installer is being pulled.
    Pulling(LayerProgress),
    /// The installer has been pulled.
    Pulled,
    /// A line of the installer's output.
    Installing(String),
    /// The other slot is written. The node is armed: its next boot is into the new version.
    Installed,
    /// The node has accepted the reboot, or with the legacy call the whole upgrade.
    Accepted(ActorId),
}

/// Why an upgrade failed before the node accepted the reboot.
#[derive(Debug, Error)]
pub enum UpgradeError {
    /// The node's version could not be read.
    #[error("the node's version is unknown, so the upgrade API cannot be chosen")]
    Ask(#[source] Error),
    /// The node's version is invalid.
    #[error("the node's version is unknown, so the upgrade API cannot be chosen")]
    Version(#[source] ParseVersionError),
    /// The node cannot be upgraded.
    #[error("the node runs in a container; upgrade its image from outside")]
    Container,
    /// The legacy call does not support forced reboots.
    #[error("the node's Talos version does not support a forced reboot; use another reboot mode")]
    NoForce,
    /// The installer could not be pulled.
    #[error("the installer could not be pulled")]
    Pull(#[source] Error),
    /// The installation failed.
    #[error("the installation failed")]
    Install(#[source] InstallError),
    /// The node did not accept the reboot. It is armed.
    #[error("the new version is installed, but the reboot into it failed")]
    Reboot(#[source] ActError),
    /// The node did not accept the legacy call.
    #[error("the node did not accept the upgrade")]
    Legacy(#[source] ActError),
}

/// Whether a node boots the new version at its next boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// No.
    No,
    /// Unknown; check the node.
    Perhaps,
    /// Yes.
    Yes,
}

impl UpgradeError {
    /// Whether the failure leaves the node armed.
    pub const fn armed(&self) -> Armed {
        match self {
            Self::Ask(_) | Self::Version(_) | Self::Container | Self::NoForce | Self::Pull(_) => {
                Armed::No
            }
            Self::Install(error) if error.nothing_happened() => Armed::No,
            Self::Legacy(error) if error.outcome.nothing_happened() => Armed::No,
            Self::Install(_) | Self::Legacy(_) => Armed::Perhaps,
            Self::Reboot(_) => Armed::Yes,
        }
    }
}

impl Node {
    /// Upgrades and reboots the node with the API of its version. Returns when the node has
    /// accepted the reboot; the caller checks whether it comes back, and with which version.
    pub async fn upgrade(
        &self,
        upgrade: &Upgrade,
        report: &mut (dyn FnMut(UpgradeProgress) + Send),
    ) -> Result<ActorId, UpgradeError> {
        let Upgrade { image, store, reboot } = upgrade;
        let running = self.version().await.map_err(UpgradeError::Ask)?;
        if running.is_container() {
            return Err(UpgradeError::Container);
        }
        let api = UpgradeApi::of(&running.version().map_err(UpgradeError::Version)?);
        report(UpgradeProgress::Chosen(api));
        let actor = match api {
            UpgradeApi::Legacy => {
                if *reboot == RebootMode::Force {
                    return Err(UpgradeError::NoForce);
                }
                self.legacy_upgrade(&LegacyUpgrade {
                    image: image.clone(),
                    stage: false,
                    force: false,
                    preserve: false,
                    reboot: *reboot,
                })
                .await
                .map_err(UpgradeError::Legacy)?
            }
            UpgradeApi::Lifecycle => {
                let mut pulling = self.pull(image, *store).await.map_err(UpgradeError::Pull)?;
                while let Some(layer) = pulling.next().await.map_err(UpgradeError::Pull)? {
                    report(UpgradeProgress::Pulling(layer));
                }
                report(UpgradeProgress::Pulled);
                let mut installing =
                    self.install(image, *store).await.map_err(UpgradeError::Install)?;
                while let Some(line) = installing.next().await.map_err(UpgradeError::Install)? {
                    report(UpgradeProgress::Installing(line));
                }
                report(UpgradeProgress::Installed);
                self.reboot(*reboot).await.map_err(UpgradeError::Reboot)?
            }
        };
        report(UpgradeProgress::Accepted(actor.clone()));
        Ok(actor)
    }

    /// The call of Talos up to 1.12: the node pulls, checks etcd, installs, drains and reboots by
    /// itself, and replies once it has started. It does not support a forced reboot and uses the
    /// default. Sent at most once.
    pub async fn legacy_upgrade(&self, upgrade: &LegacyUpgrade) -> Result<ActorId, ActError> {
        const METHOD: &str = "Upgrade";
        let LegacyUpgrade { image, stage, force, preserve, reboot } = upgrade.clone();
        let mode = match reboot {
            RebootMode::Default | RebootMode::Force => wire::upgrade_request::RebootMode::Default,
            RebootMode::PowerCycle => wire::upgrade_request::RebootMode::Powercycle,
        };
        let request =
            wire::UpgradeRequest { image, preserve, stage, force, reboot_mode: mode.into() };
        let answer = self
            .act(METHOD, self.deadlines().legacy_upgrade, |line| async move {
                line.machine().upgrade(line.request(request)).await
            })
            .await?;
        let message = self.only_act(METHOD, answer.value.messages)?;
        Ok(ActorId(message.actor_id))
    }
}
