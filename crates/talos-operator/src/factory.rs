//! The Image Factory: makes a schematic with other system extensions.
//!
//! Kernel arguments, overlays and everything else of the nodes' schematic stays: it is read
//! first, and only its list of extensions is replaced (rule 4).

use bytes::Bytes;
use http::StatusCode;
use image_factory_client::AskError;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use upgrade_core::version::Version;
use upgrade_planner::installer::FACTORY;

pub use image_factory_client::check_url;

/// A schematic that could not be made.
#[derive(Debug, Error)]
pub enum FactoryError {
    /// No answer, or a refusal.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// An answer of another form.
    #[error("unexpected answer of the Image Factory at {url}: {why}")]
    Nonsense {
        /// Its URL.
        url: String,
        /// What was wrong.
        why: String,
    },
    /// The target version lacks these extensions.
    #[error("Talos {target} has no extension {}", names.join(", "))]
    Unknown {
        /// The target.
        target: Version,
        /// Their names.
        names: Vec<String>,
    },
    /// The factory does not know the running schematic, so the rest of it would be lost.
    #[error("the Image Factory at {url} does not know the running schematic {schematic}")]
    Elsewhere {
        /// Its URL.
        url: String,
        /// The running schematic.
        schematic: String,
    },
}

impl FactoryError {
    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Ask(AskError::Unreachable { .. }) => {
                "name a reachable Image Factory with --factory"
            }
            Self::Ask(AskError::Refused { .. }) | Self::Nonsense { .. } => {
                "check the URL of --factory, or create the schematic yourself and name it with --schematic"
            }
            Self::Unknown { .. } => {
                "the Image Factory lists them at /version/TARGET/extensions/official"
            }
            Self::Elsewhere { .. } => {
                "name the Image Factory of that schematic with --factory, or create the schematic \
                 yourself and name it with --schematic"
            }
        }
    }
}

/// The public factory.
pub fn usual() -> String {
    format!("https://{FACTORY}")
}

/// Makes a schematic like `base` with these extensions instead of its own, and returns its
/// ID. The target has to have all of them.
pub async fn with_extensions(
    url: &str,
    base: Option<&str>,
    extensions: &[String],
    target: &Version,
) -> Result<String, FactoryError> {
    let known = known(url, target).await?;
    let names: Vec<String> =
        extensions.iter().filter(|name| !known.contains(name)).cloned().collect();
    if !names.is_empty() {
        return Err(FactoryError::Unknown { target: target.clone(), names });
    }
    let schematic = match base {
        Some(base) => read(url, base).await?,
        None => json!({}),
    };
    create(url, &replaced(schematic, extensions)).await
}

/// A schematic with other extensions; everything else of it stays.
fn replaced(mut schematic: Value, extensions: &[String]) -> Value {
    if !schematic.is_object() {
        schematic = json!({});
    }
    for part in ["customization", "systemExtensions"] {
        let inner = match part {
            "customization" => &mut schematic[part],
            _ => &mut schematic["customization"][part],
        };
        if !inner.is_object() {
            *inner = json!({});
        }
    }
    schematic["customization"]["systemExtensions"]["officialExtensions"] = json!(extensions);
    schematic
}

async fn known(url: &str, target: &Version) -> Result<Vec<String>, FactoryError> {
    #[derive(Deserialize)]
    struct Extension {
        name: String,
    }
    let path = format!("/version/{}/extensions/official", target.tag());
    let text = image_factory_client::get(url, &path).await?;
    let list: Vec<Extension> = serde_json::from_slice(&text)
        .map_err(|error| FactoryError::Nonsense { url: url.to_owned(), why: error.to_string() })?;
    Ok(list.into_iter().map(|extension| extension.name).collect())
}

async fn read(url: &str, schematic: &str) -> Result<Value, FactoryError> {
    let answer = image_factory_client::get(url, &format!("/schematics/{schematic}")).await;
    let text = match answer {
        Err(AskError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
            return Err(FactoryError::Elsewhere {
                url: url.to_owned(),
                schematic: schematic.to_owned(),
            });
        }
        answer => answer?,
    };
    let text = String::from_utf8_lossy(&text);
    serde_saphyr::from_str(&text)
        .map_err(|error| FactoryError::Nonsense { url: url.to_owned(), why: error.to_string() })
}

async fn create(url: &str, schematic: &Value) -> Result<String, FactoryError> {
    #[derive(Deserialize)]
    struct Created {
        id: String,
    }
    // JSON is YAML, which is what it reads.
    let body = Bytes::from(schematic.to_string());
    let text = image_factory_client::post(url, "/schematics", body).await?;
    let nonsense = |why: String| FactoryError::Nonsense { url: url.to_owned(), why };
    let created: Created =
        serde_json::from_slice(&text).map_err(|error| nonsense(error.to_string()))?;
    crate::args::schematic(&created.id).map_err(|error| nonsense(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_extensions_are_replaced() {
        let old = json!({"overlay": {"name": "rpi"}, "customization": {
            "extraKernelArgs": ["a=b"], "systemExtensions": {"officialExtensions": ["x/y"]}}});
        let new = replaced(old.clone(), &["siderolabs/zfs".to_owned()]);
        let mut expected = old;
        expected["customization"]["systemExtensions"]["officialExtensions"] =
            json!(["siderolabs/zfs"]);
        assert_eq!(new, expected);
        let from_nothing = replaced(Value::Null, &[]);
        assert_eq!(
            from_nothing,
            json!({"customization": {"systemExtensions": {"officialExtensions": []}}})
        );
    }
}
