//! Reads the single file of a gzipped tar archive, the format of a kubeconfig reply.
//!
//! A few lines instead of a library: the archive has one file, nothing is written to disk, and
//! paths in it are ignored.

use std::io::Read as _;

use flate2::read::GzDecoder;
use thiserror::Error;

/// The limit for unpacked content: a kubeconfig has a few kilobytes, and a compressed stream may be
/// a decompression bomb.
const MAX_UNPACKED: u64 = 4 << 20;

const BLOCK: usize = 512;

/// Why an archive is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ArchiveError {
    #[error("it is not a gzip stream")]
    NotGzip,
    #[error("it has more than {MAX_UNPACKED} bytes")]
    TooLarge,
    #[error("it is not a tar archive")]
    NotTar,
    #[error("it ends in the middle of a file")]
    Truncated,
    #[error("it has no file")]
    Empty,
}

/// The content of the first regular file.
pub(crate) fn only_file(archive: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let mut tar = Vec::new();
    GzDecoder::new(archive)
        .take(MAX_UNPACKED + 1)
        .read_to_end(&mut tar)
        .map_err(|_| ArchiveError::NotGzip)?;
    if tar.len() as u64 > MAX_UNPACKED {
        return Err(ArchiveError::TooLarge);
    }
    first_file(&tar)
}

fn first_file(tar: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let mut rest = tar;
    while let Some((header, body)) = rest.split_at_checked(BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            return Err(ArchiveError::Empty);
        }
        if Some(sum(header)) != octal(&header[148..156]) {
            return Err(ArchiveError::NotTar);
        }
        let size = octal(&header[124..136])
            .and_then(|size| usize::try_from(size).ok())
            .ok_or(ArchiveError::NotTar)?;
        let content = body.get(..size).ok_or(ArchiveError::Truncated)?;
        // A regular file has type '0', or a zero byte in old archives. Any other type is a
        // directory, a link, or a header for the next entry.
        if matches!(header[156], b'0' | 0) {
            return Ok(content.to_vec());
        }
        let padded = size.next_multiple_of(BLOCK);
        rest = body.get(padded..).ok_or(ArchiveError::Truncated)?;
    }
    if rest.is_empty() { Err(ArchiveError::Empty) } else { Err(ArchiveError::Truncated) }
}

/// The sum of a header's bytes, with its checksum field counted as blanks.
fn sum(header: &[u8]) -> u64 {
    let all = header.iter().enumerate();
    all.map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) })
        .sum()
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(['\0', ' ']);
    u64::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn entry(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut header = [0_u8; BLOCK];
        header[..10].copy_from_slice(b"kubeconfig");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = kind;
        let sum = sum(&header);
        header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        header[155] = b' ';
        let mut all = header.to_vec();
        all.extend_from_slice(content);
        all.resize(all.len().next_multiple_of(BLOCK), 0);
        all
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// An archive in the format that nodes send.
    pub(crate) fn archive(content: &[u8]) -> Vec<u8> {
        let mut tar = entry(b'0', content);
        tar.resize(tar.len() + 2 * BLOCK, 0);
        gzip(&tar)
    }

    #[test]
    fn one_file() {
        assert_eq!(only_file(&archive(b"apiVersion: v1")).unwrap(), b"apiVersion: v1");
        assert_eq!(only_file(&archive(b"")).unwrap(), b"");
    }

    #[test]
    fn headers_before_the_file_are_skipped() {
        let mut tar = entry(b'x', b"30 mtime=1.5\n");
        tar.extend(entry(b'5', b""));
        tar.extend(entry(b'0', b"content"));
        assert_eq!(first_file(&tar).unwrap(), b"content");
    }

    #[test]
    fn malformed_archives_are_rejected() {
        assert_eq!(only_file(b"apiVersion"), Err(ArchiveError::NotGzip));
        assert_eq!(only_file(&gzip(&[7; BLOCK])), Err(ArchiveError::NotTar));
        assert_eq!(only_file(&gzip(&[0; 2 * BLOCK])), Err(ArchiveError::Empty));
        assert_eq!(only_file(&gzip(b"")), Err(ArchiveError::Empty));
        assert_eq!(only_file(&gzip(&[1; 100])), Err(ArchiveError::Truncated));
        let cut = &entry(b'0', &[1; 600])[..BLOCK + 100];
        assert_eq!(first_file(cut), Err(ArchiveError::Truncated));
        let bomb = gzip(&vec![0; 5 << 20]);
        assert_eq!(only_file(&bomb), Err(ArchiveError::TooLarge));
    }

    proptest! {
        #[test]
        fn never_panics(tar in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let _ = first_file(&tar);
            let _ = only_file(&tar);
        }

        #[test]
        fn a_changed_header_never_panics(at in 0..BLOCK, byte in any::<u8>()) {
            let mut tar = entry(b'0', &[9; 700]);
            tar[at] = byte;
            let _ = first_file(&tar);
        }
    }
}
