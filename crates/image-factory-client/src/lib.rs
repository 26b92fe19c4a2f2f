//! A client of the Image Factory: validates its URL and sends requests.
//!
//! Callers choose requests and interpret replies. HTTPS trusts the system's authorities.

mod request;
mod url;

use bytes::Bytes;
use http::{Method, StatusCode};
use thiserror::Error;

pub use url::check_url;

/// Why a request failed.
#[derive(Debug, Error)]
pub enum AskError {
    /// The factory could not be reached.
    #[error("the Image Factory at {url} cannot be reached: {why}")]
    Unreachable {
        /// The factory's URL.
        url: String,
        /// The error.
        why: String,
    },
    /// The factory returned an error.
    #[error("the Image Factory at {url} said {status}{}", said(text))]
    Refused {
        /// The factory's URL.
        url: String,
        /// The HTTP status.
        status: StatusCode,
        /// The response body, which may be empty.
        text: String,
    },
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Sends a GET request.
pub async fn get(url: &str, path: &str) -> Result<Bytes, AskError> {
    request::ask(url, Method::GET, path, Bytes::new()).await
}

/// Posts a body: a schematic, as YAML.
pub async fn post(url: &str, path: &str, body: Bytes) -> Result<Bytes, AskError> {
    request::ask(url, Method::POST, path, body).await
}
