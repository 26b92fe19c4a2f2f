//! Writing another Talos beside the running one (Talos 1.13 and newer).
//!
//! Nothing reboots here. But once the installer has succeeded the node is
//! *armed*: any restart, ours or not, boots the new version. Whoever calls this
//! writes that down first.

use std::collections::VecDeque;
use std::fmt::{self, Display};

use talos_proto::machine as wire;
use talos_proto::machine::lifecycle_service_install_progress::Response;
use thiserror::Error as ThisError;
use upgrade_core::secret::scrub;

use crate::client::Node;
use crate::error::{ActError, Error, Failure, Outcome};
use crate::image::ImageStore;
use crate::recover;
use crate::stream::Incoming;

/// How many of the installer's last lines an error repeats.
const LAST_LINES: usize = 8;

const METHOD: &str = "LifecycleService.Upgrade";

/// How an installer that failed exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExitCode {
    /// 1: for a reason of its own.
    Unknown,
    /// 2: what it was given is not valid for the new version.
    InvalidInput,
    /// 3: not supported.
    Unsupported,
    /// 4: the machine or its running version does not fit.
    Environment,
    /// 5: something that it needs failed.
    Dependency,
    /// 6: reading or writing failed.
    Io,
    /// 7: installing failed.
    Install,
    /// One that this program does not know.
    Other(i32),
}

impl ExitCode {
    /// What a number means; `None` for 0, which is success.
    pub const fn of(code: i32) -> Option<Self> {
        Some(match code {
            0 => return None,
            1 => Self::Unknown,
            2 => Self::InvalidInput,
            3 => Self::Unsupported,
            4 => Self::Environment,
            5 => Self::Dependency,
            6 => Self::Io,
            7 => Self::Install,
            other => Self::Other(other),
        })
    }

    /// The number.
    pub const fn number(self) -> i32 {
        match self {
            Self::Unknown => 1,
            Self::InvalidInput => 2,
            Self::Unsupported => 3,
            Self::Environment => 4,
            Self::Dependency => 5,
            Self::Io => 6,
            Self::Install => 7,
            Self::Other(other) => other,
        }
    }
}

impl Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self {
            Self::Unknown => "it failed for a reason of its own",
            Self::InvalidInput => {
                "the machine config or the Kubernetes version is not valid for the new Talos"
            }
            Self::Unsupported => "the new Talos does not support this",
            Self::Environment => {
                "this machine, or the version it runs, does not allow the upgrade: perhaps a \
                 version in between is needed"
            }
            Self::Dependency => "something that it needs failed",
            Self::Io => "it could not read or write: look at the disk",
            Self::Install => "writing the boot loader or the image failed: look at the boot disk",
            Self::Other(_) => "this code is not known",
        };
        write!(f, "exit code {}: {meaning}", self.number())
    }
}

/// Why an installation did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum InstallError {
    /// The call failed; it says whether anything may have happened.
    #[error("the installer's run could not be followed to its end")]
    Call(#[source] ActError),
    /// The installer ran and failed.
    #[error("the installer failed with {code}{}", last_words(last))]
    Exit {
        /// How.
        code: ExitCode,
        /// Its last lines, without secrets.
        last: Vec<String>,
    },
}

fn last_words(last: &[String]) -> String {
    if last.is_empty() {
        return String::new();
    }
    format!("; its last words: {}", last.join(" | "))
}

impl InstallError {
    /// Whether it is certain that the node's boot default is what it was.
    pub const fn nothing_happened(&self) -> bool {
        match self {
            Self::Call(error) => error.outcome.nothing_happened(),
            // How far it came before it gave up is not known.
            Self::Exit { .. } => false,
        }
    }
}

/// An installation that is under way. Dropping it does not stop it for sure.
#[derive(Debug)]
pub struct Installing {
    incoming: Incoming<wire::LifecycleServiceUpgradeResponse>,
    last: VecDeque<String>,
    /// Whether the node has said anything yet.
    begun: bool,
    succeeded: bool,
}

impl Installing {
    /// The installer's next line; `None` once it has succeeded.
    pub async fn next(&mut self) -> Result<Option<String>, InstallError> {
        while !self.succeeded {
            let message = match self.incoming.next().await {
                Ok(Some(message)) => message,
                Ok(None) => {
                    let failure = Failure::Truncated("the installer's exit code never came");
                    return Err(self.lost(self.incoming.failed(failure)));
                }
                Err(error) => return Err(self.lost(error)),
            };
            self.begun = true;
            match message.progress.and_then(|progress| progress.response) {
                Some(Response::Message(text)) => {
                    let line = scrub(text.trim_end()).into_owned();
                    if self.last.len() == LAST_LINES {
                        self.last.pop_front();
                    }
                    self.last.push_back(line.clone());
                    return Ok(Some(line));
                }
                Some(Response::ExitCode(code)) => match ExitCode::of(code) {
                    None => self.succeeded = true,
                    Some(code) => {
                        return Err(InstallError::Exit {
                            code,
                            last: self.last.drain(..).collect(),
                        });
                    }
                },
                None => {}
            }
        }
        Ok(None)
    }

    /// What is known when the stream is lost: a refusal counts only as the first
    /// word, since a node that has begun does not refuse.
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
    /// Runs an installer that was pulled before, by the same reference and to
    /// the same store. Sent at most once: a second run could overwrite the slot
    /// that still works (rule 5).
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
            last: VecDeque::new(),
            begun: false,
            succeeded: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_have_meanings() {
        assert_eq!(ExitCode::of(0), None);
        for (number, code) in [
            (1, ExitCode::Unknown),
            (2, ExitCode::InvalidInput),
            (3, ExitCode::Unsupported),
            (4, ExitCode::Environment),
            (5, ExitCode::Dependency),
            (6, ExitCode::Io),
            (7, ExitCode::Install),
            (8, ExitCode::Other(8)),
            (-1, ExitCode::Other(-1)),
            (137, ExitCode::Other(137)),
        ] {
            assert_eq!(ExitCode::of(number), Some(code));
            assert_eq!(code.number(), number);
            assert!(code.to_string().starts_with(&format!("exit code {number}: ")));
        }
    }

    #[test]
    fn an_exit_repeats_the_last_words() {
        let error = InstallError::Exit {
            code: ExitCode::Environment,
            last: vec!["a".to_owned(), "b".to_owned()],
        };
        assert!(error.to_string().ends_with("its last words: a | b"), "{error}");
        assert!(!error.nothing_happened());
    }
}
