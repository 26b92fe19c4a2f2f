//! Which releases there are to go to.
//!
//! The built-in catalogue knows the newest patch of every line at build time. A
//! [`Source`] knows more: the Image Factory lists what it builds, a `ConfigMap`
//! or flags list what a platform has tried and allows. What a source says of a
//! product takes the place of what the catalogue says; releases that are known
//! to be broken stay known. A source that cannot be asked changes nothing: what
//! was known last still holds.
//!
//! This is about what is *shown* as available and passed through. A user may
//! name any release as a target; whether it can be reached is the support
//! matrix's answer.

mod config_map;
mod factory;

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;
use upgrade_core::catalogue::{Broken, Catalogue};
use upgrade_core::version::{ParseVersionError, Version};

use crate::api_call::CallError;

pub use config_map::{ConfigMapError, read as read_config_map};
pub use factory::{FactoryError, ListError};

/// Where releases are known from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An Image Factory, which lists Talos alone.
    Factory {
        /// Its URL, without a slash at the end.
        url: String,
    },
    /// A `ConfigMap` with the keys `talos`, `kubernetes` and `broken`.
    ConfigMap {
        /// Where it is.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// What the command line lists.
    Listed(Offer),
}

impl Source {
    /// What it is called in logs and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Factory { .. } => "factory",
            Self::ConfigMap { .. } => "config-map",
            Self::Listed(_) => "flags",
        }
    }
}

/// What a source says. `None` is silence, an empty list is "nothing".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Releases of Talos.
    pub talos: Option<Vec<Version>>,
    /// Releases of Kubernetes.
    pub kubernetes: Option<Vec<Version>>,
    /// Releases of Talos that should not be run.
    pub broken: Vec<Broken>,
}

impl Offer {
    /// Reads lists as a command line or a `ConfigMap` has them: separated by
    /// commas, spaces or lines.
    pub fn list(text: &str) -> Result<Vec<Version>, ParseVersionError> {
        text.split([',', ' ', '\n', '\t', '\r'])
            .filter(|word| !word.is_empty())
            .map(str::parse)
            .collect()
    }
}

/// Why a source said nothing.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The factory.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The `ConfigMap` cannot be read.
    #[error("the ConfigMap {namespace}/{name} cannot be read: {error}")]
    Unreadable {
        /// Where it is.
        namespace: String,
        /// Its name.
        name: String,
        /// What the API server said.
        error: CallError,
    },
    /// The `ConfigMap` holds something else than versions.
    #[error("the ConfigMap {namespace}/{name}: {problem}")]
    Invalid {
        /// Where it is.
        namespace: String,
        /// Its name.
        name: String,
        /// What is wrong in it.
        problem: ConfigMapError,
    },
}

/// The catalogue with what sources say, of which the last one counts.
pub fn merge<'a>(base: &Catalogue, offers: impl IntoIterator<Item = &'a Offer>) -> Catalogue {
    let mut catalogue = base.clone();
    for Offer { talos, kubernetes, broken } in offers {
        if let Some(talos) = talos {
            catalogue.talos = stable(talos);
        }
        if let Some(kubernetes) = kubernetes {
            catalogue.kubernetes = stable(kubernetes);
        }
        for broken in broken {
            if catalogue.broken(&broken.talos).is_none() {
                catalogue.broken.push(broken.clone());
            }
        }
    }
    catalogue
}

/// Prereleases are never offered, and most of what a factory lists is one.
fn stable(versions: &[Version]) -> Vec<Version> {
    let mut stable: Vec<Version> =
        versions.iter().filter(|version| !version.is_prerelease()).cloned().collect();
    stable.sort();
    stable.dedup();
    stable
}

/// All sources, and what they said last.
#[derive(Debug)]
pub struct Versions {
    base: Catalogue,
    /// In the order in which they count.
    sources: Vec<(Source, Option<Offer>)>,
    known: watch::Sender<Arc<Catalogue>>,
}

impl Versions {
    /// With what was known at build time, or in a file, until a source answers.
    pub fn new(base: Catalogue, sources: Vec<Source>) -> Self {
        let known = watch::Sender::new(Arc::new(base.clone()));
        let sources = sources.into_iter().map(|source| (source, None)).collect();
        Self { base, sources, known }
    }

    /// What is known, now and later.
    pub fn known(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.known.subscribe()
    }

    /// Asks every source once. What fails is returned with its source's name;
    /// what that source said last stays.
    pub async fn refresh(
        &mut self,
        client: &kube::Client,
    ) -> Vec<(&'static str, Result<(), SourceError>)> {
        let mut results = Vec::new();
        for (source, offer) in &mut self.sources {
            let asked = ask(source, client).await;
            results.push((source.name(), asked.map(|new| *offer = Some(new))));
        }
        let merged = merge(&self.base, self.sources.iter().filter_map(|(_, offer)| offer.as_ref()));
        self.known.send_if_modified(|known| {
            let differs = **known != merged;
            if differs {
                *known = Arc::new(merged);
            }
            differs
        });
        results
    }
}

async fn ask(source: &Source, client: &kube::Client) -> Result<Offer, SourceError> {
    match source {
        Source::Listed(offer) => Ok(offer.clone()),
        Source::Factory { url } => Ok(factory::versions(url).await?),
        Source::ConfigMap { namespace, name } => config_map::ask(client, namespace, name).await,
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::version::Minor;

    use super::*;

    fn versions(text: &str) -> Vec<Version> {
        Offer::list(text).expect("versions")
    }

    #[test]
    fn lists_are_read_however_they_are_separated() {
        assert_eq!(versions("v1.13.9, 1.12.11\n1.11.6"), versions("1.13.9 1.12.11 1.11.6"));
        assert_eq!(versions(" ,\n"), []);
        assert!(Offer::list("1.13").unwrap_err().to_string().contains("patch number"));
    }

    #[test]
    fn a_source_replaces_what_it_speaks_of_and_nothing_else() {
        let base = Catalogue::builtin();
        let offer = Offer {
            talos: Some(versions("1.13.8 1.13.9 1.14.0-rc.1")),
            broken: vec![Broken { talos: Version::new(1, 13, 9), why: "tried it".to_owned() }],
            ..Offer::default()
        };
        let merged = merge(&base, [&offer]);
        assert_eq!(merged.talos, versions("1.13.8 1.13.9"), "prereleases are left out");
        assert_eq!(merged.kubernetes, base.kubernetes);
        // Broken here and broken before are both never chosen.
        assert_eq!(merged.newest_talos(Minor::new(1, 13)), Some(&Version::new(1, 13, 8)));
        assert!(merged.broken(&Version::new(1, 13, 3)).is_some());
    }

    #[test]
    fn the_last_word_counts_and_silence_is_no_word() {
        let base = Catalogue::builtin();
        let factory = Offer { talos: Some(versions("1.14.4")), ..Offer::default() };
        let flags = Offer { kubernetes: Some(versions("1.36.3")), ..Offer::default() };
        let nothing = Offer { talos: Some(Vec::new()), ..Offer::default() };
        let merged = merge(&base, [&factory, &flags]);
        assert_eq!((merged.talos, merged.kubernetes), (versions("1.14.4"), versions("1.36.3")));
        assert_eq!(merge(&base, [&factory, &nothing]).talos, []);
    }
}
