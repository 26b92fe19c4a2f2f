//! apid's routing: which nodes a request is for, and how their answers are merged. All of it works
//! on bytes and does no IO.
//!
//! - `node`, exactly one value: that node's answer, unchanged.
//! - `nodes`, the older form: the answers of all of them, each embedded message with the name of
//!   its node. A node that fails becomes a message too, and the call succeeds.
//! - neither, or a request that another apid forwarded: this node.
//!
//! Workers have no certificate to call other nodes with, so they forward nothing.

use bytes::Bytes;
use http::HeaderMap;
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};
use talos_proto::{common, google};
use tonic::{Code, Status};

/// Services whose answers can be merged.
const MERGED: &[&str] = &[
    "/machine.MachineService/",
    "/cluster.ClusterService/",
    "/inspect.InspectService/",
    "/storage.StorageService/",
    "/time.TimeService/",
];

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the node that was asked.
    Local,
    /// To one node, by name or address.
    One(String),
    /// To several.
    Many(Vec<String>),
}

/// What routing needs to know about the node that received the request.
#[derive(Clone, Debug)]
pub struct Router {
    /// Whether it forwards at all: only control planes do.
    pub forwards: bool,
    /// Its own name and addresses.
    pub local: Vec<String>,
}

impl Router {
    /// Decides where a request goes.
    pub fn route(&self, metadata: &HeaderMap, path: &str) -> Result<Route, Status> {
        if metadata.contains_key("proxyfrom") {
            return Ok(Route::Local);
        }
        let node = values(metadata, "node");
        let nodes = values(metadata, "nodes");
        if node.len() > 1 {
            return Err(Status::invalid_argument("node metadata must be single-valued"));
        }
        let is_local = |targets: &[String]| {
            !self.forwards && matches!(targets, [target] if self.local.contains(target))
        };
        if !nodes.is_empty() && !is_local(&nodes) {
            if !MERGED.iter().any(|prefix| path.starts_with(prefix)) {
                return Err(Status::invalid_argument(format!(
                    "one-2-many proxying is not supported for method {path}"
                )));
            }
            nodes.iter().try_for_each(|target| self.check(target))?;
            return Ok(Route::Many(nodes));
        }
        match node.into_iter().next() {
            Some(target) if !is_local(std::slice::from_ref(&target)) => {
                self.check(&target)?;
                Ok(Route::One(target))
            }
            _ => Ok(Route::Local),
        }
    }

    fn check(&self, target: &str) -> Result<(), Status> {
        if !self.forwards {
            return Err(Status::permission_denied("no request forwarding"));
        }
        if target.is_empty() || contains_port(target) {
            return Err(Status::internal(format!("invalid target {target:?}")));
        }
        Ok(())
    }
}

/// A port after a host or an IPv4 address; a bare IPv6 address has none.
fn contains_port(target: &str) -> bool {
    match target.rsplit_once(':') {
        Some((host, _)) => !host.contains(':') || host.ends_with(']'),
        None => false,
    }
}

fn values(metadata: &HeaderMap, key: &str) -> Vec<String> {
    metadata
        .get_all(key)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect()
}

/// Why a target could not be reached, from the view of the connecting side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No node has this name or address.
    Unknown,
    /// The node is down, or cut off.
    Down,
    /// The connection was accepted and closed.
    Dropped,
}

impl Unreachable {
    /// The status that the caller receives.
    pub fn status(self, target: &str) -> Status {
        let is_address = target.parse::<std::net::IpAddr>().is_ok();
        let dial = |why: &str| {
            format!(
                "connection error: desc = \"transport: Error while dialing: \
                 dial tcp {target}:50000: connect: {why}\""
            )
        };
        Status::unavailable(match self {
            Self::Unknown if is_address => dial("no route to host"),
            Self::Unknown => "name resolver error: produced zero addresses".to_owned(),
            Self::Down => dial("connection refused"),
            Self::Dropped => {
                "connection error: desc = \"error reading server preface: EOF\"".to_owned()
            }
        })
    }
}

/// The status of a caller whose stream broke because the machine went down.
pub fn broken() -> Status {
    Status::unavailable("error reading from server: EOF")
}

/// Adds the node's name to one message of a stream.
pub fn name_item(message: &Bytes, target: &str) -> Bytes {
    let mut named = message.to_vec();
    named.extend(metadata(target, None).encode_to_vec());
    named.into()
}

/// Adds the node's name to the answer of a unary method: at the end of its one
/// embedded message.
pub fn name_reply(reply: &Bytes, target: &str) -> Result<Bytes, Status> {
    let unexpected = |_| Status::internal("unexpected message format");
    let mut rest = reply.clone();
    let (tag, wire_type) = decode_key(&mut rest).map_err(unexpected)?;
    let _length = decode_varint(&mut rest).map_err(unexpected)?;
    if tag != 1 || wire_type != WireType::LengthDelimited {
        return Err(Status::internal("unexpected message format"));
    }
    Ok(embed(&rest, &metadata(target, None).encode_to_vec()))
}

/// A node's failure as a message, whole or as the item of a stream.
pub fn name_failure(failure: &Status, target: &str, streaming: bool) -> Bytes {
    let message = metadata(target, Some(failure)).encode_to_vec();
    if streaming { message.into() } else { embed(&[], &message) }
}

fn embed(message: &[u8], more: &[u8]) -> Bytes {
    let mut reply = Vec::with_capacity(message.len() + more.len() + 8);
    encode_key(1, WireType::LengthDelimited, &mut reply);
    encode_varint((message.len() + more.len()) as u64, &mut reply);
    reply.extend_from_slice(message);
    reply.extend_from_slice(more);
    reply.into()
}

fn metadata(target: &str, failure: Option<&Status>) -> common::Empty {
    common::Empty {
        metadata: Some(common::Metadata {
            hostname: target.to_owned(),
            error: failure.map(go_error).unwrap_or_default(),
            status: failure.map(|failure| google::rpc::Status {
                code: failure.code() as i32,
                message: failure.message().to_owned(),
                details: Vec::new(),
            }),
        }),
    }
}

/// As Go prints a failure.
fn go_error(status: &Status) -> String {
    let code = match status.code() {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}

#[cfg(test)]
mod tests {
    use talos_proto::machine;

    use super::*;

    const VERSION: &str = "/machine.MachineService/Version";

    fn router(forwards: bool) -> Router {
        Router { forwards, local: vec!["worker-1".to_owned(), "127.1.2.3".to_owned()] }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (key, value) in pairs {
            headers.append(*key, value.parse().unwrap());
        }
        headers
    }

    fn route(forwards: bool, path: &str, pairs: &[(&'static str, &'static str)]) -> String {
        match router(forwards).route(&headers(pairs), path) {
            Ok(route) => format!("{route:?}"),
            Err(status) => format!("{:?}: {}", status.code(), status.message()),
        }
    }

    #[test]
    fn control_planes_forward() {
        assert_eq!(route(true, VERSION, &[]), "Local");
        assert_eq!(route(true, VERSION, &[("node", "a")]), r#"One("a")"#);
        let two = [("nodes", "a"), ("nodes", "b")];
        assert_eq!(route(true, VERSION, &two), r#"Many(["a", "b"])"#);
        assert_eq!(
            route(true, "/cosi.resource.State/Get", &two),
            "InvalidArgument: one-2-many proxying is not supported for method \
             /cosi.resource.State/Get"
        );
        assert_eq!(
            route(true, VERSION, &[("node", "a"), ("node", "b")]),
            "InvalidArgument: node metadata must be single-valued"
        );
        assert_eq!(
            route(true, VERSION, &[("node", "a:50000")]),
            r#"Internal: invalid target "a:50000""#
        );
        assert_eq!(route(true, VERSION, &[("node", "fd00::1")]), r#"One("fd00::1")"#);
        // Forwarded once, it is not forwarded again.
        let forwarded = [("proxyfrom", "x"), ("node", "a")];
        assert_eq!(route(true, VERSION, &forwarded), "Local");
    }

    #[test]
    fn workers_do_not() {
        let refused = "PermissionDenied: no request forwarding";
        assert_eq!(route(false, VERSION, &[("node", "a")]), refused);
        assert_eq!(route(false, VERSION, &[("nodes", "a")]), refused);
        assert_eq!(route(false, VERSION, &[("node", "worker-1")]), "Local");
        assert_eq!(route(false, VERSION, &[("nodes", "127.1.2.3")]), "Local");
    }

    #[test]
    fn names_and_failures_are_put_into_messages() {
        let reply = machine::HostnameResponse {
            messages: vec![machine::Hostname { metadata: None, hostname: "cp-1".to_owned() }],
        };
        let mut merged = name_reply(&reply.encode_to_vec().into(), "a").unwrap().to_vec();
        let down = Unreachable::Down.status("127.1.2.3");
        merged.extend(name_failure(&down, "127.1.2.3", false));
        let merged = machine::HostnameResponse::decode(merged.as_slice()).unwrap();
        assert_eq!(merged.messages.len(), 2);
        assert_eq!(merged.messages[0].hostname, "cp-1");
        assert_eq!(merged.messages[0].metadata.as_ref().unwrap().hostname, "a");
        let failed = merged.messages[1].metadata.as_ref().unwrap();
        assert_eq!(failed.status.as_ref().unwrap().code, 14);
        assert!(failed.error.starts_with("rpc error: code = Unavailable desc = connection error"));

        let item = common::Data { metadata: None, bytes: Bytes::from_static(b"x") };
        let named = name_item(&item.encode_to_vec().into(), "b");
        let named = common::Data::decode(named).unwrap();
        assert_eq!(named.metadata.unwrap().hostname, "b");
        assert_eq!(named.bytes, "x");
    }

    #[test]
    fn an_empty_reply_cannot_be_named() {
        // The real apid cannot either: its answer must hold a message.
        assert!(name_reply(&Bytes::new(), "a").is_err());
    }
}
