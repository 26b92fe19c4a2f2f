//! A snapshot on its way: parts, the hash of what was sent, and no trace if it fails.

use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use object_store::{MultipartUpload, PutPayload};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::error::{Problem, S3Error};

/// The size of a part. All but the last have it; servers want at least 5 MiB.
pub(crate) const PART: usize = 8 << 20;

/// The number of parts that are sent at a time, beside the one that is being filled: together 24 MiB
/// for a snapshot, whatever its size.
const IN_FLIGHT: usize = 2;

/// The deadline of a part with its retries.
const PART_LIMIT: Duration = Duration::from_mins(5);

/// The deadline of removing parts. What is left after it is for the bucket's lifecycle rule.
const ABORT_LIMIT: Duration = Duration::from_secs(30);

const DOING: &str = "the snapshot cannot be uploaded";

/// A snapshot that is being written. Dropped, it asks the server to remove its parts, as far as the
/// runtime still runs.
pub struct S3Writer {
    /// Bucket and server, for errors.
    target: Arc<str>,
    /// `None` once it is complete or aborted.
    upload: Option<Box<dyn MultipartUpload>>,
    /// The parts on their way.
    parts: JoinSet<Result<(), S3Error>>,
    /// The part that is being filled.
    buffer: Vec<u8>,
    /// The number of parts that were begun.
    sent: usize,
    hash: Sha256,
    bytes: u64,
    /// The object's name without its number, if it has one, and without its suffix.
    pub(crate) stem: String,
    /// The object's name, without its suffix.
    pub(crate) name: String,
    /// What tells our object from another of the same name.
    pub(crate) marker: String,
}

impl S3Writer {
    pub(crate) fn new(
        target: Arc<str>,
        upload: Box<dyn MultipartUpload>,
        (stem, name): (String, String),
        marker: String,
    ) -> Self {
        Self {
            target,
            upload: Some(upload),
            parts: JoinSet::new(),
            buffer: Vec::new(),
            sent: 0,
            hash: Sha256::new(),
            bytes: 0,
            stem,
            name,
            marker,
        }
    }

    /// The size and hash of what was written.
    pub(crate) fn sum(&self) -> (u64, [u8; 32]) {
        (self.bytes, self.hash.clone().finalize().into())
    }

    /// What is still here, if that is everything: then the same can be sent under another name.
    pub(crate) fn small(&self) -> Option<Bytes> {
        (self.sent == 0).then(|| Bytes::from(self.buffer.clone()))
    }

    /// Begins again with another upload and what [`small`](Self::small) returned.
    pub(crate) fn restart(&mut self, upload: Box<dyn MultipartUpload>, name: String, all: &Bytes) {
        self.upload = Some(upload);
        self.name = name;
        self.buffer = all.to_vec();
        self.sent = 0;
    }

    /// Sends the last part and makes all of them an object.
    pub(crate) async fn complete(&mut self) -> Result<(), object_store::Error> {
        let Some(upload) = &mut self.upload else { return Ok(()) };
        upload.complete().await?;
        self.upload = None;
        Ok(())
    }

    /// Sends the last part, and waits for all of them.
    pub(crate) async fn finish_parts(&mut self) -> Result<(), S3Error> {
        if !self.buffer.is_empty() || self.sent == 0 {
            self.send_part();
        }
        while let Some(part) = self.parts.join_next().await {
            self.joined(part)?;
        }
        Ok(())
    }

    /// Removes the parts, and returns when they are gone.
    pub(crate) async fn abort(&mut self) {
        self.parts.shutdown().await;
        if let Some(upload) = self.upload.take() {
            abort(upload, Arc::clone(&self.target)).await;
        }
    }

    /// The object is there, whatever the reply to the request said.
    pub(crate) fn is_complete(&mut self) {
        self.upload = None;
    }

    fn send_part(&mut self) {
        let Some(upload) = &mut self.upload else { return };
        let part = upload.put_part(PutPayload::from(mem::take(&mut self.buffer)));
        let target = Arc::clone(&self.target);
        self.sent += 1;
        // Its own task: it proceeds while the cluster is slow to send more.
        self.parts.spawn(async move {
            let Ok(sent) = timeout(PART_LIMIT, part).await else {
                let limit = format!("within {PART_LIMIT:?}");
                return Err(S3Error::new(Problem::TimedOut, &target, DOING, limit));
            };
            sent.map_err(|cause| S3Error::of(&target, DOING, &cause))
        });
    }

    fn joined(&self, part: Result<Result<(), S3Error>, JoinError>) -> Result<(), S3Error> {
        let failed = |_| S3Error::new(Problem::Other, &self.target, DOING, "a part was not sent");
        part.map_err(failed)?
    }

    /// Waits until another part may be sent.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S3Error>> {
        while self.parts.len() >= IN_FLIGHT {
            if let Some(part) = ready!(self.parts.poll_join_next(context)) {
                self.joined(part)?;
            }
        }
        Poll::Ready(Ok(()))
    }
}

async fn abort(mut upload: Box<dyn MultipartUpload>, target: Arc<str>) {
    let error = match timeout(ABORT_LIMIT, upload.abort()).await {
        Ok(Ok(())) => return,
        Ok(Err(cause)) => {
            S3Error::of(&target, "the parts of a failed upload cannot be removed", &cause)
                .to_string()
        }
        Err(_) => format!("{target}: the parts of a failed upload were not removed in time"),
    };
    tracing::warn!("{error}; a lifecycle rule for incomplete uploads removes them");
}

impl Drop for S3Writer {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        // Without a runtime, as when the process ends, nothing can be asked of the server.
        if let Ok(runtime) = Handle::try_current() {
            let mut parts = mem::take(&mut self.parts);
            let target = Arc::clone(&self.target);
            runtime.spawn(async move {
                // First: a part that arrives after the removal would stay.
                parts.shutdown().await;
                abort(upload, target).await;
            });
        }
    }
}

impl AsyncWrite for S3Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.buffer.len() == PART {
            // Only now: what fits into one part stays here until the end.
            let room = ready!(this.poll_room(context));
            room.map_err(|error| io::Error::other(error.into_store_error()))?;
            this.send_part();
        }
        let length = bytes.len().min(PART - this.buffer.len());
        let bytes = &bytes[..length];
        this.buffer.extend_from_slice(bytes);
        this.hash.update(bytes);
        this.bytes += u64::try_from(length).unwrap_or(u64::MAX);
        Poll::Ready(Ok(length))
    }

    /// What is written is durable only after a commit.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
