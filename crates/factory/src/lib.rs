//! The way to an Image Factory: a URL that makes sense, a question, an answer.
//!
//! What is asked, and what the answer means, is for whoever asks. HTTPS trusts
//! the authorities that this machine trusts.

mod ask;
mod url;

use bytes::Bytes;
use http::{Method, StatusCode};
use thiserror::Error;

pub use url::check_url;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody answers.
    #[error("the Image Factory at {url} cannot be reached: {why}")]
    Unreachable {
        /// Which.
        url: String,
        /// Why not.
        why: String,
    },
    /// An answer that is no.
    #[error("the Image Factory at {url} said {status}{}", said(text))]
    Refused {
        /// Which.
        url: String,
        /// The code.
        status: StatusCode,
        /// Its words, which may be none.
        text: String,
    },
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Reads something.
pub async fn get(url: &str, path: &str) -> Result<Bytes, AskError> {
    ask::ask(url, Method::GET, path, Bytes::new()).await
}

/// Sends something: a schematic, as YAML.
pub async fn post(url: &str, path: &str, body: Bytes) -> Result<Bytes, AskError> {
    ask::ask(url, Method::POST, path, body).await
}
