//! Changing a node's configuration.

use std::time::Duration;

use talos_proto::machine as wire;
use talos_proto::machine::apply_configuration_request::Mode;

use crate::Hidden;
use crate::client::Node;
use crate::error::{ActError, Error};

/// When a new configuration takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMode {
    /// Immediately if no reboot is needed, otherwise with a reboot.
    Auto,
    /// Immediately, or fail if a reboot is needed.
    NoReboot,
    /// At the next reboot.
    Staged,
    /// Immediately, and reverted after a while unless it is applied again.
    Try {
        /// The time until it is reverted; the node's default is one minute.
        back_after: Option<Duration>,
    },
    /// With an immediate reboot; only nodes in maintenance mode still support it.
    Reboot,
}

impl ApplyMode {
    fn wire(self) -> (Mode, Option<prost_types::Duration>) {
        match self {
            Self::Auto => (Mode::Auto, None),
            Self::NoReboot => (Mode::NoReboot, None),
            Self::Staged => (Mode::Staged, None),
            Self::Try { back_after } => {
                (Mode::Try, back_after.and_then(|time| time.try_into().ok()))
            }
            Self::Reboot => (Mode::Reboot, None),
        }
    }
}

/// What a node did, or would do in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The mode that the node chose.
    pub mode: ApplyMode,
    /// The node's explanation; in a dry run, the difference between the configurations, which may
    /// contain secrets.
    pub details: Hidden<String>,
    /// Warnings about the accepted configuration.
    pub warnings: Vec<String>,
}

impl From<wire::ApplyConfiguration> for Applied {
    fn from(message: wire::ApplyConfiguration) -> Self {
        Self {
            mode: match message.mode() {
                Mode::Reboot => ApplyMode::Reboot,
                Mode::Auto => ApplyMode::Auto,
                Mode::NoReboot => ApplyMode::NoReboot,
                Mode::Staged => ApplyMode::Staged,
                Mode::Try => ApplyMode::Try { back_after: None },
            },
            details: Hidden::new(message.mode_details),
            warnings: message.warnings,
        }
    }
}

const METHOD: &str = "ApplyConfiguration";

fn request(config: &[u8], mode: ApplyMode, dry_run: bool) -> wire::ApplyConfigurationRequest {
    let (mode, try_mode_timeout) = mode.wire();
    wire::ApplyConfigurationRequest {
        data: config.to_vec(),
        mode: mode.into(),
        dry_run,
        try_mode_timeout,
    }
}

impl Node {
    /// Applies a configuration: one or more YAML documents. Sent at most once, because it may
    /// reboot the node.
    pub async fn apply_config(&self, config: &[u8], mode: ApplyMode) -> Result<Applied, ActError> {
        let request = request(config, mode, false);
        let answer = self
            .act(METHOD, self.deadlines().act, |line| async move {
                line.machine().apply_configuration(line.request(request)).await
            })
            .await?;
        let message = self.only_act(METHOD, answer.value.messages)?;
        Ok(message.into())
    }

    /// Asks the node what it would do with a configuration. Changes nothing.
    pub async fn check_config(&self, config: &[u8], mode: ApplyMode) -> Result<Applied, Error> {
        let reply = self
            .read(METHOD, |line| async move {
                let request = line.request(request(config, mode, true));
                line.machine().apply_configuration(request).await
            })
            .await?;
        Ok(self.only(METHOD, reply.messages)?.into())
    }
}
