//! Certificates like those of Talos: Ed25519, roles as organisations, and the same name for every
//! authority.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, PKCS_ED25519, date_time_ymd,
};

/// When a certificate is valid.
#[derive(Clone, Copy)]
pub(crate) enum Valid {
    Now,
    NoLonger,
    NotYet,
}

/// A certificate and its key, both as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) certificate_der: Vec<u8>,
    pub(crate) key_der: Vec<u8>,
}

/// An authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

fn name(organisation: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, organisation);
    name
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = name("talos");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            der: certificate.der().to_vec(),
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, mut params: CertificateParams, valid: Valid) -> Pair {
        (params.not_before, params.not_after) = match valid {
            Valid::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1)),
            Valid::NoLonger => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Valid::NotYet => (date_time_ymd(2099, 1, 1), date_time_ymd(2100, 1, 1)),
        };
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            certificate: certificate.pem(),
            // This is how Talos labels its keys.
            key: key.serialize_pem().replace("PRIVATE KEY", "ED25519 PRIVATE KEY"),
            certificate_der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
        }
    }

    /// For a node with these addresses.
    pub(crate) fn server(&self, addresses: &[&str], valid: Valid) -> Pair {
        let addresses: Vec<_> = addresses.iter().map(|&text| text.to_owned()).collect();
        let mut params = CertificateParams::new(addresses).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, valid)
    }

    /// A client certificate with this role.
    pub(crate) fn client(&self, role: &str, valid: Valid) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(role);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, valid)
    }

    /// A talosconfig that trusts this authority.
    pub(crate) fn talosconfig(&self, endpoints: &[String], pair: &Pair) -> String {
        let base64 = |text: &str| STANDARD.encode(text);
        format!(
            "context: test\ncontexts:\n  test:\n    endpoints: {endpoints:?}\n    ca: {}\n    \
             crt: {}\n    key: {}\n",
            base64(&self.pem),
            base64(&pair.certificate),
            base64(&pair.key),
        )
    }
}
