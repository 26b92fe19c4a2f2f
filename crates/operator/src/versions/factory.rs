//! An Image Factory's list of the releases that it builds.

use std::time::Duration;

use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use thiserror::Error;
use upgrade_core::catalogue::Broken;
use upgrade_core::version::Version;

use super::Offer;

/// The longest that a factory may take; it answers from memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer; some hundred versions have a few kilobytes.
const LARGEST: usize = 1 << 20;

/// Why a factory's list is not known.
#[derive(Debug, Error)]
pub enum FactoryError {
    /// No answer.
    #[error("the Image Factory at {url} cannot be reached: {why}")]
    Unreachable {
        /// Which.
        url: String,
        /// Why not.
        why: String,
    },
    /// An answer that is no.
    #[error("the Image Factory at {url} answered {status}; check its URL")]
    Refused {
        /// Which.
        url: String,
        /// The code.
        status: StatusCode,
    },
    /// An answer that makes no sense.
    #[error("the Image Factory at {url} answered no list of versions: {why}; check its URL")]
    Nonsense {
        /// Which.
        url: String,
        /// What was wrong.
        why: String,
    },
}

/// A factory's URL, without a slash at its end.
pub fn check_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("`{text}` is not the URL of a factory: {why}");
    let uri: Uri = text.parse().map_err(|_| wrong("it cannot be read"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("it begins with http:// or https://"));
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() || text.contains('@') {
        return Err(wrong("it names a host and perhaps a folder, and nothing else"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// What the factory builds, and what of it should not be run.
pub(super) async fn versions(url: &str) -> Result<Offer, FactoryError> {
    let all = list(url, "/versions").await?;
    // Another factory may have nothing broken to tell.
    let broken = list(url, "/versions?broken=true").await.unwrap_or_default();
    Ok(offer(all, broken))
}

/// A factory that does not know the second question answers the first one again.
fn offer(all: Vec<Version>, broken: Vec<Version>) -> Offer {
    let understood = all.iter().any(|version| !broken.contains(version));
    let why = || "the Image Factory lists it as broken".to_owned();
    let broken = broken.into_iter().filter(|_| understood);
    let broken = broken.map(|talos| Broken { talos, why: why() }).collect();
    Offer { talos: Some(all), kubernetes: None, broken }
}

async fn list(url: &str, path: &str) -> Result<Vec<Version>, FactoryError> {
    let unreachable = |why: String| FactoryError::Unreachable { url: url.to_owned(), why };
    let answer = tokio::time::timeout(PATIENCE, get(&format!("{url}{path}"))).await;
    let (status, body) = match answer {
        Ok(answer) => answer.map_err(unreachable)?,
        Err(_) => return Err(unreachable(format!("no answer within {PATIENCE:?}"))),
    };
    if !status.is_success() {
        return Err(FactoryError::Refused { url: url.to_owned(), status });
    }
    read(&body).map_err(|why| FactoryError::Nonsense { url: url.to_owned(), why })
}

/// A list with one entry that is no version is still a list: factories name
/// their own builds as they like.
fn read(body: &[u8]) -> Result<Vec<Version>, String> {
    let words: Vec<String> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let versions: Vec<Version> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if versions.is_empty() { Err("none of it is a version".to_owned()) } else { Ok(versions) }
}

async fn get(url: &str) -> Result<(StatusCode, Bytes), String> {
    let request =
        Request::get(url).body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    // `ring` by name: there is no default for the process.
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| format!("no authorities to trust: {error}"))?
        .https_or_http()
        .enable_http1()
        .build();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let answer = client.request(request).await.map_err(|error| chain(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
}

/// An error with everything behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        text = format!("{text}: {behind}");
        source = behind.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host() {
        assert_eq!(check_url("https://factory.example/"), Ok("https://factory.example".into()));
        for text in ["", "factory", "ftp://x", "https://", "https://x?y", "https://a:b@x"] {
            assert!(check_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn odd_entries_are_left_out_and_odd_answers_refused() {
        let list = read(br#"["v1.13.9", "nightly", "v1.14.0-rc.1"]"#).expect("a list");
        assert_eq!(list.len(), 2);
        assert!(read(b"<html>").is_err());
        assert!(read(b"[]").is_err(), "a factory that builds nothing is something else");
    }

    #[test]
    fn broken_releases_are_told_apart() {
        let versions = |text: &str| Offer::list(text).expect("versions");
        let (all, broken) = (versions("1.13.2 1.13.3"), versions("1.13.3"));
        let offered = offer(all.clone(), broken);
        assert_eq!(offered.talos.as_deref(), Some(&all[..]));
        assert_eq!(offered.broken.len(), 1);
        assert_eq!(offer(all.clone(), all).broken, [], "not all of them can be");
    }

    #[tokio::test]
    async fn a_factory_that_is_not_there_is_named() {
        // Nobody listens on a port that was just given back.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        drop(listener);
        let error = versions(&url).await.unwrap_err().to_string();
        assert!(error.contains(&url) && error.contains("cannot be reached"), "{error}");
    }
}
