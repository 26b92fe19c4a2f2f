//! Client certificates of an administrator, signed by the authority of a cluster.

use std::fmt::{self, Debug};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519,
};
use time::OffsetDateTime;
use upgrade_core::jiff::Timestamp;

use super::authority::Authority;
use super::defect::Defect;
use super::{LEEWAY, LIFETIME};

/// The role of an administrator: Talos reads roles from the organisation of a certificate.
const ADMIN: &str = "os:admin";

/// A certificate and its key, as PEM.
pub(super) struct Client {
    pub(super) certificate: String,
    pub(super) key: String,
    /// The end of its life.
    pub(super) not_after: Timestamp,
}

impl Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client(..)")
    }
}

/// A certificate that is valid now and for a day, and no longer than its authority.
pub(super) fn client(authority: &Authority, now: Timestamp) -> Result<Client, Defect> {
    if now < authority.not_before || now >= authority.not_after {
        return Err(Defect::NotValidNow { field: authority.fields.certificate });
    }
    let not_before = (now - LEEWAY).max(authority.not_before);
    let not_after = (now + LIFETIME).min(authority.not_after);
    let made = sign(authority, not_before, not_after);
    let (certificate, key) = made.map_err(|_| Defect::CannotSign)?;
    Ok(Client { certificate, key, not_after })
}

fn sign(
    authority: &Authority,
    not_before: Timestamp,
    not_after: Timestamp,
) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, ADMIN);
    params.not_before = date(not_before);
    params.not_after = date(not_after);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = authority.certificate.as_slice().into();
    let issuer = Issuer::from_ca_cert_der(&certificate, &authority.key)?;
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let signed = params.signed_by(&key, &issuer)?;
    Ok((signed.pem(), key.serialize_pem()))
}

fn date(time: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
