//! The dependencies of a Linux program, from the few fields of its file that name them.

use std::fmt;

use anyhow::{Context, Result};
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};

/// The dependencies of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The dynamic loader it needs.
    pub(super) interpreter: Option<String>,
    /// The number of shared libraries.
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
    /// Whether it runs on a system without any libraries.
    pub(super) fn nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads a program's dependencies from its file.
pub(super) fn needs(file: &[u8]) -> Result<Needs> {
    let header =
        FileHeader64::<Endianness>::parse(file).context("not a program for 64-bit Linux")?;
    let endian = header.endian()?;
    let mut needs = Needs::default();
    for segment in header.program_headers(endian, file)? {
        if let Some(name) = segment.interpreter(endian, file)? {
            needs.interpreter = Some(String::from_utf8_lossy(name).into_owned());
        }
        let entries = segment.dynamic(endian, file)?.unwrap_or_default();
        let tags = entries.iter().map(|entry| entry.tag(endian));
        let tags = tags.take_while(|tag| *tag != elf::DT_NULL);
        needs.libraries += tags.filter(|tag| *tag == elf::DT_NEEDED).count();
    }
    Ok(needs)
}

#[cfg(test)]
mod tests {
    use object::elf::{PT_DYNAMIC, PT_INTERP, PT_LOAD, ProgramType};

    use super::*;

    /// A file with one segment of this kind and content.
    fn file(ProgramType(kind): ProgramType, content: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
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
        assert!(needs(&file(PT_LOAD, b"code")).expect("a file").nothing());
        // A position-independent one has a dynamic segment without libraries.
        let mut entries = [0_u8; 32];
        entries[0] = 5;
        assert!(needs(&file(PT_DYNAMIC, &entries)).expect("a file").nothing());
    }

    #[test]
    fn a_dynamic_one_names_its_loader_and_its_libraries() {
        let found = needs(&file(PT_INTERP, b"/lib/ld.so\0")).expect("a file");
        assert_eq!(found.interpreter.as_deref(), Some("/lib/ld.so"));
        assert!(!found.nothing());
        let mut entries = [0_u8; 64];
        entries[0] = 1;
        entries[16] = 1;
        // After the end nothing counts.
        entries[48] = 1;
        let found = needs(&file(PT_DYNAMIC, &entries)).expect("a file");
        assert_eq!(found.libraries, 2);
    }

    #[test]
    fn a_file_that_is_not_a_program_is_refused() {
        for bytes in [&b"#!/bin/sh"[..], b"", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01"] {
            assert!(needs(bytes).is_err(), "{bytes:?}");
        }
        let mut short = file(PT_DYNAMIC, &[0; 16]);
        short.truncate(125);
        assert!(needs(&short).is_err());
    }
}
