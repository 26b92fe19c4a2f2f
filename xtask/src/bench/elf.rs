//! What a program for Linux needs of others: the few fields of its file that
//! say so.

use std::fmt;

use anyhow::{Context, Result, bail};

/// Kinds of segments, and tags of dynamic entries.
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const NEEDED: u64 = 1;

/// What a program needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The loader that has to start it.
    pub(super) interpreter: Option<String>,
    /// How many shared libraries.
    pub(super) libraries: usize,
}

impl fmt::Display for Needs {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.interpreter, self.libraries) {
            (None, 0) => write!(to, "needs nothing"),
            (None, libraries) => write!(to, "needs {libraries} libraries"),
            (Some(loader), libraries) => {
                write!(to, "needs {loader} and {libraries} libraries")
            }
        }
    }
}

impl Needs {
    /// Whether it runs on a system with nothing on it.
    pub(super) fn nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads what a program needs, from its file.
pub(super) fn needs(file: &[u8]) -> Result<Needs> {
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        bail!("it is no program for a 64-bit Linux of this byte order");
    }
    let (table, size, count) = (number(file, 32, 8)?, number(file, 54, 2)?, number(file, 56, 2)?);
    let mut needs = Needs::default();
    for index in 0..count {
        let at = index.checked_mul(size).and_then(|offset| offset.checked_add(table));
        let at = usize::try_from(at.context("a segment beyond the end")?)?;
        let kind = u32::try_from(number(file, at, 4)?)?;
        if kind != DYNAMIC && kind != INTERPRETER {
            continue;
        }
        let begin = usize::try_from(number(file, at + 8, 8)?)?;
        let length = usize::try_from(number(file, at + 32, 8)?)?;
        let end = begin.checked_add(length).context("a segment beyond the end")?;
        let segment = file.get(begin..end).context("a segment beyond the end")?;
        if kind == INTERPRETER {
            let name = segment.split(|byte| *byte == 0).next().unwrap_or_default();
            needs.interpreter = Some(String::from_utf8_lossy(name).into_owned());
        } else {
            needs.libraries += libraries(segment)?;
        }
    }
    Ok(needs)
}

/// How many entries of a dynamic segment name a library.
fn libraries(segment: &[u8]) -> Result<usize> {
    let mut count = 0;
    for entry in segment.chunks_exact(16) {
        match number(entry, 0, 8)? {
            0 => break,
            NEEDED => count += 1,
            _ => {}
        }
    }
    Ok(count)
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> Result<u64> {
    let end = at.checked_add(length).context("a file that ends too early")?;
    let bytes = bytes.get(at..end).context("a file that ends too early")?;
    Ok(bytes.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one segment of this kind and content.
    fn file(kind: u32, content: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64..68].copy_from_slice(&kind.to_le_bytes());
        file[72] = 120;
        file[96] = u8::try_from(content.len()).expect("small");
        file.extend_from_slice(content);
        file
    }

    #[test]
    fn a_static_program_needs_nothing() {
        assert!(needs(&file(1, b"code")).expect("a file").nothing());
        // One that may be loaded anywhere has a dynamic segment without libraries.
        let mut entries = [0_u8; 32];
        entries[0] = 5;
        assert!(needs(&file(DYNAMIC, &entries)).expect("a file").nothing());
    }

    #[test]
    fn a_dynamic_one_names_its_loader_and_its_libraries() {
        let found = needs(&file(INTERPRETER, b"/lib/ld.so\0")).expect("a file");
        assert_eq!(found.interpreter.as_deref(), Some("/lib/ld.so"));
        assert!(!found.nothing());
        let mut entries = [0_u8; 64];
        entries[0] = 1;
        entries[16] = 1;
        // After the end nothing counts.
        entries[48] = 1;
        let found = needs(&file(DYNAMIC, &entries)).expect("a file");
        assert_eq!(found.libraries, 2);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        for bytes in [&b"#!/bin/sh"[..], b"", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01"] {
            assert!(needs(bytes).is_err(), "{bytes:?}");
        }
        let mut short = file(DYNAMIC, &[0; 16]);
        short.truncate(125);
        assert!(needs(&short).is_err());
    }
}
