//! The authority of a cluster's Talos API: its certificate and its key, checked before use.

use std::fmt::{self, Debug};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use upgrade_core::jiff::Timestamp;
use x509_parser::pem::{Pem, parse_x509_pem};

use super::defect::Defect;

/// The names of the two fields in a source, for errors.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) certificate: &'static str,
    pub(super) key: &'static str,
}

/// An authority that can sign.
pub(super) struct Authority {
    /// Its certificate, as PEM.
    pub(super) pem: String,
    /// Its certificate.
    pub(super) certificate: Vec<u8>,
    /// Its key.
    pub(super) key: KeyPair,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) fields: Fields,
}

impl Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(..)")
    }
}

impl Authority {
    /// Reads an authority from two fields, each of them base64 of PEM.
    pub(super) fn read(
        fields: Fields,
        certificate: Option<&str>,
        key: Option<&str>,
    ) -> Result<Self, Defect> {
        let (pem, block) = decoded(fields.certificate, "certificate", certificate)?;
        let parsed = block.parse_x509().map_err(|_| not_pem(fields.certificate, "certificate"))?;
        if !parsed.is_ca() {
            return Err(Defect::NotAnAuthority { field: fields.certificate });
        }
        let time = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let validity = parsed.validity();
        let not_before = time(validity.not_before.timestamp());
        let not_after = time(validity.not_after.timestamp());
        let public = parsed.public_key().subject_public_key.data.to_vec();
        let (_, key_block) = decoded(fields.key, "private key", key)?;
        let key = KeyPair::try_from(key_block.contents.as_slice())
            .map_err(|_| not_pem(fields.key, "private key"))?;
        if key.public_key_raw() != public {
            let Fields { certificate, key } = fields;
            return Err(Defect::NotAPair { certificate, key });
        }
        Ok(Self { pem, certificate: block.contents, key, not_before, not_after, fields })
    }
}

/// The PEM text of a field, and its first block. Talos has a label of its own for keys, which
/// does not matter here.
fn decoded(
    field: &'static str,
    expected: &'static str,
    value: Option<&str>,
) -> Result<(String, Pem), Defect> {
    let value = value.filter(|value| !value.is_empty()).ok_or(Defect::NoField { field })?;
    // Editors may wrap long values.
    let value: String = value.split_whitespace().collect();
    let wrong = || not_pem(field, expected);
    let bytes = STANDARD.decode(value).map_err(|_| wrong())?;
    let pem = String::from_utf8(bytes).map_err(|_| wrong())?;
    let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|_| wrong())?;
    Ok((pem, block))
}

const fn not_pem(field: &'static str, expected: &'static str) -> Defect {
    Defect::NotPem { field, expected }
}
