//! Mutual TLS, always verified.
//!
//! The only roots are the context's own authorities, and there is no switch to
//! turn verification off. TLS 1.3 only: every Talos speaks it, and the newest
//! speak nothing older. The provider of cryptography is `ring`, named here so
//! that no other crate's choice can change ours.

use std::sync::Arc;

use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring, version::TLS13};

use crate::talosconfig::{Credentials, PrivateKey, Problem};

/// Whether the credentials can be used at all.
pub(crate) fn check(credentials: &Credentials) -> Result<(), Problem> {
    client_config(credentials).map(|_| ())
}

/// What connections are made with.
pub(crate) fn client_config(credentials: &Credentials) -> Result<Arc<ClientConfig>, Problem> {
    let Credentials { authorities, chain, key } = credentials;
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(CertificateDer::from(authority.clone()))
            .map_err(|error| Problem::Authority { why: error.to_string() })?;
    }
    let chain = chain.iter().cloned().map(CertificateDer::from).collect();
    let key: PrivateKeyDer<'static> = match key.expose().clone() {
        PrivateKey::Pkcs8(der) => PrivatePkcs8KeyDer::from(der).into(),
        PrivateKey::Sec1(der) => PrivateSec1KeyDer::from(der).into(),
        PrivateKey::Pkcs1(der) => PrivatePkcs1KeyDer::from(der).into(),
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has cipher suites for TLS 1.3")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| Problem::Identity { why: error.to_string() })?;
    // gRPC servers in Go refuse a connection that does not negotiate HTTP/2.
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
