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
use upgrade_core::catalogue::Broken;

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
        Ok(map) => read(&map.data.unwrap_or_default()).map_err(|problem| SourceError::Nonsense {
            namespace: place,
            name: called,
            problem,
        }),
        Err(error) => {
            Err(SourceError::InheritError { namespace: place, name: called, source: error.into() })
        }
    }
}

/// Reads the data; says which key is wrong, and how.
pub fn read(data: &BTreeMap<String, String>) -> Result<Offer, String> {
    if let Some(odd) = data.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("the key `{odd}` is unknown; there are {}", KEYS.join(", ")));
    }
    let list = |key: &str| {
        let list = data.get(key).map(|text| Offer::list(text)).transpose();
        list.map_err(|error| format!("{key}: {error}"))
    };
    let mut broken = Vec::new();
    for line in data.get("broken").into_iter().flat_map(|text| text.lines()) {
        let Some((version, why)) = line.split_once(':') else {
            if line.trim().is_empty() {
                continue;
            }
            return Err(format!("broken: `{line}` has no reason; write it like 1.13.3: panics"));
        };
        let talos = version.trim().parse().map_err(|error| format!("broken: {error}"))?;
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
            let problem = read(&map(&[(key, value)])).unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }
}
