//! Who calls the Kubernetes API: a certificate of the cluster's authority, a service account token,
//! or anonymous.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube_sim::{ApiServer, Caller};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::address::Places;
use crate::clock;
use crate::cluster::StartError;
use crate::model::{ClusterSpec, Time};
use crate::pki::{Authority, Pair};
use crate::tls::{self, Judgement, TlsError};

/// Paths that anonymous callers may read, as Talos configures it.
const PUBLIC: [&str; 3] = ["/livez", "/readyz", "/healthz"];

/// What a caller has presented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// A certificate: the identity in it, or `None` inside if it is not valid.
    pub certificate: Option<Option<Caller>>,
    /// A bearer token.
    pub token: Option<String>,
}

/// TLS for the API servers, and the verifier of client certificates.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The server's side of TLS.
    pub tls: Arc<ServerConfig>,
    judge: Arc<dyn ClientCertVerifier>,
}

impl Gate {
    /// For a server with this certificate, and clients of this authority.
    pub fn new(authority: &str, server: &Pair) -> Result<Self, TlsError> {
        let (tls, judge) =
            tls::configure(authority, server, Judgement::Later, &["h2", "http/1.1"])?;
        Ok(Self { tls, judge })
    }

    /// The identity in a certificate, name and groups, if it is valid.
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

/// Whether a path is open to anonymous callers: a health check.
pub(super) fn is_public(path: &str) -> bool {
    PUBLIC.contains(&path)
}

/// The caller; `None` if the path requires one and the credentials are missing or invalid.
pub(super) fn caller(api: &ApiServer, shown: &Credentials, path: &str) -> Option<Caller> {
    let known = match (&shown.certificate, &shown.token) {
        (Some(Some(caller)), _) => Some(caller.clone()),
        (_, Some(token)) => Some(api.account_of(token)?),
        // A certificate of another authority is not accepted.
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
