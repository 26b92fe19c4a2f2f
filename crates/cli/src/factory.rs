//! The Image Factory: makes a schematic with other system extensions.
//!
//! The rest of what the nodes were built from (kernel arguments, overlays and
//! the like) stays: their schematic is read first, and only its list of
//! extensions is replaced (rule 4).

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use upgrade_core::version::Version;
use upgrade_planner::installer::FACTORY;

/// The longest a factory may take; it answers from memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer; the list of all extensions has some tens of kilobytes.
const LARGEST: usize = 4 << 20;

/// Why there is no new schematic.
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
    #[error("the Image Factory at {url} said {status}: {text}")]
    Refused {
        /// Which.
        url: String,
        /// The code.
        status: StatusCode,
        /// Its words.
        text: String,
    },
    /// An answer that makes no sense.
    #[error("the Image Factory at {url} answered something else than expected: {why}")]
    Nonsense {
        /// Which.
        url: String,
        /// What was wrong.
        why: String,
    },
    /// Extensions that are not there for the target.
    #[error("Talos {target} has no extension {}", names.join(", "))]
    Unknown {
        /// The target.
        target: Version,
        /// Which.
        names: Vec<String>,
    },
    /// The schematic that runs is not known to this factory, so what else is in
    /// it would be lost.
    #[error("the Image Factory at {url} does not know the schematic {schematic} that runs")]
    Elsewhere {
        /// Which factory.
        url: String,
        /// Which schematic.
        schematic: String,
    },
}

impl FactoryError {
    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "name a factory that this machine reaches with --factory",
            Self::Refused { .. } | Self::Nonsense { .. } => {
                "check the URL of --factory, or make the schematic by hand and name it with --schematic"
            }
            Self::Unknown { .. } => {
                "the factory lists them below /version/TARGET/extensions/official"
            }
            Self::Elsewhere { .. } => {
                "name the factory that it came from with --factory, or make the schematic by hand \
                 and name it with --schematic"
            }
        }
    }
}

/// A factory's URL, without a slash at its end.
pub fn check_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("`{text}` is not the URL of a factory: {why}");
    let uri: Uri = text.parse().map_err(|_| wrong("it cannot be read"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("it begins with http:// or https://"));
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err(wrong("it names a host and perhaps a folder"));
    }
    if text.contains('@') {
        return Err(wrong("names and passwords do not belong there"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// The public factory.
pub fn usual() -> String {
    format!("https://{FACTORY}")
}

/// Makes a schematic like `base`, with these extensions instead of its own, for
/// a target that has them all. Gives its ID.
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
    let text = ask(url, Method::GET, &path, Bytes::new()).await?;
    let list: Vec<Extension> = serde_json::from_slice(&text)
        .map_err(|error| FactoryError::Nonsense { url: url.to_owned(), why: error.to_string() })?;
    Ok(list.into_iter().map(|extension| extension.name).collect())
}

async fn read(url: &str, schematic: &str) -> Result<Value, FactoryError> {
    let answer = ask(url, Method::GET, &format!("/schematics/{schematic}"), Bytes::new()).await;
    let text = match answer {
        Err(FactoryError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
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
    let text = ask(url, Method::POST, "/schematics", body).await?;
    let nonsense = |why: String| FactoryError::Nonsense { url: url.to_owned(), why };
    let created: Created =
        serde_json::from_slice(&text).map_err(|error| nonsense(error.to_string()))?;
    crate::args::schematic(&created.id).map_err(|error| nonsense(error.to_string()))
}

async fn ask(url: &str, method: Method, path: &str, body: Bytes) -> Result<Bytes, FactoryError> {
    let unreachable = |why: String| FactoryError::Unreachable { url: url.to_owned(), why };
    let request = Request::builder()
        .method(method)
        .uri(format!("{url}{path}"))
        .header(http::header::CONTENT_TYPE, "application/yaml")
        .body(Full::new(body))
        .map_err(|error| unreachable(error.to_string()))?;
    let answered = if url.starts_with("https:") {
        let provider = rustls_provider();
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(|error| unreachable(format!("no authorities to trust: {error}")))?
            .https_only()
            .enable_http1()
            .build();
        tokio::time::timeout(PATIENCE, send(connector, request)).await
    } else {
        let connector = hyper_util::client::legacy::connect::HttpConnector::new();
        tokio::time::timeout(PATIENCE, send(connector, request)).await
    };
    let (status, text) = match answered {
        Ok(answer) => answer.map_err(unreachable)?,
        Err(_) => return Err(unreachable(format!("no answer within {PATIENCE:?}"))),
    };
    if status.is_success() {
        return Ok(text);
    }
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Err(FactoryError::Refused { url: url.to_owned(), status, text })
}

fn rustls_provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::ring::default_provider()
}

async fn send<C>(connector: C, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(connector);
    let answer = client.request(request).await.map_err(|error| chain(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok((status, body))
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
        assert_eq!(check_url("https://factory.talos.dev/"), Ok("https://factory.talos.dev".into()));
        assert_eq!(check_url("http://127.0.0.1:8080/f"), Ok("http://127.0.0.1:8080/f".into()));
        for text in ["", "factory", "ftp://x", "https://", "https://x?y", "https://a:b@x"] {
            assert!(check_url(text).is_err(), "{text}");
        }
    }

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
