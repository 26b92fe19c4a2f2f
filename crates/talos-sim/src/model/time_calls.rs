//! The service that compares a node's clock with a time server's. Only talosctl uses it, so its
//! messages are here and not in `proto/`.

use prost::Message;
use talos_proto::common;

use super::World;
use super::api::NodeIndex;
use super::time;

/// The default time server of nodes.
const SERVER: &str = "time.cloudflare.com";

/// The server to query.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TimeRequest {
    /// Its name or address.
    #[prost(string, tag = "1")]
    pub server: String,
}

/// A node's clock and a server's.
#[derive(Clone, PartialEq, Message)]
pub struct NodeTime {
    /// Whose answer it is, where several are merged.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<common::Metadata>,
    /// The server that was asked.
    #[prost(string, tag = "2")]
    pub server: String,
    /// The node's clock.
    #[prost(message, optional, tag = "3")]
    pub localtime: Option<prost_types::Timestamp>,
    /// The server's clock.
    #[prost(message, optional, tag = "4")]
    pub remotetime: Option<prost_types::Timestamp>,
}

/// The answers of all nodes in the request.
#[derive(Clone, PartialEq, Message)]
pub struct TimeResponse {
    /// One for each node.
    #[prost(message, repeated, tag = "1")]
    pub messages: Vec<NodeTime>,
}

impl World {
    /// Every server reports the world's own time.
    pub(super) fn time(&self, node: NodeIndex, server: Option<String>) -> TimeResponse {
        TimeResponse {
            messages: vec![NodeTime {
                metadata: None,
                server: server.unwrap_or_else(|| SERVER.to_owned()),
                localtime: Some(time::to_proto(self.node_time(node))),
                remotetime: Some(time::to_proto(self.now)),
            }],
        }
    }
}
