//! Installing another Talos version beside the running one (Talos 1.13 and newer).
//!
//! This does not reboot. But once the installer has succeeded, the node is *armed*: any restart,
//! ours or not, boots the new version. The caller records that first.

use std::collections::VecDeque;

use talos_proto::machine as wire;
use talos_proto::machine::lifecycle_service_install_progress::Response;
use thiserror::Error as ThisError;
use upgrade_core::secret::scrub;

use crate::client::Node;
use crate::error::{ActError, Error, Failure, Outcome};
use crate::image::ImageStore;
use crate::recover;
use crate::stream::Incoming;

pub use upgrade_core::call::ExitCode;

/// How many of the installer's last lines an error contains.
const LAST_LINES: usize = 8;

const METHOD: &str = "LifecycleService.Upgrade";

/// Why an installation failed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum InstallError {
    /// The call failed; its error says whether anything may have happened.
    #[error("lost the connection to the running installer")]
    Call(#[source] ActError),
    /// The installer ran and failed.
    #[error("the installer failed with {code}{}", last_lines(last))]
    Exit {
        /// The exit code.
        code: ExitCode,
        /// Its last lines, without secrets.
        last: Vec<String>,
    },
}

fn last_lines(last: &[String]) -> String {
    if last.is_empty() {
        return String::new();
    }
    format!("; its last words: {}", last.join(" | "))
}

impl InstallError {
    /// Whether the node's boot default is certainly unchanged.
    pub const fn nothing_happened(&self) -> bool {
        match self {
            Self::Call(error) => error.outcome.nothing_happened(),
            // It is unknown how far the installer got.
            Self::Exit { .. } => false,
        }
    }
}

/// Splits output into lines: the node sends it in chunks of up to 512 bytes, wherever they end.
#[derive(Debug, Default)]
struct Lines {
    whole: VecDeque<String>,
    rest: String,
}

impl Lines {
    fn push(&mut self, piece: &str) {
        self.rest.push_str(piece);
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.whole.push_back(line.trim_end().to_owned());
        }
    }

    /// The next complete line. Empty ones are skipped.
    fn next(&mut self) -> Option<String> {
        let line = std::iter::from_fn(|| self.whole.pop_front()).find(|line| !line.is_empty())?;
        Some(scrub(&line).into_owned())
    }

    /// Completes the last line at the end of the output.
    fn end(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        self.whole.push_back(rest.trim_end().to_owned());
    }
}

/// A running installation. Dropping it may not stop it.
#[derive(Debug)]
pub struct Installing {
    incoming: Incoming<wire::LifecycleServiceUpgradeResponse>,
    lines: Lines,
    /// The exit code, returned after all lines.
    exit: Option<Result<(), ExitCode>>,
    last: VecDeque<String>,
    /// Whether the node has sent anything yet.
    begun: bool,
}

impl Installing {
    /// The installer's next line; `None` once it has succeeded.
    pub async fn next(&mut self) -> Result<Option<String>, InstallError> {
        loop {
            if let Some(line) = self.lines.next() {
                if self.last.len() == LAST_LINES {
                    self.last.pop_front();
                }
                self.last.push_back(line.clone());
                return Ok(Some(line));
            }
            match self.exit {
                Some(Ok(())) => return Ok(None),
                Some(Err(code)) => {
                    let last = self.last.drain(..).collect();
                    return Err(InstallError::Exit { code, last });
                }
                None => self.hear().await?,
            }
        }
    }

    /// Receives the next message.
    async fn hear(&mut self) -> Result<(), InstallError> {
        let message = match self.incoming.next().await {
            Ok(Some(message)) => message,
            Ok(None) => {
                let failure =
                    Failure::Truncated("the stream ended without the installer's exit code");
                return Err(self.lost(self.incoming.failed(failure)));
            }
            Err(error) => return Err(self.lost(error)),
        };
        self.begun = true;
        match message.progress.and_then(|progress| progress.response) {
            Some(Response::Message(text)) => self.lines.push(&text),
            Some(Response::ExitCode(code)) => {
                self.lines.end();
                self.exit = Some(ExitCode::of(code).map_or(Ok(()), Err));
            }
            None => {}
        }
        Ok(())
    }

    /// The error of a lost stream: an error counts as a refusal only as the first message, because
    /// a node that has started does not refuse.
    fn lost(&self, error: Error) -> InstallError {
        let outcome = match recover::outcome(error.failure()) {
            Outcome::Refused if !self.begun => Outcome::Refused,
            _ => Outcome::Unknown,
        };
        InstallError::Call(ActError { outcome, error })
    }

    /// Waits for the end.
    pub async fn finish(mut self) -> Result<(), InstallError> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

impl Node {
    /// Runs an installer that was pulled before, with the same reference and from the same store.
    /// Sent at most once: a second run could overwrite the slot that still works (rule 5).
    pub async fn install(
        &self,
        image: &str,
        store: ImageStore,
    ) -> Result<Installing, InstallError> {
        let deadlines = *self.deadlines();
        let request = wire::LifecycleServiceUpgradeRequest {
            containerd: Some(store.instance()),
            source: Some(wire::InstallArtifactsSource { image_name: image.to_owned() }),
        };
        let answer = self
            .act(METHOD, deadlines.progress_idle, |line| async move {
                line.lifecycle().upgrade(line.request(request)).await
            })
            .await
            .map_err(InstallError::Call)?;
        let total = Some(deadlines.install);
        Ok(Installing {
            incoming: Incoming::new(self, METHOD, answer, deadlines.progress_idle, total),
            lines: Lines::default(),
            exit: None,
            last: VecDeque::new(),
            begun: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_and_split_into_lines() {
        let mut lines = Lines::default();
        lines.push("running Talos ins");
        assert_eq!(lines.next(), None);
        lines.push("taller\nwriting\n\nupd");
        assert_eq!(lines.next().as_deref(), Some("running Talos installer"));
        assert_eq!(lines.next().as_deref(), Some("writing"));
        assert_eq!(lines.next(), None);
        lines.push("ating META");
        lines.end();
        assert_eq!(lines.next().as_deref(), Some("updating META"));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn a_secret_cut_in_two_is_scrubbed() {
        // Rule 14.
        let mut lines = Lines::default();
        lines.push("config rejected: tok");
        lines.push("en: abcdef\n");
        assert!(!lines.next().unwrap().contains("abcdef"));
    }

    #[test]
    fn an_exit_contains_the_last_lines() {
        let error = InstallError::Exit {
            code: ExitCode::Environment,
            last: vec!["a".to_owned(), "b".to_owned()],
        };
        assert!(error.to_string().ends_with("its last words: a | b"), "{error}");
        assert!(!error.nothing_happened());
    }
}
