//! An Image Factory's list of the releases that it builds.

use image_factory_client::AskError;
use thiserror::Error;
use upgrade_core::catalogue::Broken;
use upgrade_core::version::Version;

use super::Offer;

/// Why a factory's list is not known.
#[derive(Debug, Error)]
pub enum FactoryError {
    /// No answer, or one that is no.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// An answer that is not a list of versions.
    #[error(
        "the Image Factory at {url} did not answer with a list of versions: {why}; check its URL"
    )]
    Invalid {
        /// Which.
        url: String,
        /// What was wrong.
        why: ListError,
    },
}

/// Why an answer is not a list of versions.
#[derive(Debug, Error)]
pub enum ListError {
    /// It is not a list of texts.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has no version.
    #[error("none of it is a version")]
    NoVersion,
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
    let body = image_factory_client::get(url, path).await?;
    read(&body).map_err(|why| FactoryError::Invalid { url: url.to_owned(), why })
}

/// A list with one entry that is no version is still a list: factories name
/// their own builds as they like.
fn read(body: &[u8]) -> Result<Vec<Version>, ListError> {
    let words: Vec<String> = serde_json::from_slice(body)?;
    let versions: Vec<Version> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if versions.is_empty() { Err(ListError::NoVersion) } else { Ok(versions) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
