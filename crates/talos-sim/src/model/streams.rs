//! Open streams, and the output for them.

use super::World;
use super::api::{Content, NodeIndex, Output, Response, Status, StreamId};
use super::cosi::Watch;
use super::health::HealthCheck;

/// A stream that a caller holds open on a node.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) node: NodeIndex,
    pub(super) stream: Stream,
}

/// The kind of a stream.
#[derive(Clone, Debug)]
pub(super) enum Stream {
    /// Events, of one actor if that is not empty.
    Events { actor: String },
    /// Changes of resources.
    Watch(Box<Watch>),
    /// The progress of a pull, or a call that waits for one.
    Pull,
    /// The output of the installer.
    Installer,
    /// Log lines of a service, or of the kernel: no new lines ever come, but the stream stays open.
    Follow,
    /// A health check.
    Health(HealthCheck),
}

impl World {
    pub(super) fn open(&mut self, node: NodeIndex, stream: Stream) -> StreamId {
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        self.streams.insert(id, Open { node, stream });
        id
    }

    pub(super) fn send(&mut self, stream: StreamId, item: impl Into<Response>) {
        if self.streams.contains_key(&stream) {
            let content = Content::Item(item.into());
            self.outputs.push(Output { stream, content });
        }
    }

    pub(super) fn end(&mut self, stream: StreamId, how: Result<(), Status>) {
        if self.streams.remove(&stream).is_some() {
            let content = Content::End(how);
            self.outputs.push(Output { stream, content });
        }
    }

    /// Breaks every stream of a node, as when it goes down.
    pub(super) fn drop_streams(&mut self, node: NodeIndex) {
        let broken: Vec<StreamId> =
            self.streams.iter().filter(|(_, open)| open.node == node).map(|(id, _)| *id).collect();
        for stream in broken {
            self.streams.remove(&stream);
            self.outputs.push(Output { stream, content: Content::Drop });
            self.cancel_pull(node, stream);
        }
    }
}
