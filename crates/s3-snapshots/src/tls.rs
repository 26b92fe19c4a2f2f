//! Whom we trust: the system's authorities, and those that the user names. There is no way to
//! switch verification off (rule 14).

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// A TLS configuration, or what is wrong with the authorities.
pub(crate) fn client_config(authorities: Option<&[u8]>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Single certificates of a system may be damaged; without any there is an error below.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(bundle) = authorities {
        add(&mut roots, bundle)?;
    }
    if roots.is_empty() {
        return Err(
            "the system has no trusted authorities; name the server's with ca-file=FILE".into()
        );
    }
    // Name `ring` explicitly: the process has no default provider.
    let provider = rustls::crypto::ring::default_provider();
    let versions = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// Strict, unlike the system's: the user named this file, and one authority that is left out would
/// be searched for long.
fn add(roots: &mut RootCertStore, bundle: &[u8]) -> Result<(), String> {
    let mut found = 0;
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate
            .map_err(|error| format!("the authorities in ca-file=FILE are not PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("an authority in ca-file=FILE cannot be used: {error}"))?;
        found += 1;
    }
    if found == 0 {
        return Err("ca-file=FILE contains no certificate; it must be PEM".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_that_is_none_is_refused() {
        let error = client_config(Some(b"hello")).unwrap_err();
        assert!(error.contains("contains no certificate"), "{error}");
        let damaged = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = client_config(Some(damaged)).unwrap_err();
        assert!(error.contains("cannot be used"), "{error}");
    }
}
