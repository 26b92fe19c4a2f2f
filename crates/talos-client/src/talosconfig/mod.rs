//! The talosconfig: endpoints and credentials of a cluster.
//!
//! ```yaml
//! context: prod
//! contexts:
//!   prod:
//!     endpoints: [10.5.0.2, "10.5.0.3:50000", "[fd00::4]"]
//!     nodes: [10.5.0.2]
//!     ca: LS0tLS1C...   # base64 of PEM
//!     crt: LS0tLS1C...
//!     key: LS0tLS1C...
//! ```
//!
//! Reading validates the selected context completely, so that a mistake is reported here with its
//! place, not later as a failed handshake. Errors never quote the file, because it contains keys
//! (rule 14).

mod problem;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Hidden;
use crate::address::{AddressError, EndpointAddress, NodeAddress};
use crate::{pem, settings};

pub use problem::{ConfigError, Problem};

/// The size limit of a talosconfig. Real ones have a few kilobytes per context.
pub(crate) const MAX_SIZE: u64 = 1 << 20;

/// A parsed talosconfig; its contexts are not validated yet.
#[derive(Clone)]
pub struct Talosconfig {
    origin: String,
    current: Option<String>,
    contexts: BTreeMap<String, RawContext>,
}

/// One validated context: endpoints and credentials.
#[derive(Clone, Debug)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// The endpoints; at least one.
    pub endpoints: Vec<EndpointAddress>,
    /// The default nodes of commands.
    pub nodes: Vec<NodeAddress>,
    /// The cluster's name, if the file has one.
    pub cluster: Option<String>,
    /// The client identity and the trusted authorities.
    pub credentials: Credentials,
}

/// The certificates and the key of a context, in DER.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) authorities: Vec<Vec<u8>>,
    pub(crate) chain: Vec<Vec<u8>>,
    pub(crate) key: Hidden<PrivateKey>,
}

/// A private key and its encoding.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PrivateKey {
    Pkcs8(Vec<u8>),
    Sec1(Vec<u8>),
    Pkcs1(Vec<u8>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { authorities, chain, key } = self;
        f.debug_struct("Credentials")
            .field("authorities", &authorities.len())
            .field("chain", &chain.len())
            .field("key", key)
            .finish()
    }
}

impl fmt::Debug for Talosconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, current, contexts } = self;
        f.debug_struct("Talosconfig")
            .field("origin", origin)
            .field("current", current)
            .field("contexts", &contexts.keys())
            .finish()
    }
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(default)]
    context: Option<String>,
    #[serde(default)]
    contexts: Option<BTreeMap<String, Option<RawContext>>>,
}

#[derive(Clone, Default, Deserialize)]
struct RawContext {
    #[serde(default)]
    endpoints: Option<Vec<String>>,
    #[serde(default)]
    nodes: Option<Vec<String>>,
    #[serde(default)]
    ca: Option<String>,
    #[serde(default)]
    crt: Option<String>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default, rename = "proxy-url")]
    proxy_url: Option<String>,
    #[serde(default)]
    auth: Option<RawAuth>,
}

#[derive(Clone, Deserialize)]
struct RawAuth {
    #[serde(default)]
    basic: Option<IgnoredAny>,
    #[serde(default)]
    siderov1: Option<IgnoredAny>,
}

impl Talosconfig {
    /// Loads the file at `path`, or the first default location that exists (see
    /// [`settings::candidates`]).
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let candidates = path.map_or_else(settings::candidates, |path| vec![path.to_owned()]);
        let found = match candidates.as_slice() {
            [only] => only.clone(),
            several => match several.iter().find(|path| path.exists()) {
                Some(path) => path.clone(),
                None => {
                    return Err(ConfigError {
                        origin: display_all(several),
                        context: None,
                        problem: Problem::Missing,
                    });
                }
            },
        };
        Self::read(&found)
    }

    fn read(path: &Path) -> Result<Self, ConfigError> {
        let origin = path.display().to_string();
        let fail = |problem| ConfigError { origin: origin.clone(), context: None, problem };
        let read = || -> std::io::Result<Option<Vec<u8>>> {
            use std::io::Read as _;
            let mut bytes = Vec::new();
            let file = std::fs::File::open(path)?;
            let length = file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
            Ok((length as u64 <= MAX_SIZE).then_some(bytes))
        };
        match read() {
            Ok(Some(bytes)) => Self::parse(&bytes, &origin),
            Ok(None) => Err(fail(Problem::TooLarge)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(fail(Problem::Missing))
            }
            Err(error) => Err(fail(Problem::Read(error))),
        }
    }

    /// Parses a talosconfig in memory, such as the content of a Secret. `origin` names its source
    /// in errors.
    pub fn parse(bytes: &[u8], origin: &str) -> Result<Self, ConfigError> {
        let fail = |problem| ConfigError { origin: origin.to_owned(), context: None, problem };
        if bytes.len() as u64 > MAX_SIZE {
            return Err(fail(Problem::TooLarge));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| fail(Problem::NotText))?;
        if text.trim().is_empty() {
            return Err(fail(Problem::NoContexts));
        }
        // Snippets of the source could contain keys.
        let options = serde_saphyr::options! { with_snippet: false };
        let raw: RawConfig = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| fail(yaml_problem(&error)))?;
        let contexts: BTreeMap<_, _> = raw
            .contexts
            .unwrap_or_default()
            .into_iter()
            .map(|(name, context)| (name, context.unwrap_or_default()))
            .collect();
        if contexts.is_empty() {
            return Err(fail(Problem::NoContexts));
        }
        Ok(Self {
            origin: origin.to_owned(),
            current: raw.context.filter(|name| !name.is_empty()),
            contexts,
        })
    }

    /// The names of the contexts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.contexts.keys().map(String::as_str)
    }

    /// The context selected in the file.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// The context called `name`, or the one selected in the file.
    pub fn context(&self, name: Option<&str>) -> Result<Context, ConfigError> {
        let fail = |context: Option<&str>, problem| ConfigError {
            origin: self.origin.clone(),
            context: context.map(str::to_owned),
            problem,
        };
        let known = || self.names().map(str::to_owned).collect();
        let Some(name) = name.or(self.current()) else {
            return Err(fail(None, Problem::NotChosen { known: known() }));
        };
        let Some(raw) = self.contexts.get(name) else {
            return Err(fail(Some(name), Problem::NoSuchContext { known: known() }));
        };
        raw.check(name).map_err(|problem| fail(Some(name), problem))
    }
}

impl RawContext {
    fn check(&self, name: &str) -> Result<Context, Problem> {
        let Self { endpoints, nodes, ca, crt, key, cluster, proxy_url, auth } = self;
        if auth.as_ref().is_some_and(|auth| auth.siderov1.is_some()) {
            return Err(Problem::Unsupported {
                field: "auth.siderov1",
                next: "it signs requests with a user's key; use a talosconfig with a client \
                       certificate, such as `talosctl config new` writes",
            });
        }
        if auth.as_ref().is_some_and(|auth| auth.basic.is_some()) {
            return Err(Problem::Unsupported {
                field: "auth.basic",
                next: "use a talosconfig with a client certificate",
            });
        }
        if proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
            return Err(Problem::Unsupported {
                field: "proxy-url",
                next: "use endpoints that can be reached without a proxy",
            });
        }
        let endpoints: Vec<_> = addresses("endpoints", endpoints.as_deref())?;
        if endpoints.is_empty() {
            return Err(Problem::NoField {
                field: "endpoints",
                next: "list the control plane nodes with `talosctl config endpoint`",
            });
        }
        let credentials = Credentials {
            authorities: certificates("ca", ca.as_deref())?,
            chain: certificates("crt", crt.as_deref())?,
            key: Hidden::new(private_key(key.as_deref())?),
        };
        crate::tls::check(&credentials)?;
        Ok(Context {
            name: name.to_owned(),
            endpoints,
            nodes: addresses("nodes", nodes.as_deref())?,
            cluster: cluster.clone().filter(|cluster| !cluster.is_empty()),
            credentials,
        })
    }
}

fn addresses<A>(field: &'static str, texts: Option<&[String]>) -> Result<Vec<A>, Problem>
where
    A: std::str::FromStr<Err = AddressError>,
{
    let texts = texts.unwrap_or_default().iter().enumerate();
    texts
        .map(|(index, text)| {
            text.parse().map_err(|source| Problem::Address { field, number: index + 1, source })
        })
        .collect()
}

fn blocks(
    field: &'static str,
    expected: &'static str,
    value: Option<&str>,
) -> Result<Vec<pem::Block>, Problem> {
    let value = value.unwrap_or_default();
    if value.is_empty() {
        return Err(Problem::NoField {
            field,
            next: "take a talosconfig that has it, such as `talosctl config new` writes",
        });
    }
    // Editors may wrap long values.
    let value: String = value.split_whitespace().collect();
    let text = STANDARD.decode(value).map_err(|_| Problem::Base64 { field })?;
    String::from_utf8(text)
        .ok()
        .and_then(|text| pem::blocks(&text))
        .ok_or(Problem::Pem { field, expected })
}

fn certificates(field: &'static str, value: Option<&str>) -> Result<Vec<Vec<u8>>, Problem> {
    const EXPECTED: &str = "certificate";
    let certificates: Vec<_> = blocks(field, EXPECTED, value)?
        .into_iter()
        .filter(|block| block.label == "CERTIFICATE")
        .map(|block| block.der)
        .collect();
    if certificates.is_empty() {
        return Err(Problem::Pem { field, expected: EXPECTED });
    }
    Ok(certificates)
}

fn private_key(value: Option<&str>) -> Result<PrivateKey, Problem> {
    const EXPECTED: &str = "private key";
    blocks("key", EXPECTED, value)?
        .into_iter()
        .find_map(|pem::Block { label, der }| match label.as_str() {
            "PRIVATE KEY" | "ED25519 PRIVATE KEY" => Some(PrivateKey::Pkcs8(der)),
            "EC PRIVATE KEY" => Some(PrivateKey::Sec1(der)),
            "RSA PRIVATE KEY" => Some(PrivateKey::Pkcs1(der)),
            _ => None,
        })
        .ok_or(Problem::Pem { field: "key", expected: EXPECTED })
}

fn yaml_problem(error: &serde_saphyr::Error) -> Problem {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    Problem::Yaml { line, column, what: without_values(&error.to_string()) }
}

/// The parser's message on one line, without values: serde repeats a value of the wrong type, and
/// it may be a key.
fn without_values(message: &str) -> String {
    const LONGEST_PLAIN_WORD: usize = 24;
    let first = message.lines().next().unwrap_or_default();
    let words: Vec<_> =
        first
            .split_whitespace()
            .map(|word| {
                if word.len() > LONGEST_PLAIN_WORD { upgrade_core::secret::REDACTED } else { word }
            })
            .collect();
    words.join(" ")
}

fn display_all(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" or ")
}
