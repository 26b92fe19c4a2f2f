//! A `ConfigMap` that lists releases:
//!
//! ```yaml
//! data:
//!   talos: "1.12.11, 1.13.9"
//!   kubernetes: "1.35.10 1.36.3"
//!   broken: |
//!     1.13.3: static pods panic
//! ```

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use thiserror::Error;
use upgrade_core::catalogue::Broken;
use upgrade_core::version::ParseVersionError;

use super::{Offer, SourceError};

/// The keys, and there are no others: a misspelt one must not count as silence.
const KEYS: [&str; 3] = ["talos", "kubernetes", "broken"];

pub(super) async fn ask(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Offer, SourceError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let (place, called) = (namespace.to_owned(), name.to_owned());
    match maps.get(name).await {
        Ok(map) => read(&map.data.unwrap_or_default()).map_err(|problem| SourceError::Invalid {
            namespace: place,
            name: called,
            problem,
        }),
        Err(error) => {
            Err(SourceError::Unreadable { namespace: place, name: called, error: error.into() })
        }
    }
}

/// What is wrong in a `ConfigMap` of versions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigMapError {
    /// A key that does not exist.
    #[error("the key `{0}` is unknown; there are {known}", known = KEYS.join(", "))]
    UnknownKey(String),
    /// A value that is not a list of versions.
    #[error("{key}: {error}")]
    Version {
        /// Its key.
        key: String,
        /// What is wrong.
        error: ParseVersionError,
    },
    /// A broken release without a reason.
    #[error("broken: `{0}` has no reason; write it like 1.13.3: panics")]
    NoReason(String),
}

/// Reads the data, or says which key is not valid.
pub fn read(data: &BTreeMap<String, String>) -> Result<Offer, ConfigMapError> {
    if let Some(odd) = data.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(ConfigMapError::UnknownKey(odd.clone()));
    }
    let list = |key: &str| {
        let list = data.get(key).map(|text| Offer::list(text)).transpose();
        list.map_err(|error| ConfigMapError::Version { key: key.to_owned(), error })
    };
    let mut broken = Vec::new();
    for line in data.get("broken").into_iter().flat_map(|text| text.lines()) {
        let Some((version, why)) = line.split_once(':') else {
            if line.trim().is_empty() {
                continue;
            }
            return Err(ConfigMapError::NoReason(line.to_owned()));
        };
        let talos = version.trim().parse();
        let talos =
            talos.map_err(|error| ConfigMapError::Version { key: "broken".to_owned(), error })?;
        broken.push(Broken { talos, why: why.trim().to_owned() });
    }
    Ok(Offer { talos: list("talos")?, kubernetes: list("kubernetes")?, broken })
}

#[cfg(test)]
mod tests {
    use upgrade_core::version::Version;

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn keys_that_are_missing_say_nothing() {
        let offer = read(&map(&[("talos", "1.13.9"), ("broken", "\n1.13.3: panics: always\n")]));
        let offer = offer.expect("readable");
        assert_eq!(offer.talos, Some(vec![Version::new(1, 13, 9)]));
        assert_eq!(offer.kubernetes, None);
        assert_eq!(offer.broken[0].why, "panics: always");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (key, value, word) in [
            ("talos", "newest", "talos: `newest` is not a version"),
            ("kubernetes", "1.36", "kubernetes: `1.36` is not a version"),
            ("broken", "1.13.3", "has no reason"),
            ("broken", "all: of them", "broken: `all`"),
            ("kubernets", "1.36.3", "the key `kubernets` is unknown"),
        ] {
            let problem = read(&map(&[(key, value)])).unwrap_err().to_string();
            assert!(problem.contains(word), "{problem}");
        }
    }
}
