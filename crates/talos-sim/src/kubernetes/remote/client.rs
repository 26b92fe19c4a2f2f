//! HTTPS to one API server: requests one at a time on a kept connection, and watches on their own
//! connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use upgrade_core::text::chain;

use super::{Endpoint, RemoteError};

/// The time limit of a request. An API server without its etcd takes longer, and counts as
/// unavailable.
const LIMIT: Duration = Duration::from_secs(10);

/// A request without a usable answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server's certificate is not trusted.
    Untrusted(String),
    /// Everything else.
    Away(String),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: StatusCode,
    pub(super) body: Bytes,
}

impl Answer {
    /// The JSON object; null if there is none.
    pub(super) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The message of a Status, on one line.
    pub(super) fn message(&self) -> String {
        match self.value().get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&self.body).lines().next().unwrap_or("").to_owned(),
        }
    }
}

/// A client with at most one open connection.
#[derive(Debug)]
pub(super) struct Client {
    place: Arc<Endpoint>,
    kept: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(super) fn new(place: Arc<Endpoint>) -> Self {
        Self { place, kept: None }
    }

    /// Sends a request and waits for the whole answer.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let asking = async {
            let response = self.request(method, path, content_type, body).await?;
            let code = response.status();
            let body = response.into_body().collect().await.map_err(away)?.to_bytes();
            Ok(Answer { code, body })
        };
        let answer = tokio::time::timeout(LIMIT, asking).await.unwrap_or_else(|_| Err(too_slow()));
        if answer.is_err() {
            self.kept = None;
        }
        answer
    }

    /// A `GET`.
    pub(super) async fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, "", Bytes::new()).await
    }

    /// A `POST` with an object.
    pub(super) async fn post(&mut self, path: &str, object: &Value) -> Result<Answer, Failure> {
        self.send(Method::POST, path, "application/json", object.to_string().into()).await
    }

    /// A `GET` with a streamed answer. Other requests need another client.
    pub(super) async fn open(&mut self, path: &str) -> Result<http::Response<Incoming>, Failure> {
        let asking = self.request(Method::GET, path, "", Bytes::new());
        tokio::time::timeout(LIMIT, asking).await.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, Failure> {
        let Endpoint { host, port, base, bearer, .. } = &*self.place;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{base}{path}"))
            .header(header::HOST, format!("{host}:{port}"))
            .header(header::AUTHORIZATION, bearer)
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "kubelet");
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(Full::new(body)).map_err(away)?;
        // A kept connection may have been closed meanwhile. One that is known to be closed is not
        // used at all, so nothing is sent twice.
        let mut kept = self.kept.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => connect(&self.place).await?,
        };
        let response = sender.send_request(request).await.map_err(away)?;
        self.kept = Some(sender);
        Ok(response)
    }
}

/// Opens a connection.
pub(super) async fn connect<B>(place: &Endpoint) -> Result<SendRequest<B>, Failure>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await.map_err(away)?;
    let _ = stream.set_nodelay(true);
    let stream =
        place.tls.connect(place.name.clone(), stream).await.map_err(|error| {
            match error.get_ref().and_then(|behind| behind.downcast_ref::<rustls::Error>()) {
                Some(rustls::Error::InvalidCertificate(why)) => Failure::Untrusted(why.to_string()),
                _ => away(error),
            }
        })?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(away)?;
    tokio::spawn(connection);
    Ok(sender)
}

pub(super) fn away(error: impl std::error::Error) -> Failure {
    Failure::Away(chain(&error))
}

fn too_slow() -> Failure {
    Failure::Away(format!("no answer within {} seconds", LIMIT.as_secs()))
}

/// Checks that the API server is there, is trusted, and accepts the token.
pub(crate) async fn check(place: &Arc<Endpoint>) -> Result<(), RemoteError> {
    let api = place.api();
    let url = api.url.clone();
    // This request needs an administrator's rights.
    let path = "/api/v1/nodes?limit=1";
    match Client::new(Arc::clone(place)).get(path).await {
        Ok(answer) if answer.code == StatusCode::OK && answer.value()["kind"] == "NodeList" => {
            Ok(())
        }
        Ok(Answer { code: code @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), .. }) => {
            let token_file = api.token_file.clone();
            Err(RemoteError::Refused { url, token_file, code: code.as_u16() })
        }
        Ok(answer) => {
            let said = answer.message();
            Err(RemoteError::Unexpected { url, code: answer.code.as_u16(), said })
        }
        Err(Failure::Untrusted(why)) => Err(RemoteError::Untrusted { url, why }),
        Err(Failure::Away(why)) => Err(RemoteError::Unreachable { url, why }),
    }
}
