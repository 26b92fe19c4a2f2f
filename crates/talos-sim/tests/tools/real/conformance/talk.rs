//! Requests to an API server over HTTPS, and their answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use envtest::ControlPlane;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use talos_sim::cluster::Cluster;
use talos_sim::driver::Driver;
use testkit::PATIENCE;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// One of the two servers.
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    token: Option<String>,
    /// The CA of its certificate.
    authority: Vec<u8>,
    /// The driver of the embedded one.
    driver: Option<Driver>,
}

impl Endpoint {
    /// The real one.
    pub(crate) fn real(plane: &ControlPlane) -> Self {
        let pem = plane.certificate_authority().expect("an authority");
        let tls = builder(pem.as_bytes()).with_no_client_auth();
        Self {
            address: plane.url().trim_start_matches("https://").parse().expect("an address"),
            tls: http2(tls),
            token: Some(plane.token().expect("a token")),
            authority: pem.into_bytes(),
            driver: None,
        }
    }

    /// The embedded one.
    pub(crate) fn embedded(cluster: &Cluster) -> Self {
        let kubeconfig = cluster.kubeconfig();
        let pem = |key: &str| {
            let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(key));
            STANDARD.decode(line.expect(key).trim()).expect("base64")
        };
        let certificate = CertificateDer::from_pem_slice(&pem("client-certificate-data:"));
        let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data:")).expect("a key");
        let tls = builder(&pem("certificate-authority-data:"))
            .with_client_auth_cert(vec![certificate.expect("a certificate")], key)
            .expect("a client certificate");
        let url = cluster.kubernetes_url();
        Self {
            address: url.trim_start_matches("https://").parse().expect("an address"),
            tls: http2(tls),
            token: None,
            authority: pem("certificate-authority-data:"),
            driver: Some(cluster.driver().clone()),
        }
    }

    /// The same server for a caller with a token only.
    fn with_token(&self, token: &str) -> Self {
        Self {
            address: self.address,
            tls: http2(builder(&self.authority).with_no_client_auth()),
            token: Some(token.to_owned()),
            authority: self.authority.clone(),
            driver: None,
        }
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        let stream = TokioIo::new(stream.expect("a handshake"));
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
        let (sender, connection) = shaken.expect("HTTP/2");
        tokio::spawn(connection);
        sender
    }
}

fn builder(pem: &[u8]) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        // Skip certificates that are not a CA.
        let _ = roots.add(certificate.expect("PEM"));
    }
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
}

fn http2(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: &'static str,
    path: String,
    kind: &'static str,
    accept: &'static str,
    body: Bytes,
}

impl Call {
    pub(crate) fn new(method: &'static str, path: impl Into<String>, body: &Value) -> Self {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        Self { method, path: path.into(), kind: "application/json", accept: "", body }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path, &Value::Null)
    }

    pub(crate) fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path, body)
    }

    pub(crate) fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new("PUT", path, body)
    }

    pub(crate) fn delete(path: impl Into<String>, body: &Value) -> Self {
        Self::new("DELETE", path, body)
    }

    /// `kind` is the part between `application/` and `+`.
    pub(crate) fn patch(path: impl Into<String>, kind: &'static str, body: &Value) -> Self {
        Self { kind, ..Self::new("PATCH", path, body) }
    }

    pub(crate) fn of_kind(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn accepting(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    pub(crate) fn with_text(self, text: &'static str) -> Self {
        Self { body: text.into(), ..self }
    }
}

/// The answer to one step.
#[derive(Clone, Debug)]
pub(crate) struct Spoken {
    /// The chapter and the step.
    pub(crate) step: String,
    /// Code, relevant headers, and body.
    pub(crate) answer: Value,
}

/// A conversation with one server.
pub(crate) struct Talk {
    endpoint: Endpoint,
    sender: Option<SendRequest<Full<Bytes>>>,
    chapter: &'static str,
    pub(crate) spoken: Vec<Spoken>,
}

impl Talk {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, sender: None, chapter: "", spoken: Vec::new() }
    }

    /// A conversation of another caller with the same server.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self::new(self.endpoint.with_token(token))
    }

    pub(crate) fn begin(&mut self, chapter: &'static str) {
        self.chapter = chapter;
    }

    async fn send(&mut self, call: &Call) -> http::Response<Incoming> {
        let mut sender = match self.sender.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.endpoint.connect().await,
        };
        let Call { method, path, kind, accept, body } = call;
        let mut request = http::Request::builder()
            .method(*method)
            .uri(format!("https://{}{path}", self.endpoint.address))
            .header("user-agent", "conversation/1.0");
        if !body.is_empty() && !kind.is_empty() {
            request = request.header("content-type", *kind);
        }
        if !accept.is_empty() {
            request = request.header("accept", *accept);
        }
        if let Some(token) = &self.endpoint.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body.clone())).expect("a request");
        let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
        self.sender = Some(sender);
        answer.unwrap_or_else(|_| panic!("{method} {path}: no answer")).expect("an answer")
    }

    /// Sends a request without recording the answer.
    pub(crate) async fn ask(&mut self, call: &Call) -> Value {
        let response = self.send(call).await;
        let code = response.status().as_u16();
        let head = |name: &str| {
            let values = response.headers().get_all(name).iter();
            let texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
            (!texts.is_empty()).then(|| json!(texts))
        };
        let (kind, retry, warning) = (head("content-type"), head("retry-after"), head("warning"));
        let body = tokio::time::timeout(PATIENCE, response.into_body().collect()).await;
        let body = body.expect("an end").expect("a body").to_bytes();
        let body =
            serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body)));
        json!({"code": code, "type": kind, "retry": retry, "warning": warning, "body": body})
    }

    /// Sends a request and records the answer; returns its body.
    pub(crate) async fn say(&mut self, step: &str, call: Call) -> Value {
        let answer = self.ask(&call).await;
        let body = answer["body"].clone();
        self.note(step, answer);
        body
    }

    /// Records a value.
    pub(crate) fn note(&mut self, step: &str, answer: Value) {
        let step = format!("{}: {step}", self.chapter);
        assert!(self.spoken.iter().all(|known| known.step != step), "{step}: twice");
        self.spoken.push(Spoken { step, answer });
    }

    /// Repeats a request until the answer matches: controllers need a moment.
    pub(crate) async fn until(&mut self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let answer = self.ask(&Call::get(path)).await;
                if fits(&answer) {
                    return answer["body"].clone();
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{path}: never"))
    }

    /// Waits until an object is gone.
    pub(crate) async fn gone(&mut self, path: &str) {
        self.until(path, |answer| answer["code"] == 404).await;
    }

    /// Opens a watch, and records its first events.
    pub(crate) async fn watch(&mut self, step: &str, path: &str, count: usize) -> Vec<Value> {
        let mut body = self.send(&Call::get(path)).await.into_body();
        let (mut events, mut rest) = (Vec::new(), Vec::new());
        let reading = async {
            while events.len() < count
                && let Some(Ok(frame)) = body.frame().await
            {
                rest.extend_from_slice(&frame.into_data().unwrap_or_default());
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    events.push(serde_json::from_slice(&line).expect("JSON"));
                }
            }
        };
        let read = tokio::time::timeout(PATIENCE, reading).await;
        assert!(read.is_ok(), "{step}: {} events of {count}: {events:?}", events.len());
        self.note(step, json!(events));
        events
    }

    /// The embedded server forgets its history; the real one has none from before its start.
    pub(crate) async fn forget(&mut self) {
        if let Some(driver) = &self.endpoint.driver {
            driver.visit(|inside| inside.kubernetes.api_mut().compact()).await.expect("it runs");
        }
    }
}
