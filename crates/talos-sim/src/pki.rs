//! Certificates: the cluster's authority, the nodes' own and those of clients.
//!
//! Keys have the types that Talos uses: Ed25519 for its own API, P-256 for that of Kubernetes. A
//! client's roles are the organisations (`O`) of its certificate.

use std::net::IpAddr;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType,
    SignatureAlgorithm,
};
use time::OffsetDateTime;

use crate::model::Time;

const DAY: Duration = Duration::from_hours(24);

/// The lifetime of Talos's own authority.
const CA_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);

/// The lifetime of a talosconfig that Talos makes.
pub const CLIENT_LIFETIME: Duration = Duration::from_hours(365 * 24);

/// Certificates are valid from a little earlier, for clients whose clock is behind.
const LEEWAY: Duration = Duration::from_hours(1);

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The generator failed, or its input is not PEM.
    #[error("cannot create or read a certificate")]
    Certificate(#[from] rcgen::Error),
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    /// Rule 14: without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair(..)")
    }
}

/// The content of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its organisation, such as `os:admin`. A real certificate may have
    /// several; the generator writes one.
    pub role: String,
    /// Start of validity.
    pub not_before: Time,
    /// End of validity.
    pub not_after: Time,
    /// Its extended key usages, in order; a node accepts exactly client authentication.
    pub usages: Vec<Usage>,
}

/// An extended key usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Client authentication.
    Client,
    /// Server authentication.
    Server,
}

impl Identity {
    /// A client with this role, valid from now on.
    pub fn new(role: impl Into<String>, now: Time) -> Self {
        Self {
            role: role.into(),
            not_before: now.minus(LEEWAY),
            not_after: now.plus(CLIENT_LIFETIME),
            usages: vec![Usage::Client],
        }
    }

    /// The same, but expired a day ago.
    #[must_use]
    pub fn expired(self, now: Time) -> Self {
        Self { not_before: now.minus(DAY * 30), not_after: now.minus(DAY), ..self }
    }

    /// The same with other key usages.
    #[must_use]
    pub fn with_usages(self, usages: Vec<Usage>) -> Self {
        Self { usages, ..self }
    }
}

/// The authority of one cluster.
#[derive(Debug)]
pub struct Authority {
    pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Generates one for the nodes.
    pub fn generate(now: Time) -> Result<Self, PkiError> {
        Self::make("talos", &PKCS_ED25519, now)
    }

    /// Generates one for Kubernetes.
    pub fn generate_kubernetes(now: Time) -> Result<Self, PkiError> {
        Self::make("kubernetes", &PKCS_ECDSA_P256_SHA256, now)
    }

    fn make(
        name: &str,
        algorithm: &'static SignatureAlgorithm,
        now: Time,
    ) -> Result<Self, PkiError> {
        let key = KeyPair::generate_for(algorithm)?;
        let mut params = params(now.minus(LEEWAY), now.plus(CA_LIFETIME), Some(name));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?;
        Self::load(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Loads a stored one.
    pub fn load(pair: Pair) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(&pair.key)?;
        let issuer = Issuer::from_ca_cert_pem(&pair.certificate, key)?;
        Ok(Self { pair, issuer })
    }

    /// Its own certificate and key.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// A server's certificate for its names and addresses.
    pub fn server(
        &self,
        hostname: &str,
        names: &[&str],
        addresses: &[IpAddr],
        now: Time,
    ) -> Result<Pair, PkiError> {
        let mut params = params(now.minus(LEEWAY), now.plus(CLIENT_LIFETIME), None);
        params.distinguished_name.push(DnType::CommonName, hostname.to_owned());
        params.subject_alt_names =
            addresses.iter().map(|address| SanType::IpAddress(*address)).collect();
        for name in std::iter::once(&hostname).chain(names) {
            params.subject_alt_names.push(SanType::DnsName((*name).try_into()?));
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A Kubernetes user's certificate: a name and a group.
    pub fn user(&self, name: &str, identity: &Identity) -> Result<Pair, PkiError> {
        let Identity { role, not_before, not_after, .. } = identity;
        let mut params = params(*not_before, *not_after, Some(role));
        params.distinguished_name.push(DnType::CommonName, name.to_owned());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A Talos client's certificate.
    pub fn client(&self, identity: &Identity) -> Result<Pair, PkiError> {
        let Identity { role, not_before, not_after, usages } = identity;
        let mut params = params(*not_before, *not_after, Some(role));
        params.extended_key_usages = usages
            .iter()
            .map(|usage| match usage {
                Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
                Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
            })
            .collect();
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair, PkiError> {
        let key = KeyPair::generate_for(self.issuer.key().algorithm())?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn params(not_before: Time, not_after: Time, organisation: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(organisation) = organisation {
        params.distinguished_name.push(DnType::OrganizationName, organisation.to_owned());
    }
    params.not_before = date(not_before);
    params.not_after = date(not_after);
    params
}

fn date(time: Time) -> OffsetDateTime {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
