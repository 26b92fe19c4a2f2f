//! "Upgrade this node" over both of Talos's APIs.
//!
//! Up to 1.12 one call installs and reboots. From 1.13 on, pulling, installing
//! and rebooting are calls of their own, with nobody but the caller between
//! them. [`Node::upgrade`] hides the difference and is all that a single node
//! needs; an engine that drains, checks etcd and writes a journal in between
//! uses [`Node::pull`], [`Node::install`], [`Node::reboot`] and
//! [`Node::legacy_upgrade`] one by one.

use talos_proto::machine as wire;
use thiserror::Error;
use upgrade_core::plan::UpgradeApi;
use upgrade_core::version::ParseVersionError;

use crate::client::Node;
use crate::error::{ActError, Error};
use crate::image::{ImageStore, LayerProgress};
use crate::install::InstallError;
use crate::machine::{ActorId, RebootMode};

/// What to upgrade to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The installer.
    pub image: String,
    /// Where the node keeps it; the legacy call has no choice here.
    pub store: ImageStore,
    /// How it restarts.
    pub reboot: RebootMode,
}

/// What the legacy call can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyUpgrade {
    /// The installer.
    pub image: String,
    /// Install during the next boot instead of now.
    pub stage: bool,
    /// Skip the node's own checks of etcd.
    pub force: bool,
    /// Means nothing for data since 1.8, but newer nodes take it as leave to
    /// skip their checks of etcd. Do not set it without a reason.
    pub preserve: bool,
    /// How it restarts.
    pub reboot: RebootMode,
}

/// How far an upgrade is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeProgress {
    /// Which API the node's version has.
    Chosen(UpgradeApi),
    /// A layer of the installer is on its way.
    Pulling(LayerProgress),
    /// The installer is there.
    Pulled,
    /// The installer says something.
    Installing(String),
    /// The other slot is written. The node is armed: it boots the new version
    /// whenever it restarts.
    Installed,
    /// The node has agreed to restart, or with the legacy call to everything.
    Accepted(ActorId),
}

/// Why an upgrade did not get as far as the node's agreement to restart.
#[derive(Debug, Error)]
pub enum UpgradeError {
    /// The node's version could not be asked.
    #[error("the node's version is not known, so neither is its way to upgrade")]
    Ask(#[source] Error),
    /// The node's version makes no sense.
    #[error("the node's version is not known, so neither is its way to upgrade")]
    Version(#[source] ParseVersionError),
    /// The node cannot be upgraded at all.
    #[error("the node runs in a container; upgrade its image from outside")]
    Container,
    /// The legacy call cannot restart like that.
    #[error("the node's Talos cannot be told to force the restart; use another reboot mode")]
    NoForce,
    /// The installer could not be pulled.
    #[error("the installer could not be pulled")]
    Pull(#[source] Error),
    /// The installer did not succeed.
    #[error("the installation did not succeed")]
    Install(#[source] InstallError),
    /// The node did not agree to restart. It is armed.
    #[error("the new version is installed, and the restart into it failed")]
    Reboot(#[source] ActError),
    /// The node did not agree to the legacy call.
    #[error("the node did not accept the upgrade")]
    Legacy(#[source] ActError),
}

/// Whether a node would boot the new version if it restarted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// Certainly not.
    No,
    /// Perhaps: look at it.
    Perhaps,
    /// Yes.
    Yes,
}

impl UpgradeError {
    /// In which state the failure leaves the node.
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
    /// Upgrades the node and restarts it, by the API that its version has.
    /// Returns when the node has agreed to restart; whether it comes back, and
    /// as what, is the caller's to see.
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

    /// The call of Talos up to 1.12: the node pulls, checks etcd, installs,
    /// drains and reboots by itself, and answers once it has begun. A forced
    /// restart is not known to it and means the default. Sent at most once.
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
