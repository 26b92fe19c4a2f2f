//! The S3 address of a flag or profile, as a store. Credentials come from the environment.

use std::path::{Path, PathBuf};

use s3_snapshots::{Address, Config, S3Snapshots};
use upgrade_core::text::chain;

use crate::settings;

/// An address whose file of authorities is found: relative paths belong to a profile or to the
/// working directory.
pub fn resolve(text: &str, beside: impl Fn(&Path) -> PathBuf) -> Result<Address, String> {
    let mut address: Address = text.parse().map_err(|error| chain(&error))?;
    address.ca = address.ca.as_deref().map(beside);
    Ok(address)
}

/// The store of an address. No request is sent yet.
pub fn open(address: Address) -> Result<S3Snapshots, String> {
    let config = Config::from_environment(address, &settings::s3());
    let config = config.map_err(|error| chain(&error))?;
    S3Snapshots::new(&config).map_err(|error| chain(&error))
}

/// What to write instead of an address that is none.
pub const EXAMPLE: &str = "write it like s3://BUCKET/PREFIX?region=REGION";
