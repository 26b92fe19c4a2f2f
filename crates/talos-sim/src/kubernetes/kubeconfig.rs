//! The kubeconfig of a cluster's administrator, as Talos writes it.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::pki::{Authority, Identity, Pair, PkiError};
use crate::talosconfig::encode;

/// The group with unlimited access.
pub const ADMINISTRATORS: &str = "system:masters";

/// Writes a kubeconfig with a new certificate for an administrator.
pub fn admin(
    cluster: &str,
    server: &str,
    authority: &Authority,
    now: crate::model::Time,
) -> Result<String, PkiError> {
    let identity = Identity::new(ADMINISTRATORS, now);
    let Pair { certificate, key } = authority.user("admin", &identity)?;
    let user = format!(
        "client-certificate-data: {}\n    client-key-data: {}",
        encode(&certificate),
        encode(&key),
    );
    Ok(write(cluster, server, &authority.pair().certificate, &user))
}

/// Writes a kubeconfig with one context.
fn write(cluster: &str, server: &str, authority: &str, user: &str) -> String {
    let authority = encode(authority);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: admin@{cluster}
  user:
    {user}
contexts:
- context:
    cluster: {cluster}
    namespace: default
    user: admin@{cluster}
  name: admin@{cluster}
current-context: admin@{cluster}
"
    )
}

/// A gzipped tar archive with the kubeconfig as its one file: what a node
/// answers to `Kubeconfig`.
pub fn archive(text: &str) -> Bytes {
    const BLOCK: usize = 512;
    let mut tar = header(text.len()).to_vec();
    tar.extend_from_slice(text.as_bytes());
    // Padded to a whole block, followed by two empty ones.
    tar.resize(tar.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(&tar);
    encoder.finish().unwrap_or_default().into()
}

/// The header of a file in a tar archive.
fn header(size: usize) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, "kubeconfig");
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_archive_holds_one_file() {
        let archive = archive("apiVersion: v1\n");
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(archive.as_ref()).read_to_end(&mut tar).unwrap();
        assert_eq!(tar.len(), 512 + 512 + 1024);
        assert!(tar.starts_with(b"kubeconfig\0"));
        assert_eq!(&tar[124..136], b"00000000017\0");
        assert!(tar[512..].starts_with(b"apiVersion: v1\n\0"));
    }
}
