//! Streams with limits: each has a longest silence, and a finite one also has a deadline.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use talos_proto::common::Data;
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;

use crate::client::{Answer, Node};
use crate::deadline::from_now;
use crate::error::{Call, Error, Failure};
use crate::reply::carried;

/// A stream of messages.
pub(crate) struct Incoming<M> {
    stream: Streaming<M>,
    call: Call,
    idle: Duration,
    total: Option<(Instant, Duration)>,
}

impl<M> fmt::Debug for Incoming<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("call", &self.call).finish_non_exhaustive()
    }
}

impl<M> Incoming<M> {
    pub(crate) fn new(
        node: &Node,
        method: &'static str,
        answer: Answer<Streaming<M>>,
        idle: Duration,
        total: Option<Duration>,
    ) -> Self {
        let Answer { value, endpoint } = answer;
        Self {
            stream: value,
            call: node.call(method, Some(&endpoint)),
            idle,
            total: total.map(|total| (from_now(total), total)),
        }
    }

    pub(crate) const fn set_idle(&mut self, idle: Duration) {
        self.idle = idle;
    }

    pub(crate) fn failed(&self, failure: Failure) -> Error {
        self.call.failed(failure)
    }

    /// The next message; `None` at the end. Cancel-safe: the next call returns a message that was
    /// not delivered.
    pub(crate) async fn next(&mut self) -> Result<Option<M>, Error> {
        let silent = from_now(self.idle);
        let (until, late) = match self.total {
            Some((end, total)) if end < silent => (end, Failure::Deadline(total)),
            _ => (silent, Failure::Idle(self.idle)),
        };
        match timeout_at(until, self.stream.message()).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(status)) => Err(self.failed(Failure::of(&status))),
            Err(_) => Err(self.failed(late)),
        }
    }
}

/// A byte stream: a log, a file, a snapshot.
#[derive(Debug)]
pub struct ByteStream {
    incoming: Incoming<Data>,
}

impl ByteStream {
    pub(crate) const fn new(incoming: Incoming<Data>) -> Self {
        Self { incoming }
    }

    /// The next chunk; `None` at the end. Chunks are never empty.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(Data { metadata, bytes }) = self.incoming.next().await? {
            if let Some(failure) = carried(metadata.as_ref()) {
                return Err(self.incoming.failed(failure));
            }
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Reads everything, up to `limit` bytes.
    pub async fn collect(mut self, limit: usize) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            if all.len() + bytes.len() > limit {
                let failure = Failure::Malformed(format!("more than {limit} bytes"));
                return Err(self.incoming.failed(failure));
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
}
