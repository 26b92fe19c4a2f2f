//! What the hub's API server answers, and what it says when it says no, in a line.

use std::time::Duration;

/// One call.
pub const CALL: Duration = Duration::from_secs(10);

/// What it answers, in time.
pub async fn answer<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(CALL, asked).await {
        Ok(answered) => answered.map_err(|error| said(&error)),
        Err(_) => Err("no answer".to_owned()),
    }
}

/// An error without the whole of the server's answer.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(answer) => {
            format!("the API server answers {} {}: {}", answer.code, answer.reason, answer.message)
        }
        // What is behind it is in its source.
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(behind) = source {
                let words = behind.to_string();
                if !text.contains(&words) {
                    text = format!("{text}: {words}");
                }
                source = behind.source();
            }
            text
        }
    }
}
