//! What the hub's API server answers, and what it says when it says no, in a sentence.

use std::error::Error;
use std::time::Duration;

use kube::client::AuthError;
use kube::core::Status;
use kube::runtime::watcher;
use upgrade_core::text::causes;

/// One call.
pub const CALL: Duration = Duration::from_secs(10);

/// The longest text of an API server that is worth a line.
const LONGEST: usize = 500;

/// What it answers, in time.
pub async fn answer<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(CALL, asked).await {
        Ok(answered) => answered.map_err(|error| said(&error)),
        Err(_) => Err("no answer".to_owned()),
    }
}

/// An error without the whole of the server's answer.
pub fn said(error: &kube::Error) -> String {
    if let kube::Error::Api(answer) = error {
        return refused(answer);
    }
    // Rule 14: what a credential plugin printed may be a token, and its own error
    // quotes it.
    let mut behind: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = behind {
        if let Some(error) = error.downcast_ref::<AuthError>() {
            return unauthenticated(error);
        }
        behind = error.source();
    }
    match error {
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            let source = error.source().map_or_else(|| "the connection ended".to_owned(), cause);
            format!("the API server cannot be reached: {source}")
        }
        other => cause(other),
    }
}

/// Why a watch failed.
pub fn watch_said(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => said(error),
        watcher::Error::WatchError(answer) => refused(answer),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

fn refused(answer: &Status) -> String {
    let Status { code, reason, message, .. } = answer;
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

/// Why a connection failed. What hyper says first says nothing: its cause does.
fn cause(error: &dyn Error) -> String {
    let mut parts = causes(error);
    parts.retain(|part| !part.starts_with("client error ("));
    if parts.is_empty() { "the connection ended".to_owned() } else { parts.join(": ") }
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
        assert_eq!(said(&kube::Error::Api(forbidden())), expected);
        let watch = watcher::Error::InitialListFailed(kube::Error::Api(forbidden()));
        assert_eq!(watch_said(&watch), expected);
        assert_eq!(watch_said(&watcher::Error::WatchError(forbidden())), expected);
        let bare = Status::failure("", "").with_code(502).boxed();
        assert_eq!(said(&kube::Error::Api(bare)), "the API server answers 502");
    }

    #[test]
    fn what_a_credential_plugin_printed_is_not_told() {
        // Rule 14.
        let mut plugin = std::process::Command::new("/bin/sh");
        let out = plugin.args(["-c", "echo hunter2; exit 3"]).output();
        let out = Box::new(out.expect("a shell"));
        let failed = AuthError::AuthExecRun { cmd: "plugin --token hunter2".to_owned(), out };
        let said = said(&kube::Error::Service(Box::new(failed)));
        assert!(said.contains("credential plugin") && said.contains('3'), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn a_hub_that_does_not_answer_is_said_to_be_away() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let said = said(&kube::Error::Service(Box::new(refused)));
        assert_eq!(said, "the API server cannot be reached: connection refused");
    }
}
