//! Reading back what was written, before it counts.

use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{Attribute, GetOptions, ObjectStore};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use crate::error::{Problem, S3Error};

/// The longest silence within a reply.
const SILENCE: Duration = Duration::from_secs(30);

/// The name of the metadata that says which writer made an object.
pub(crate) const MARKER: &str = "talos-operator-upload";

const DOING: &str = "the snapshot cannot be read back";

/// What the server says of an object.
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) marker: Option<String>,
}

pub(crate) fn marker_attribute() -> Attribute {
    Attribute::Metadata(MARKER.into())
}

/// Asks for size and marker.
pub(crate) async fn head(
    store: &dyn ObjectStore,
    path: &Path,
) -> Result<Stored, object_store::Error> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    let result = store.get_opts(path, options).await?;
    let marker = result.attributes.get(&marker_attribute()).map(|value| value.as_ref().to_owned());
    Ok(Stored { bytes: result.meta.size, marker })
}

/// Reads an object, and compares size and hash.
pub(crate) async fn read_back(
    store: &dyn ObjectStore,
    target: &str,
    path: &Path,
    (bytes, sha256): (u64, [u8; 32]),
) -> Result<(), S3Error> {
    let failed = |cause: object_store::Error| S3Error::of(target, DOING, &cause);
    let late = |_| S3Error::new(Problem::TimedOut, target, DOING, format!("within {SILENCE:?}"));
    let damaged = |detail: String| S3Error::new(Problem::Damaged, target, DOING, detail);
    let answer = timeout(SILENCE, store.get_opts(path, GetOptions::default())).await;
    let mut stream = answer.map_err(late)?.map_err(failed)?.into_stream();
    let (mut hash, mut length) = (Sha256::new(), 0_u64);
    while let Some(chunk) = timeout(SILENCE, stream.next()).await.map_err(late)? {
        let chunk = chunk.map_err(failed)?;
        length += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if length > bytes {
            break;
        }
        hash.update(&chunk);
    }
    if length != bytes {
        return Err(damaged(format!("{length} bytes of {bytes}")));
    }
    let found: [u8; 32] = hash.finalize().into();
    if found == sha256 { Ok(()) } else { Err(damaged("its SHA-256 differs".to_owned())) }
}
