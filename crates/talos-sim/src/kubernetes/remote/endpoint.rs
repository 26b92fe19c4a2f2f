//! The address of a real Kubernetes API, and the credentials for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderValue, Uri};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsConnector;

use super::RemoteError;

/// The port of `https://` if none is given.
const USUAL_PORT: u16 = 443;

/// A real Kubernetes API that the nodes of a cluster register with. A folder stores the address and
/// the file names; the files are read at every start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealApi {
    /// Its address, `https://127.0.0.1:6443`.
    pub url: String,
    /// A file with the token of a cluster administrator.
    pub token_file: PathBuf,
    /// A file with the CA certificates that verify the server, as PEM.
    pub ca_file: PathBuf,
}

/// The same, parsed.
#[derive(Clone)]
pub(crate) struct Endpoint {
    api: RealApi,
    pub(super) host: String,
    pub(super) port: u16,
    /// The prefix of every path; usually empty.
    pub(super) base: String,
    pub(super) name: ServerName<'static>,
    pub(super) tls: TlsConnector,
    pub(super) bearer: HeaderValue,
}

/// Rule 14: without the token.
impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Place").field(&self.api.url).finish()
    }
}

impl Endpoint {
    /// Reads the files.
    pub(crate) fn open(api: &RealApi) -> Result<Self, RemoteError> {
        let wrong = || RemoteError::Url(api.url.clone());
        let uri: Uri = api.url.parse().map_err(|_| wrong())?;
        // A token does not travel in the clear.
        if uri.scheme_str() != Some("https") || uri.query().is_some() {
            return Err(wrong());
        }
        let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
        let token = read("token", &api.token_file)?.trim().to_owned();
        let unusable = || RemoteError::Token(api.token_file.clone());
        let mut bearer =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| unusable())?;
        bearer.set_sensitive(true);
        if token.is_empty() || token.contains(char::is_whitespace) {
            return Err(unusable());
        }
        let authority = read("certificates", &api.ca_file)?;
        let tls = TlsConnector::from(Arc::new(client_config(&authority, &api.ca_file)?));
        Ok(Self {
            api: api.clone(),
            host,
            port: uri.port_u16().unwrap_or(USUAL_PORT),
            base: uri.path().trim_end_matches('/').to_owned(),
            name,
            tls,
            bearer,
        })
    }

    /// The user's settings.
    pub(crate) fn api(&self) -> &RealApi {
        &self.api
    }
}

fn read(what: &'static str, path: &Path) -> Result<String, RemoteError> {
    std::fs::read_to_string(path).map_err(|source| RemoteError::File {
        what,
        path: path.to_owned(),
        source,
    })
}

fn client_config(authority: &str, path: &Path) -> Result<ClientConfig, RemoteError> {
    let wrong = || RemoteError::Authority(path.to_owned());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.map_err(|_| wrong())?).map_err(|_| wrong())?;
    }
    if roots.is_empty() {
        return Err(wrong());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| wrong())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Time;
    use crate::pki::Authority;

    #[test]
    fn errors_name_the_problem_and_never_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let authority = Authority::generate_kubernetes(Time::from_secs(1_800_000_000)).unwrap();
        let good = RealApi {
            url: "https://127.0.0.1:6443/".to_owned(),
            token_file: file("token", "s3cret\n"),
            ca_file: file("ca", &authority.pair().certificate),
        };
        let place = Endpoint::open(&good).unwrap();
        assert_eq!((place.host.as_str(), place.port, place.base.as_str()), ("127.0.0.1", 6443, ""));
        assert_eq!(place.bearer.to_str().unwrap(), "Bearer s3cret");
        assert!(!format!("{place:?} {:?}", place.bearer).contains("s3cret"));

        let refused = |api: RealApi| Endpoint::open(&api).unwrap_err().to_string();
        for url in ["http://127.0.0.1:6443", "127.0.0.1:6443", "https://", "https://a/?b"] {
            let error = refused(RealApi { url: url.to_owned(), ..good.clone() });
            assert!(error.contains(url), "{error}");
        }
        let error = refused(RealApi { token_file: folder.path().join("none"), ..good.clone() });
        assert!(error.contains("cannot read the token from "), "{error}");
        let error = refused(RealApi { token_file: file("empty", "\n"), ..good.clone() });
        assert!(error.contains("holds no token"), "{error}");
        let error = refused(RealApi { ca_file: file("text", "certificate"), ..good });
        assert!(error.contains("holds no certificate"), "{error}");
    }
}
