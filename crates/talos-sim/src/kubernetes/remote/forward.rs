//! The endpoints of a cluster with a real API server: each control plane's address, and the shared
//! one, forward to it. An endpoint is open while its simulated API server would be.
//!
//! talosctl accepts a kubeconfig only with a client certificate, and a real API server may trust no
//! authority whose key a token could obtain. So the certificate is one of the simulated cluster,
//! and its requests are forwarded with the administrator's token.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName};
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::sync::watch;

use super::client::{Failure, connect};
use super::{Endpoint, Machines};
use crate::model::NodeIndex;

/// Headers that belong to one connection or to the caller's identity, and are not forwarded.
const OWN: [HeaderName; 7] = [
    header::HOST,
    header::AUTHORIZATION,
    header::CONNECTION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
];

/// Forwarding to a real API server.
#[derive(Clone, Debug)]
pub(crate) struct Forwarder {
    place: Arc<Endpoint>,
    machines: watch::Receiver<Machines>,
    /// Virtual seconds per real second of the nodes.
    speed: f64,
    kept: Arc<Mutex<Vec<SendRequest<Incoming>>>>,
}

impl Forwarder {
    pub(crate) fn new(
        place: Arc<Endpoint>,
        machines: watch::Receiver<Machines>,
        speed: f64,
    ) -> Self {
        Self { place, machines, speed, kept: Arc::default() }
    }

    /// Whether the API server of a control plane, or any of them for the shared address, has its
    /// etcd.
    pub(crate) fn has_etcd(&self, node: Option<NodeIndex>) -> bool {
        let machines = self.machines.borrow();
        match node {
            Some(node) => machines.has_etcd.get(node.0).is_some_and(|has| *has),
            None => machines.has_etcd.contains(&true),
        }
    }

    /// A virtual duration in real time.
    pub(crate) fn real(&self, time: Duration) -> Duration {
        time.div_f64(self.speed)
    }

    /// Forwards a request, and streams the answer back. An administrator's request carries our
    /// token, others keep their own credentials.
    pub(crate) async fn pass(
        &self,
        request: http::Request<Incoming>,
        administrator: bool,
    ) -> Result<http::Response<Incoming>, Failure> {
        let Endpoint { host, port, base, bearer, .. } = &*self.place;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let mut passed = http::Request::builder()
            .method(parts.method)
            .uri(format!("{base}{path}"))
            .body(body)
            .map_err(super::client::away)?;
        let brought = parts.headers.get(header::AUTHORIZATION).cloned();
        let headers = passed.headers_mut();
        *headers = without_own(parts.headers);
        if let Ok(host) = format!("{host}:{port}").parse() {
            headers.insert(header::HOST, host);
        }
        if let Some(shown) = if administrator { Some(bearer.clone()) } else { brought } {
            headers.insert(header::AUTHORIZATION, shown);
        }
        let mut sender = match self.idle() {
            Some(sender) => sender,
            None => connect(&self.place).await?,
        };
        let mut response = sender.send_request(passed).await.map_err(super::client::away)?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        *response.headers_mut() = without_own(std::mem::take(response.headers_mut()));
        *response.version_mut() = http::Version::default();
        Ok(response)
    }

    /// A connection without a request in flight.
    fn idle(&self) -> Option<SendRequest<Incoming>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|sender| !sender.is_closed());
        let idle = kept.iter().position(SendRequest::is_ready)?;
        Some(kept.swap_remove(idle))
    }
}

fn without_own(mut headers: HeaderMap) -> HeaderMap {
    for name in OWN {
        headers.remove(name);
    }
    headers
}
