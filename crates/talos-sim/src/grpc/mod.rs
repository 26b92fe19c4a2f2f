//! The gRPC endpoint of one node: reads requests, routes them as apid does, calls the model, and
//! writes the answers.

mod encode;
mod methods;
mod raw;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use hyper::body::Incoming;
use talos_proto::MAX_MESSAGE_SIZE;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::{self, Stream, StreamExt as _};
use tonic::server::{Grpc, ServerStreamingService};
use tonic::{Request, Response, Status};

pub use methods::{METHODS, Method};

use crate::apid::{self, Route, Router, Unreachable};
use crate::driver::{Answer, Call, Driver, Open};
use crate::model::{Caller, Content, NodeIndex, Role};

/// Encoded messages, until the end or a failure.
type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// How many merged messages wait for the caller.
const MERGE_CAPACITY: usize = 64;

/// Names and addresses of all nodes, by which they find each other.
#[derive(Debug, Default)]
pub struct Directory {
    /// Of each node, its name and addresses.
    pub names: Vec<Vec<String>>,
    /// Each node's address in the storage network, if there is one.
    pub storage: Vec<Option<String>>,
}

impl Directory {
    fn find(&self, target: &str) -> Option<NodeIndex> {
        self.names.iter().position(|names| names.iter().any(|name| name == target)).map(NodeIndex)
    }

    fn find_in_storage(&self, target: &str) -> Option<NodeIndex> {
        self.storage.iter().position(|it| it.as_deref() == Some(target)).map(NodeIndex)
    }
}

/// One node's endpoint, for one connection: it knows the caller's roles.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Which node.
    pub node: NodeIndex,
    /// Decides where requests for other nodes go.
    pub router: Arc<Router>,
    /// All nodes.
    pub directory: Arc<Directory>,
    /// The world.
    pub driver: Driver,
    /// The roles in the caller's certificate.
    pub roles: Arc<[String]>,
}

impl Endpoint {
    /// Answers one HTTP/2 request.
    pub async fn serve(
        self,
        request: http::Request<Incoming>,
    ) -> Result<http::Response<tonic::body::Body>, Infallible> {
        let is_grpc = request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !is_grpc {
            let mut refused = http::Response::new(tonic::body::Body::empty());
            *refused.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Ok(refused);
        }
        let path = request.uri().path().to_owned();
        let mut grpc = Grpc::new(raw::Raw)
            .max_decoding_message_size(MAX_MESSAGE_SIZE)
            .max_encoding_message_size(MAX_MESSAGE_SIZE);
        let handler = Handler { endpoint: self, path };
        Ok(grpc.server_streaming(handler, request).await)
    }

    async fn answer(self, path: &str, request: Request<Bytes>) -> Result<Frames, Status> {
        let (metadata, _, message) = request.into_parts();
        let metadata = metadata.into_headers();
        let caller = self.caller(&metadata);
        match self.router.route(&metadata, path)? {
            Route::Local => self.ask(self.node, caller, path, message, false, "").await,
            Route::One(target) => self.forward(&target, caller, path, message).await,
            Route::Many(targets) => self.merge(targets, caller, path, message).await,
        }
    }

    /// Roles come from the certificate. A certificate that may impersonate takes them from the
    /// metadata, if given.
    fn caller(&self, metadata: &HeaderMap) -> Caller {
        let own = Caller::with_roles(self.roles.iter().map(String::as_str));
        let others: Vec<&str> =
            metadata.get_all("talos-role").iter().filter_map(|value| value.to_str().ok()).collect();
        if own.has(Role::Impersonator) && !others.is_empty() {
            Caller::with_roles(others)
        } else {
            own
        }
    }

    async fn forward(
        &self,
        target: &str,
        caller: Caller,
        path: &str,
        message: Bytes,
    ) -> Result<Frames, Status> {
        let node = match self.directory.find(target) {
            Some(node) => node,
            None => match self.directory.find_in_storage(target) {
                Some(node) if node == self.node => node,
                // No route leads there: packets are dropped without an answer.
                Some(_) => std::future::pending().await,
                None => return Err(Unreachable::Unknown.status(target)),
            },
        };
        let forwarded = node != self.node;
        self.ask(node, caller, path, message, forwarded, target).await
    }

    async fn merge(
        &self,
        targets: Vec<String>,
        caller: Caller,
        path: &str,
        message: Bytes,
    ) -> Result<Frames, Status> {
        let streaming = Method::find(path).is_some_and(|method| method.streaming);
        let (sender, receiver) = mpsc::channel(MERGE_CAPACITY);
        for target in targets {
            let (endpoint, caller, message) = (self.clone(), caller.clone(), message.clone());
            let (path, sender) = (path.to_owned(), sender.clone());
            tokio::spawn(async move {
                let part = endpoint.part(&target, caller, &path, message, streaming, &sender);
                tokio::select! {
                    () = part => {}
                    // The caller is gone: cancel the call.
                    () = sender.closed() => {}
                }
            });
        }
        drop(sender);
        let mut parts = Channel(receiver);
        if streaming {
            return Ok(Box::pin(parts));
        }
        let mut merged = Vec::new();
        while let Some(part) = parts.next().await {
            merged.extend(part?);
        }
        Ok(once(Ok(merged.into())))
    }

    /// One node's part of a merged answer.
    async fn part(
        &self,
        target: &str,
        caller: Caller,
        path: &str,
        message: Bytes,
        streaming: bool,
        sender: &mpsc::Sender<Result<Bytes, Status>>,
    ) {
        let failure = match self.forward(target, caller, path, message).await {
            Err(status) => Some(status),
            Ok(mut frames) => loop {
                let frame = match frames.next().await {
                    None => break None,
                    Some(Err(status)) => break Some(status),
                    Some(Ok(frame)) => frame,
                };
                let named = if streaming {
                    Ok(apid::name_item(&frame, target))
                } else {
                    apid::name_reply(&frame, target)
                };
                if sender.send(named).await.is_err() {
                    return;
                }
            },
        };
        if let Some(status) = failure {
            let message = apid::name_failure(&status, target, streaming);
            let _ = sender.send(Ok(message)).await;
        }
    }

    /// Calls the node itself.
    async fn ask(
        &self,
        node: NodeIndex,
        caller: Caller,
        path: &str,
        message: Bytes,
        forwarded: bool,
        target: &str,
    ) -> Result<Frames, Status> {
        let Some(method) = Method::find(path) else {
            return Err(Status::unimplemented(methods::unknown(path)));
        };
        let request = (method.decode)(message).map_err(|error| {
            Status::internal(format!("grpc: error unmarshalling request: {error}"))
        })?;
        let answer = self
            .driver
            .call(Call {
                node,
                caller,
                method: method.name(),
                request,
                forwarded,
                through: self.node,
            })
            .await;
        match answer {
            Answer::Items(items) => {
                let frames: Vec<_> = items.iter().map(|item| Ok(encode::encode(item))).collect();
                Ok(Box::pin(tokio_stream::iter(frames)))
            }
            Answer::Failed(failure) => Err(encode::status(failure)),
            Answer::Silent => std::future::pending().await,
            Answer::Down if target.is_empty() => Err(apid::broken()),
            Answer::Down => Err(Unreachable::Down.status(target)),
            Answer::Dropped => Err(Unreachable::Dropped.status(target)),
            Answer::Open(open) if method.streaming => Ok(Box::pin(Contents(Some(open)))),
            // A slow unary method: its failure is the call's.
            Answer::Open(open) => {
                let first = Contents(Some(open)).next().await;
                let message = first.unwrap_or_else(|| Err(apid::broken()))?;
                Ok(once(Ok(message)))
            }
        }
    }
}

fn once(frame: Result<Bytes, Status>) -> Frames {
    Box::pin(tokio_stream::once(frame))
}

struct Handler {
    endpoint: Endpoint,
    path: String,
}

impl ServerStreamingService<Bytes> for Handler {
    type Response = Bytes;
    type ResponseStream = Frames;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Frames>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (endpoint, path) = (self.endpoint.clone(), std::mem::take(&mut self.path));
        Box::pin(async move { endpoint.answer(&path, request).await.map(Response::new) })
    }
}

/// What the model sends to an open stream, as frames.
struct Contents(Option<Open>);

impl Stream for Contents {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(open) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let Poll::Ready(received) = open.contents.poll_recv(context) else {
            return Poll::Pending;
        };
        let item = match received {
            Some(Content::Item(response)) => {
                return Poll::Ready(Some(Ok(encode::encode(&response))));
            }
            Some(Content::End(Ok(()))) => None,
            Some(Content::End(Err(failure))) => Some(Err(encode::status(failure))),
            // Only a machine that goes down ends a stream without a status.
            Some(Content::Drop) | None => Some(Err(apid::broken())),
        };
        self.0 = None;
        Poll::Ready(item)
    }
}

/// The receiving end of a channel, as a stream.
struct Channel(mpsc::Receiver<Result<Bytes, Status>>);

impl Stream for Channel {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
