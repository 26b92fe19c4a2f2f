//! Reads PEM, as far as a talosconfig needs it.
//!
//! A few lines instead of a library, because Talos labels its keys `ED25519 PRIVATE KEY`, which
//! readers for the standard labels skip; the content is plain PKCS #8.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// One block: its label and its decoded content.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) der: Vec<u8>,
}

/// All blocks of a text; `None` if there is none or one is malformed.
pub(crate) fn blocks(text: &str) -> Option<Vec<Block>> {
    const BEGIN: &str = "-----BEGIN ";
    const DASHES: &str = "-----";
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let (label, body) = rest[at + BEGIN.len()..].split_once(DASHES)?;
        let end = format!("-----END {label}-----");
        let (body, after) = body.split_once(&end)?;
        let body: String = body.split_whitespace().collect();
        blocks.push(Block { label: label.to_owned(), der: STANDARD.decode(body).ok()? });
        rest = after;
    }
    (!blocks.is_empty()).then_some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_blocks() {
        let text = "note\n-----BEGIN CERTIFICATE-----\nAQID\nBA==\n-----END CERTIFICATE-----\n\
                    -----BEGIN ED25519 PRIVATE KEY-----\nBQ==\n-----END ED25519 PRIVATE KEY-----\n";
        let found = blocks(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].label, "CERTIFICATE");
        assert_eq!(found[0].der, [1, 2, 3, 4]);
        assert_eq!(found[1].label, "ED25519 PRIVATE KEY");
        assert_eq!(found[1].der, [5]);
    }

    #[test]
    fn broken_blocks() {
        for text in [
            "",
            "no block",
            "-----BEGIN X",
            "-----BEGIN X-----\nAQID",
            "-----BEGIN X-----\nAQID\n-----END Y-----",
            "-----BEGIN X-----\n!\n-----END X-----",
        ] {
            assert!(blocks(text).is_none(), "{text}");
        }
    }
}
