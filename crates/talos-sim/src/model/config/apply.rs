//! `ApplyConfiguration`.

use std::fmt::Write as _;
use std::time::Duration;

use talos_proto::machine::apply_configuration_request::Mode;
use talos_proto::machine::{
    ApplyConfiguration, ApplyConfigurationRequest, ApplyConfigurationResponse,
};

use super::super::World;
use super::super::api::{NodeIndex, Reply, Status};
use super::super::schedule::Due;
use super::validate::validate;
use super::{Rules, diff, documents};

/// How long a trial lasts unless the request says otherwise.
const TRY_TIMEOUT: Duration = Duration::from_mins(1);

impl World {
    pub(in super::super) fn apply_configuration(
        &mut self,
        node: NodeIndex,
        request: &ApplyConfigurationRequest,
    ) -> Reply {
        match self.try_apply(node, request) {
            Ok(applied) => {
                Reply::Unary(ApplyConfigurationResponse { messages: vec![applied] }.into())
            }
            Err(status) => status.into(),
        }
    }

    fn try_apply(
        &mut self,
        node: NodeIndex,
        request: &ApplyConfigurationRequest,
    ) -> Result<ApplyConfiguration, Status> {
        let here = &self.nodes[node.0];
        let text = std::str::from_utf8(&request.data)
            .map_err(|_| Status::invalid_argument("error decoding configuration: not UTF-8"))?;
        let documents = documents(text).map_err(Status::invalid_argument)?;
        if documents.iter().all(|document| document.get("kind").is_some()) {
            return Err(Status::invalid_argument(
                "the applied machine configuration doesn't contain v1alpha1 config, did you mean \
                 to patch the machine config instead?",
            ));
        }
        if request.mode() == Mode::Reboot {
            return Err(Status::unimplemented(
                "the REBOOT mode is not supported, please use AUTO or NO_REBOOT modes instead",
            ));
        }
        let rules = Rules { role: here.role, talos: here.version() };
        validate(&documents, &rules).map_err(Status::invalid_argument)?;
        let mode = match request.mode() {
            Mode::Auto => Mode::NoReboot,
            mode => mode,
        };
        let mut details = match mode {
            Mode::Staged => "Staged configuration to be applied after the next reboot".to_owned(),
            _ => "Applied configuration without a reboot".to_owned(),
        };
        if request.dry_run {
            let mut changes = diff::diff(&here.config.active, text);
            if changes.is_empty() {
                changes.push_str("No changes.");
            }
            return Ok(ApplyConfiguration {
                mode: mode.into(),
                mode_details: format!(
                    "Dry run summary:\n{details} (skipped in dry-run).\nConfig diff:\n\n{changes}"
                ),
                ..Default::default()
            });
        }
        let text = text.to_owned();
        let config = &mut self.nodes[node.0].config;
        match mode {
            Mode::Try => {
                let timeout = request
                    .try_mode_timeout
                    .and_then(|timeout| Duration::try_from(timeout).ok())
                    .unwrap_or(TRY_TIMEOUT);
                let _ = write!(
                    details,
                    "\nThe config is applied in 'try' mode and will be automatically reverted \
                     back in {}",
                    go_duration(timeout)
                );
                config.trial += 1;
                let trial = config.trial;
                // A second trial still falls back to what was before the first.
                if config.fallback.is_none() {
                    config.fallback = Some(config.active.clone());
                }
                config.activate_read(text, &documents);
                let boot = self.nodes[node.0].boot;
                let due = Due::RevertConfig { node, boot, trial };
                self.schedule.put(self.now.plus(timeout), due);
            }
            Mode::Staged => {
                config.end_trial();
                config.written = true;
                config.persisted = Some(text).filter(|text| *text != config.active);
            }
            _ => {
                config.end_trial();
                config.written = true;
                config.persisted = None;
                config.activate_read(text, &documents);
            }
        }
        self.follow_config(node);
        self.download(node);
        Ok(ApplyConfiguration { mode: mode.into(), mode_details: details, ..Default::default() })
    }

    /// A trial was not confirmed in time.
    pub(in super::super) fn revert_config(&mut self, node: NodeIndex, trial: u64) {
        let config = &mut self.nodes[node.0].config;
        if config.trial != trial {
            return;
        }
        if let Some(fallback) = config.fallback.take() {
            config.activate(fallback);
            self.follow_config(node);
            self.download(node);
        }
    }
}

impl super::Config {
    fn end_trial(&mut self) {
        self.trial += 1;
        self.fallback = None;
    }
}

/// As Go prints a duration of whole seconds.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}
