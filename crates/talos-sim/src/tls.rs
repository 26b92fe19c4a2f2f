//! The nodes' side of TLS: at least 1.3, a client certificate of the cluster's authority, and the
//! roles in it.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::pki::Pair;

/// Why a node's TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Stored data is not PEM.
    #[error("a stored certificate or key is not PEM")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// Certificate and key do not match, or are unusable.
    #[error("a stored certificate or key cannot be used")]
    Rustls(#[from] rustls::Error),
    /// The authority's certificate is not a CA certificate.
    #[error("the cluster's authority cannot be used")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// How client certificates are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Required, and for client authentication only: the check that apid adds to the usual ones.
    OnlyClients,
    /// Optional, and of any authority as long as the client has its key: an API server answers
    /// unknown clients with 401 instead of closing the connection.
    Later,
}

/// The TLS configuration of a node's apid.
pub fn server_config(authority: &str, node: &Pair) -> Result<Arc<ServerConfig>, TlsError> {
    Ok(configure(authority, node, Judgement::OnlyClients, &["h2"])?.0)
}

/// TLS for a server, and the verifier for certificates of this authority.
pub(crate) fn configure(
    authority: &str,
    server: &Pair,
    judgement: Judgement,
    protocols: &[&str],
) -> Result<(Arc<ServerConfig>, Arc<dyn ClientCertVerifier>), TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    let judge = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()?;
    let chain = vec![CertificateDer::from_pem_slice(server.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes())?;
    let verifier = Judged { judge: Arc::clone(&judge), judgement };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(chain, key)?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok((Arc::new(config), judge))
}

/// The roles of a client: the organisations of its certificate.
pub fn roles(leaf: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return Vec::new();
    };
    certificate
        .subject()
        .iter_organization()
        .filter_map(|organisation| organisation.as_str().ok())
        .map(str::to_owned)
        .collect()
}

/// The usual signature checks, plus a [`Judgement`].
#[derive(Debug)]
struct Judged {
    judge: Arc<dyn ClientCertVerifier>,
    judgement: Judgement,
}

impl ClientCertVerifier for Judged {
    fn client_auth_mandatory(&self) -> bool {
        self.judgement == Judgement::OnlyClients
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.judge.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if self.judgement == Judgement::Later {
            return Ok(ClientCertVerified::assertion());
        }
        let verified = self
            .judge
            .verify_client_cert(end_entity, intermediates, now)
            // Every cluster's authority has the same name, so a certificate of another cluster
            // appears as a wrong signature; the client must see "unknown authority".
            .map_err(|error| match error {
                rustls::Error::InvalidCertificate(CertificateError::BadSignature) => {
                    CertificateError::UnknownIssuer.into()
                }
                other => other,
            })?;
        if is_only_for_clients(end_entity) {
            Ok(verified)
        } else {
            // The same alert as apid's own check: "bad certificate".
            Err(CertificateError::BadEncoding.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}

fn is_only_for_clients(leaf: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    let Ok(Some(usages)) = certificate.extended_key_usage() else {
        return false;
    };
    let usages = usages.value;
    usages.client_auth
        && !usages.any
        && !usages.server_auth
        && !usages.code_signing
        && !usages.email_protection
        && !usages.time_stamping
        && !usages.ocsp_signing
        && usages.other.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Time;
    use crate::pki::{Authority, Identity, Usage};

    fn der(pair: &Pair) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()
    }

    #[test]
    fn roles_are_read_and_purposes_kept_apart() {
        let now = Time::from_secs(1_800_000_000);
        let authority = Authority::generate(now).unwrap();
        let reader = Identity::new("os:reader", now);
        let leaf = der(&authority.client(&reader).unwrap());
        assert_eq!(roles(&leaf), ["os:reader"]);
        assert!(is_only_for_clients(&leaf));
        for usages in [vec![], vec![Usage::Server], vec![Usage::Client, Usage::Server]] {
            let other = reader.clone().with_usages(usages);
            assert!(!is_only_for_clients(&der(&authority.client(&other).unwrap())));
        }
        let node = authority.server("cp-1", &[], &["127.0.0.1".parse().unwrap()], now).unwrap();
        assert!(roles(&der(&node)).is_empty());
        server_config(&authority.pair().certificate, &node).unwrap();
    }

    #[test]
    fn an_authority_survives_its_storage() {
        let now = Time::from_secs(1_800_000_000);
        let authority = Authority::generate(now).unwrap();
        let again = Authority::load(authority.pair().clone()).unwrap();
        assert_eq!(again.pair(), authority.pair());
        assert!(!format!("{authority:?}").contains("PRIVATE"));
    }
}
