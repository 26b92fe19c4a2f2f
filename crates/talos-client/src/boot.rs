//! What a machine boots next, as far as its API reports it.

use crate::client::Node;
use crate::error::{Error, Failure};
use crate::resources::{BootedEntry, ServicePid};

/// The EFI variable of systemd-boot that names the default entry.
const DEFAULT_ENTRY: &str =
    "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// The limit for the variable: it holds a file name.
const MAX_VARIABLE: usize = 4096;

/// The attribute bytes before a variable's value in Linux's efivarfs.
const ATTRIBUTES: usize = 4;

/// The boot entries of systemd-boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootEntries {
    /// The entry that is running.
    pub booted: String,
    /// The entry of the next boot. A disk image sets none before its first upgrade: then the
    /// running entry is the default.
    pub default: Option<String>,
}

impl Node {
    /// Whether an installer is running now (Talos 1.13 and newer).
    pub async fn installer_runs(&self) -> Result<bool, Error> {
        match self.get_id::<ServicePid>("installer").await {
            Ok(found) => Ok(found.is_some()),
            Err(error) if matches!(error.failure(), Failure::NotSupported(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The booted entry and the default entry of systemd-boot; `None` on a machine with another
    /// boot loader. Needs `os:admin`.
    pub async fn boot_entries(&self) -> Result<Option<BootEntries>, Error> {
        let booted = match self.get::<BootedEntry>().await {
            Ok(Some(resource)) if !resource.spec.0.is_empty() => resource.spec.0,
            Ok(_) => return Ok(None),
            Err(error) if matches!(error.failure(), Failure::NotSupported(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = async { self.read_file(DEFAULT_ENTRY).await?.collect(MAX_VARIABLE).await };
        let default = match read.await {
            Ok(bytes) => text(&bytes).map_err(|what| {
                let failure = Failure::Malformed(format!("LoaderEntryDefault {what}"));
                self.call("Read", None).failed(failure)
            })?,
            Err(error) if matches!(error.failure(), Failure::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Some(BootEntries { booted, default }))
    }
}

/// Decodes a variable: four bytes of attributes, then UTF-16 in little-endian order, terminated by
/// a zero.
fn text(bytes: &[u8]) -> Result<Option<String>, &'static str> {
    let value = bytes.get(ATTRIBUTES..).ok_or("is too short")?;
    if value.len() % 2 != 0 {
        return Err("has half a character");
    }
    let units = value.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    let text = String::from_utf16(&units).map_err(|_| "is not text")?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(text: &str) -> Vec<u8> {
        let units = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        [7, 0, 0, 0].into_iter().chain(units).collect()
    }

    #[test]
    fn a_variable_is_utf_16_behind_its_attributes() {
        let name = "Talos-v1.14.1~1.efi";
        assert_eq!(text(&variable(name)), Ok(Some(name.to_owned())));
        assert_eq!(text(&variable("")), Ok(None));
        assert!(text(&[7, 0]).is_err());
        assert!(text(&[7, 0, 0, 0, 1]).is_err());
        assert!(text(&[7, 0, 0, 0, 0x00, 0xd8]).is_err(), "half of a pair");
    }
}
