//! Keys, tokens and kubeconfigs.

use std::fs::File;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{About as _, Error};

/// The system's random source.
const RANDOM: &str = "/dev/urandom";

/// Random bytes.
pub(crate) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], Error> {
    let mut bytes = [0; LENGTH];
    File::open(RANDOM).and_then(|mut file| file.read_exact(&mut bytes)).about(RANDOM)?;
    Ok(bytes)
}

/// An unguessable token, without characters that the token file would have to quote.
pub(crate) fn token() -> Result<String, Error> {
    Ok(random::<16>()?.map(|byte| format!("{byte:02x}")).concat())
}

/// A new private key for service account tokens, as PEM.
///
/// A key on the curve P-256 is any number from 1 to the curve's order, which is a little less than
/// 2²⁵⁶: 32 random bytes with the highest bit cleared are a valid key. The public half may be
/// omitted (RFC 5915), so generating a key needs neither cryptography nor a library.
pub(crate) fn signing_key() -> Result<String, Error> {
    let mut number = random::<32>()?;
    number[0] &= 0x7f;
    Ok(pem(&number))
}

fn pem(number: &[u8; 32]) -> String {
    // ECPrivateKey: version 1, the number, and the name of the curve.
    const BEFORE: [u8; 7] = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    const AFTER: [u8; 12] =
        [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let text = STANDARD.encode([&BEFORE[..], number, &AFTER].concat());
    // PEM has at most 64 characters on a line.
    let (first, rest) = text.split_at(64);
    format!("-----BEGIN EC PRIVATE KEY-----\n{first}\n{rest}\n-----END EC PRIVATE KEY-----\n")
}

/// A kubeconfig that references no other file.
pub(crate) fn kubeconfig(url: &str, authority: &str, user: &str, token: &str) -> String {
    let authority = STANDARD.encode(authority);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: loopback\n\
         \x20 cluster:\n\
         \x20   server: {url}\n\
         \x20   certificate-authority-data: {authority}\n\
         users:\n\
         - name: {user}\n\
         \x20 user:\n\
         \x20   token: {token}\n\
         contexts:\n\
         - name: {user}@loopback\n\
         \x20 context:\n\
         \x20   cluster: loopback\n\
         \x20   user: {user}\n\
         current-context: {user}@loopback\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_length_that_its_first_bytes_announce() {
        let text = pem(&[7; 32]);
        let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(body).expect("base64");
        assert_eq!(der.len(), 2 + usize::from(der[1]));
        assert_eq!(der[7..39], [7; 32]);
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
    }

    #[test]
    fn tokens_differ_and_need_no_quotes() {
        let (one, other) = (token().expect("random"), token().expect("random"));
        assert_ne!(one, other);
        assert!(one.len() == 32 && one.chars().all(|it| it.is_ascii_hexdigit()), "{one}");
    }
}
