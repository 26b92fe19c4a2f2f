//! Calls to the API server of the hub: one time limit, and errors that fit on one line.

use std::error::Error;
use std::time::Duration;

use kube::client::AuthError;
use kube::core::Status;
use kube::runtime::watcher;
use thiserror::Error;
use upgrade_core::text::causes;

/// How long a call may take. A healthy API server answers within milliseconds, and one under
/// load may need seconds for a list; after ten another try is the better use of the time
/// (rule 11). Calls that a lease waits for have a quarter of the lease:
/// [`crate::lease::CALL`].
pub const CALL: Duration = Duration::from_secs(10);

/// The longest text of an API server that is worth a line.
const LONGEST: usize = 500;

/// An error without a cause.
const ENDED: &str = "the connection ended";

/// Why a call to the API server failed.
#[derive(Debug, Error)]
pub enum CallError {
    /// There was no answer in time.
    #[error("no answer")]
    TimedOut,
    /// The API server refused.
    #[error("{}", refusal(.0))]
    Refused(Box<Status>),
    /// There was no connection.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// The credentials of the hub do not work. Rule 14: the text quotes no credential.
    #[error("{0}")]
    Unauthenticated(String),
    /// The answer was not what was asked for.
    #[error("{0}")]
    Unusable(String),
}

impl CallError {
    /// The HTTP status, if the API server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            _ => None,
        }
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::Refused(status);
        }
        // Rule 14: what a credential plugin printed may be a token, and its own error
        // quotes it.
        let mut behind: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(error) = behind {
            if let Some(error) = error.downcast_ref::<AuthError>() {
                return Self::Unauthenticated(unauthenticated(error));
            }
            behind = error.source();
        }
        match &error {
            kube::Error::Service(_) | kube::Error::HyperError(_) => {
                Self::Unreachable(error.source().map_or_else(|| ENDED.to_owned(), cause))
            }
            other => Self::Unusable(cause(other)),
        }
    }
}

impl From<watcher::Error> for CallError {
    fn from(error: watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => error.into(),
            watcher::Error::WatchError(status) => Self::Refused(status),
            watcher::Error::NoResourceVersion => Self::Unusable(error.to_string()),
        }
    }
}

/// The result of a call, in time.
pub async fn with_timeout<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    within(CALL, call).await
}

/// The result of a call, within this time.
pub async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answered) => answered.map_err(CallError::from),
        Err(_) => Err(CallError::TimedOut),
    }
}

fn refusal(status: &Status) -> String {
    let Status { code, reason, message, .. } = status;
    let message = message.chars().take(LONGEST).collect::<String>();
    let words = [reason.as_str(), message.trim()];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    format!("the API server answers {code} {}", words.join(": ")).trim_end().to_owned()
}

fn unauthenticated(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => {
            format!("the credential plugin of the kubeconfig does not start: {error}")
        }
        AuthError::AuthExecRun { out, .. } => {
            format!("the credential plugin of the kubeconfig fails with {}", out.status)
        }
        AuthError::ReadTokenFile(error, path) => {
            format!("the token file {} cannot be read: {error}", path.display())
        }
        _ => "the credentials of the kubeconfig cannot be used; does kubectl accept them?".into(),
    }
}

/// Why a connection failed. The outermost error of hyper adds nothing to its cause.
fn cause(error: &dyn Error) -> String {
    let mut parts = causes(error);
    parts.retain(|part| !part.starts_with("client error ("));
    if parts.is_empty() { ENDED.to_owned() } else { parts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> Box<Status> {
        let message = "leases.coordination.k8s.io is forbidden: User \"anna\" cannot list it";
        Status::failure(message, "Forbidden").with_code(403).boxed()
    }

    #[test]
    fn an_error_of_the_api_is_a_sentence_and_not_a_dump() {
        let expected = "the API server answers 403 Forbidden: leases.coordination.k8s.io is \
                        forbidden: User \"anna\" cannot list it";
        assert_eq!(CallError::from(kube::Error::Api(forbidden())).to_string(), expected);
        let watch = watcher::Error::InitialListFailed(kube::Error::Api(forbidden()));
        assert_eq!(CallError::from(watch).to_string(), expected);
        assert_eq!(CallError::from(watcher::Error::WatchError(forbidden())).to_string(), expected);
        let bare = Status::failure("", "").with_code(502).boxed();
        assert_eq!(
            CallError::from(kube::Error::Api(bare)).to_string(),
            "the API server answers 502"
        );
    }

    #[test]
    fn what_a_credential_plugin_printed_is_not_reported() {
        // Rule 14.
        let mut plugin = std::process::Command::new("/bin/sh");
        let out = plugin.args(["-c", "echo hunter2; exit 3"]).output();
        let out = Box::new(out.expect("a shell"));
        let failed = AuthError::AuthExecRun { cmd: "plugin --token hunter2".to_owned(), out };
        let error = CallError::from(kube::Error::Service(Box::new(failed)));
        assert!(matches!(error, CallError::Unauthenticated(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("credential plugin") && said.contains('3'), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn a_hub_that_does_not_answer_is_said_to_be_away() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let said = CallError::from(kube::Error::Service(Box::new(refused))).to_string();
        assert_eq!(said, "the API server cannot be reached: connection refused");
    }
}
