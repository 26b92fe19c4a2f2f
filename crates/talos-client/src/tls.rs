//! Mutual TLS, always verified.
//!
//! The only roots are the context's own authorities, and verification cannot be disabled. TLS 1.3
//! only: every Talos supports it, and the newest support nothing older. The crypto provider is
//! `ring`, set explicitly so that no other crate can change it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::ResolvesClientCert;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme, crypto::ring, version::TLS13};

use crate::talosconfig::{Credentials, PrivateKey, Problem};

/// Whether the credentials can be used.
pub(crate) fn check(credentials: &Credentials) -> Result<(), Problem> {
    client_config(credentials).map(|_| ())
}

/// Loads newer credentials, if there are any.
pub(crate) type Reload = Arc<dyn Fn() -> Option<Credentials> + Send + Sync>;

/// The TLS configuration of connections.
pub(crate) fn client_config(credentials: &Credentials) -> Result<Arc<ClientConfig>, Problem> {
    reloading_config(credentials, Arc::new(|| None::<Credentials>))
}

/// The same with a certificate that is reloaded at every connection: the certificate of a Talos
/// service account is valid for six hours.
pub(crate) fn reloading_config(
    credentials: &Credentials,
    reload: Reload,
) -> Result<Arc<ClientConfig>, Problem> {
    let mut roots = RootCertStore::empty();
    for authority in &credentials.authorities {
        roots
            .add(CertificateDer::from(authority.clone()))
            .map_err(|error| Problem::Authority { why: error.to_string() })?;
    }
    let identity = Identity { shown: Mutex::new(certified(credentials)?), reload };
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has cipher suites for TLS 1.3")
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(identity));
    // gRPC servers in Go refuse a connection that does not negotiate HTTP/2.
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// The certificate and key of credentials, if they match.
fn certified(credentials: &Credentials) -> Result<Arc<CertifiedKey>, Problem> {
    let Credentials { authorities: _, chain, key } = credentials;
    let chain = chain.iter().cloned().map(CertificateDer::from).collect();
    let key: PrivateKeyDer<'static> = match key.expose().clone() {
        PrivateKey::Pkcs8(der) => PrivatePkcs8KeyDer::from(der).into(),
        PrivateKey::Sec1(der) => PrivateSec1KeyDer::from(der).into(),
        PrivateKey::Pkcs1(der) => PrivatePkcs1KeyDer::from(der).into(),
    };
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map(Arc::new)
        .map_err(|error| Problem::Identity { why: error.to_string() })
}

/// Our identity: the newest usable credentials.
struct Identity {
    shown: Mutex<Arc<CertifiedKey>>,
    reload: Reload,
}

impl fmt::Debug for Identity {
    /// Rule 14: it holds a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(<hidden>)")
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let newer = (self.reload)().and_then(|credentials| certified(&credentials).ok());
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newer) = newer {
            *shown = newer;
        }
        Some(Arc::clone(&shown))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
