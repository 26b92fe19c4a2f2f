//! Who calls the Kubernetes API: a certificate of the cluster's authority, a
//! token of a service account, or nobody.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_sim::{ApiServer, Caller, ResourceName, object};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::address::Places;
use crate::clock;
use crate::cluster::StartError;
use crate::model::{ClusterSpec, Time};
use crate::pki::{Authority, Pair};
use crate::tls::TlsError;

/// What somebody may ask without saying who they are, as Talos sets it up.
const PUBLIC: [&str; 3] = ["/livez", "/readyz", "/healthz"];

/// What a caller has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// A certificate: who it names, or nobody if it is worthless.
    pub certificate: Option<Option<Caller>>,
    /// A bearer token.
    pub token: Option<String>,
}

/// TLS for the API servers, and the judge of the certificates that callers show.
#[derive(Clone, Debug)]
pub struct Gate {
    /// How a server shows who it is.
    pub tls: Arc<ServerConfig>,
    judge: Arc<dyn ClientCertVerifier>,
}

impl Gate {
    /// For a server with this certificate, and callers of this authority.
    pub fn new(authority: &str, server: &Pair) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let judge =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()?;
        let chain = vec![CertificateDer::from_pem_slice(server.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(Later { judge: Arc::clone(&judge) }))
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { tls: Arc::new(config), judge })
    }

    /// Who a certificate names: the name and the groups, if it holds.
    pub fn caller(&self, chain: &[CertificateDer<'_>]) -> Option<Caller> {
        let (leaf, rest) = chain.split_first()?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(clock::wall_time().as_secs()));
        self.judge.verify_client_cert(leaf, rest, now).ok()?;
        let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
        let subject = certificate.subject();
        let text = |part: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            part.as_str().ok().map(str::to_owned)
        };
        Some(Caller {
            user: subject.iter_common_name().find_map(text)?,
            groups: subject.iter_organization().filter_map(text).collect(),
        })
    }
}

/// TLS for the shared address, and for each control plane's own.
pub(crate) fn gates(
    spec: &ClusterSpec,
    places: &Places,
    authority: &Authority,
    wall: Time,
) -> Result<Vec<Gate>, StartError> {
    let gate = |name: &str, addresses: &[IpAddr]| {
        let names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ];
        let pair = authority.server(name, &names, addresses, wall)?;
        Ok::<_, StartError>(Gate::new(&authority.pair().certificate, &pair)?)
    };
    let shared = places.endpoint.ip();
    let mut gates = vec![gate("kube-apiserver", &[shared])?];
    for (node, address) in spec.nodes.iter().zip(&places.kubernetes) {
        let mut addresses = node.addresses.clone();
        addresses.extend([address.ip(), shared]);
        gates.push(gate(&node.hostname, &addresses)?);
    }
    Ok(gates)
}

/// Whether a path is for everybody: a health check.
pub(super) fn is_public(path: &str) -> bool {
    PUBLIC.contains(&path)
}

/// Who calls; `None` if that has to be known and is not.
pub(super) fn caller(api: &ApiServer, shown: &Credentials, path: &str) -> Option<Caller> {
    let known = match (&shown.certificate, &shown.token) {
        (Some(Some(caller)), _) => Some(caller.clone()),
        (_, Some(token)) => Some(service_account(api, token)?),
        // A certificate of somebody else is no certificate.
        (Some(None), None) => return None,
        (None, None) => None,
    };
    match known {
        Some(mut caller) => {
            caller.groups.push("system:authenticated".to_owned());
            Some(caller)
        }
        None if is_public(path) => Some(Caller {
            user: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
        }),
        None => None,
    }
}

/// The service account that a token in a Secret belongs to.
fn service_account(api: &ApiServer, token: &str) -> Option<Caller> {
    let encoded = STANDARD.encode(token);
    let secret = api.store().list(&ResourceName::owned("", "secrets"), None).find(|secret| {
        object::text(secret, &["type"]) == "kubernetes.io/service-account-token"
            && object::text(secret, &["data", "token"]) == encoded
    })?;
    let namespace = object::namespace(secret);
    let name =
        object::text(secret, &["metadata", "annotations", "kubernetes.io/service-account.name"]);
    (!name.is_empty()).then(|| Caller {
        user: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ],
    })
}

/// Takes any certificate whose owner has its key: an API server answers those
/// that it does not know instead of hanging up.
#[derive(Debug)]
struct Later {
    judge: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for Later {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.judge.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
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
