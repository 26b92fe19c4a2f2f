//! HTTPS for the Kubernetes API: on every control plane that runs an API server,
//! and on the address that they share.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube_sim::{Method, Reply, Request};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::auth::{Credentials, Gate};
use super::calls::{self, ApiAnswer, ApiCall, OpenWatch};
use super::remote::Forwarder;
use super::{health, presence};
use crate::driver::Driver;
use crate::model::NodeIndex;
use crate::server::{self, HANDSHAKE_TIMEOUT};

/// The largest body that an API server accepts.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// One address of the Kubernetes API.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// TLS.
    pub gate: Gate,
    /// Which control plane; `None` for the address that they share.
    pub node: Option<NodeIndex>,
    /// The driver of the task that owns the API server.
    pub driver: Driver,
    /// Forwarding to a real API server, which then answers instead.
    pub(crate) forwarder: Option<Forwarder>,
}

impl Server {
    /// Serves until the task is aborted. The first listener is already open.
    pub async fn run(self, listener: TcpListener) {
        let index = self.node.map_or(presence::SHARED, presence::index_of);
        let presence = self.driver.kubernetes_presence();
        let connection = |stream| self.connection(stream);
        server::serve(self.address, listener, presence, index, connection).await;
    }

    fn connection(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let gate = self.gate.clone();
        let (driver, node, forwarder) = (self.driver.clone(), self.node, self.forwarder.clone());
        async move {
            let _ = stream.set_nodelay(true);
            let accepting = TlsAcceptor::from(gate.tls.clone()).accept(stream);
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await else {
                return;
            };
            let session = stream.get_ref().1;
            let certificate = session.peer_certificates().map(|chain| gate.caller(chain));
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let service = service_fn(move |request| {
                let credentials =
                    Credentials { certificate: certificate.clone(), token: token(&request) };
                let (driver, forwarder) = (driver.clone(), forwarder.clone());
                async move {
                    match forwarder {
                        Some(forwarder) => pass(forwarder, node, credentials, request).await,
                        None => answer(driver, node, credentials, request).await,
                    }
                }
            });
            let stream = TokioIo::new(stream);
            let served = if is_http2 {
                http2::Builder::new(TokioExecutor::new())
                    .max_concurrent_streams(250)
                    .serve_connection(stream, service)
                    .await
            } else {
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(stream, service)
                    .await
            };
            if let Err(error) = served {
                tracing::debug!(%error, "connection to the Kubernetes API ended");
            }
        }
    }
}

fn token(request: &http::Request<Incoming>) -> Option<String> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

type Answered = Either<Full<Bytes>, Either<Lines, Incoming>>;

/// Breaks the connection: the API server went down while the caller was waiting.
#[derive(Debug, thiserror::Error)]
#[error("the API server went down")]
struct Gone;

/// Forwards to a real API server, unless the simulated one could not serve without its etcd.
async fn pass(
    forwarder: Forwarder,
    node: Option<NodeIndex>,
    credentials: Credentials,
    request: http::Request<Incoming>,
) -> Result<http::Response<Answered>, Gone> {
    let only_head = request.method() == http::Method::HEAD;
    if credentials.certificate == Some(None) && credentials.token.is_none() {
        return Ok(whole(calls::unauthorized(), only_head));
    }
    if !forwarder.has_etcd(node) {
        let path = request.uri().path();
        if let Some(reply) = health::without_etcd(&Request::get(path)) {
            return Ok(whole(reply, only_head));
        }
        if health::needs_etcd(path) {
            tokio::time::sleep(forwarder.real(health::PATIENCE)).await;
            return Ok(whole(health::timed_out(), only_head));
        }
    }
    let administrator = matches!(credentials.certificate, Some(Some(_)));
    match forwarder.pass(request, administrator).await {
        Ok(response) => Ok(response.map(|body| Either::Right(Either::Right(body)))),
        Err(failure) => {
            tracing::debug!(?failure, "the real Kubernetes API does not answer");
            Err(Gone)
        }
    }
}

async fn answer(
    driver: Driver,
    node: Option<NodeIndex>,
    credentials: Credentials,
    request: http::Request<Incoming>,
) -> Result<http::Response<Answered>, Gone> {
    let only_head = request.method() == http::Method::HEAD;
    let (parts, body) = request.into_parts();
    let text = |name: header::HeaderName| {
        let values = parts.headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")
    };
    let mut request = Request {
        method: Method::from_name(parts.method.as_str()),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: text(header::CONTENT_TYPE),
        accept: text(header::ACCEPT),
        user_agent: text(header::USER_AGENT),
        body: Bytes::new(),
    };
    request.body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => return Ok(too_large()),
        Err(_) => return Err(Gone),
    };
    let mut answer = driver.api(ApiCall { node, credentials, request }).await;
    while let ApiAnswer::Late(wait, later) = answer {
        tokio::time::sleep(wait).await;
        answer = *later;
    }
    let reply = match answer {
        ApiAnswer::Whole(reply) => reply,
        ApiAnswer::Watch(content_type, open) => {
            let mut response = http::Response::new(Either::Right(Either::Left(Lines(open))));
            set_headers(response.headers_mut(), content_type);
            return Ok(response);
        }
        ApiAnswer::Silent => std::future::pending().await,
        ApiAnswer::Gone | ApiAnswer::Late(..) => return Err(Gone),
    };
    Ok(whole(reply, only_head))
}

fn whole(reply: Reply, only_head: bool) -> http::Response<Answered> {
    let Reply::Response { status, content_type, retry_after, warnings, body } = reply else {
        return http::Response::new(Either::Left(Full::default()));
    };
    let body = if only_head { Bytes::new() } else { body };
    let mut response = http::Response::new(Either::Left(Full::new(body)));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    set_headers(headers, content_type);
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            headers.append(header::WARNING, value);
        }
    }
    response
}

fn set_headers(headers: &mut HeaderMap, content_type: &'static str) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
}

fn too_large() -> http::Response<Answered> {
    let message = format!("Request entity too large: limit is {MAX_BODY}");
    let status = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "RequestEntityTooLarge",
        "code": 413,
    });
    let body = Bytes::from(status.to_string());
    let mut response = http::Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    set_headers(response.headers_mut(), "application/json");
    response
}

/// The body of a watch: one line of JSON after the other.
#[derive(Debug)]
struct Lines(OpenWatch);

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.lines.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}
