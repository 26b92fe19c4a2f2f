//! Requests to the task that owns the cluster: from an endpoint to the API server and back.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use kube_sim::{Caller, Item, Output, Reply, Request, Status, StreamId};
use tokio::sync::mpsc;

use super::auth::{self, Credentials};
use super::{Kubernetes, health};
use crate::model::{ApiTrouble, NodeIndex, Time, World};

/// How many events may wait for a reader before its watch is closed.
const WATCH_CAPACITY: usize = 16_384;

/// A request to the Kubernetes API.
#[derive(Debug)]
pub struct ApiCall {
    /// The control plane whose address received it; `None` for the shared address.
    pub node: Option<NodeIndex>,
    /// Who calls.
    pub credentials: Credentials,
    /// The request itself.
    pub request: Request,
}

/// The outcome.
#[derive(Debug)]
pub enum ApiAnswer {
    /// An answer.
    Whole(Reply),
    /// Another outcome, delivered only after this long.
    Late(Duration, Box<Self>),
    /// A watch: the content type, and the events.
    Watch(&'static str, OpenWatch),
    /// No API server is there any more.
    Gone,
    /// It is there, and never answers.
    Silent,
}

/// An open watch. Dropping it tells the API server that the caller is gone.
#[derive(Debug)]
pub struct OpenWatch {
    /// The lines to send; it ends when the sender is dropped.
    pub lines: mpsc::Receiver<Bytes>,
    stream: StreamId,
    gone: mpsc::UnboundedSender<StreamId>,
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        // A send error means that the server has stopped; there is nothing left to close.
        let _ = self.gone.send(self.stream);
    }
}

/// The open watches.
#[derive(Debug)]
pub(crate) struct Watches {
    open: HashMap<StreamId, mpsc::Sender<Bytes>>,
    gone: mpsc::UnboundedSender<StreamId>,
}

impl Watches {
    pub(crate) fn new(gone: mpsc::UnboundedSender<StreamId>) -> Self {
        Self { open: HashMap::new(), gone }
    }

    /// Answers a request that arrived at the address of `node`.
    pub(crate) fn call(
        &mut self,
        kubernetes: &mut Kubernetes,
        world: &mut World,
        now: Time,
        node: Option<NodeIndex>,
        call: &ApiCall,
    ) -> ApiAnswer {
        if node.is_some_and(|node| world.is_silent(node)) {
            return ApiAnswer::Silent;
        }
        let Some(node) = node.filter(|node| world.api_server_runs(*node)) else {
            return ApiAnswer::Gone;
        };
        let ApiCall { credentials, request, .. } = call;
        let Some(caller) = auth::caller(kubernetes.api(), credentials, &request.path) else {
            return ApiAnswer::Whole(unauthorized());
        };
        if !world.api_server_has_etcd(node) {
            if let Some(reply) = health::without_etcd(request) {
                return ApiAnswer::Whole(reply);
            }
            if health::needs_etcd(&request.path) {
                let answer = ApiAnswer::Whole(health::timed_out());
                return ApiAnswer::Late(health::PATIENCE, Box::new(answer));
            }
        }
        let trouble = if auth::is_public(&request.path) {
            ApiTrouble::default()
        } else {
            world.api_trouble(node)
        };
        let answer = match trouble.refusal {
            Some(code) => ApiAnswer::Whole(health::refused(code)),
            None => self.serve(kubernetes, now, &caller, request),
        };
        if trouble.delay.is_zero() {
            answer
        } else {
            ApiAnswer::Late(trouble.delay, Box::new(answer))
        }
    }

    fn serve(
        &mut self,
        kubernetes: &mut Kubernetes,
        now: Time,
        caller: &Caller,
        request: &Request,
    ) -> ApiAnswer {
        match kubernetes.api_mut().request(now, caller, request) {
            Reply::Watch { stream, content_type } => {
                let (sender, lines) = mpsc::channel(WATCH_CAPACITY);
                self.open.insert(stream, sender);
                let gone = self.gone.clone();
                ApiAnswer::Watch(content_type, OpenWatch { lines, stream, gone })
            }
            reply @ Reply::Response { .. } => ApiAnswer::Whole(reply),
        }
    }

    /// Closes the watch of a reader that is gone.
    pub(crate) fn close(&mut self, kubernetes: &mut Kubernetes, stream: StreamId) {
        self.open.remove(&stream);
        kubernetes.api_mut().close(stream);
    }

    /// Delivers pending events.
    pub(crate) fn deliver(&mut self, kubernetes: &mut Kubernetes) {
        for Output { stream, item } in kubernetes.api_mut().outputs() {
            let delivered = match (self.open.get(&stream), item) {
                (None, _) => continue,
                // A reader that does not keep up loses its watch: dropping the sender ends it.
                (Some(sender), Item::Event(line)) => sender.try_send(line).is_ok(),
                (Some(_), Item::End) => false,
            };
            if !delivered {
                self.open.remove(&stream);
            }
        }
    }
}

pub(super) fn unauthorized() -> Reply {
    let status =
        Status { code: 401, reason: "Unauthorized", message: "Unauthorized".into(), details: None };
    Reply::Response {
        status: 401,
        content_type: "application/json",
        retry_after: None,
        warnings: Vec::new(),
        body: status.to_value().to_string().into(),
    }
}
