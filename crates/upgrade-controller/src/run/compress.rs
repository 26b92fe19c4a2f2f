//! Long texts in objects: compressed, so that a thousand nodes stay far below the 1.5 MB that
//! etcd accepts.
//!
//! A plan has about a kilobyte for each node and hop, and compresses to a twentieth. Small
//! ones stay readable.

use std::io::{Read as _, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use thiserror::Error;

/// What a packed text begins with; JSON never does.
const MARK: &str = "gzip:";

/// What stays readable.
const SMALL: usize = 64 * 1024;

/// The largest text that is read: another program may have written it.
const LARGE: u64 = 256 * 1024 * 1024;

/// Why a stored text cannot be read.
#[derive(Debug, Error)]
pub(super) enum CompressedError {
    /// It is not base64.
    #[error(transparent)]
    Encoding(#[from] base64::DecodeError),
    /// It is not gzip, or not UTF-8.
    #[error(transparent)]
    Content(#[from] std::io::Error),
}

/// The text as it is stored: as it is if it is small.
pub(super) fn compress(text: &str) -> String {
    if text.len() <= SMALL { text.to_owned() } else { gzip(text) }
}

/// The text as it was.
pub(super) fn decompress(stored: &str) -> Result<String, CompressedError> {
    let Some(packed) = stored.strip_prefix(MARK) else {
        return Ok(stored.to_owned());
    };
    let bytes = STANDARD.decode(packed)?;
    let mut text = String::new();
    let read = GzDecoder::new(bytes.as_slice()).take(LARGE).read_to_string(&mut text);
    read?;
    Ok(text)
}

/// The text as it is stored, packed in any case.
pub(super) fn gzip(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    let bytes = written.expect("writing to memory does not fail");
    format!("{MARK}{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_again() {
        for text in ["{}".to_owned(), "{\"node\": \"w\"}".repeat(100_000)] {
            let stored = compress(&text);
            assert!(stored.len() <= text.len());
            assert_eq!(decompress(&stored).unwrap(), text);
        }
        assert!(decompress("gzip:###").is_err());
        assert!(decompress("gzip:AAAA").is_err());
    }
}
