//! Requests to the Kubernetes API of a cluster over its real door, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use talos_sim::cluster::Cluster;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::now;

/// How many watches an event goes to.
pub(super) const WATCHES: usize = 20;

/// How many callers ask at once.
const CALLERS: usize = 4;

/// Where the API is, and how to come in.
#[derive(Clone)]
pub(super) struct Door {
    address: std::net::SocketAddr,
    tls: Arc<ClientConfig>,
    /// A node to ask about.
    path: String,
}

impl Door {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let url = cluster.kubernetes_url();
        let address = url.trim_start_matches("https://").parse().expect("an address");
        let shape = cluster.shape();
        let workers = if shape.workers > 0 { "worker-1" } else { "cp-1" };
        let tls = Arc::new(client_config(cluster.kubeconfig()));
        Self { address, tls, path: format!("/api/v1/nodes/{workers}") }
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.set_nodelay(true).expect("an open socket");
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        let stream = TokioIo::new(stream.expect("a handshake"));
        let (sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.expect("HTTP/1");
        tokio::spawn(connection);
        sender
    }

    async fn send(
        sender: &mut SendRequest<Full<Bytes>>,
        method: &str,
        path: &str,
        body: String,
    ) -> Incoming {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "kubernetes")
            .header("accept", "application/json")
            .header("content-type", "application/merge-patch+json")
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        sender.ready().await.expect("an open connection");
        let response = sender.send_request(request).await.expect("a response");
        assert_eq!(response.status(), 200, "{path}");
        response.into_body()
    }

    /// Requests a second by a few callers at once.
    async fn count(
        &self,
        lasts: Duration,
        callers: usize,
        method: &'static str,
        path: &str,
        body: fn(u32) -> String,
    ) -> f64 {
        let began = now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..callers {
            let (door, path) = (self.clone(), path.to_owned());
            tasks.spawn(async move {
                let mut sender = door.connect().await;
                let mut count = 0;
                while began.elapsed() < lasts {
                    let body = Self::send(&mut sender, method, &path, body(count)).await;
                    body.collect().await.expect("a whole body");
                    count += 1;
                }
                count
            });
        }
        let counts = tasks.join_all().await;
        f64::from(counts.into_iter().sum::<u32>()) / began.elapsed().as_secs_f64()
    }

    pub(super) async fn gets(&self, lasts: Duration) -> f64 {
        self.count(lasts, CALLERS, "GET", &self.path, |_| String::new()).await
    }

    pub(super) async fn lists(&self, lasts: Duration) -> f64 {
        self.count(lasts, CALLERS, "GET", "/api/v1/nodes", |_| String::new()).await
    }

    pub(super) async fn patches(&self, lasts: Duration) -> f64 {
        let path = format!("{}?fieldManager=bench", self.path);
        let body = |count| format!(r#"{{"metadata":{{"labels":{{"bench":"n{count}"}}}}}}"#);
        self.count(lasts, 1, "PATCH", &path, body).await
    }

    /// Events a second that arrive at watches while one caller patches.
    pub(super) async fn fan_out(&self, lasts: Duration) -> f64 {
        let events = Arc::new(AtomicU32::new(0));
        let mut watches = tokio::task::JoinSet::new();
        for _ in 0..WATCHES {
            let mut sender = self.connect().await;
            let name = self.path.rsplit('/').next().unwrap_or_default();
            let path = format!("/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D{name}");
            let mut body = Self::send(&mut sender, "GET", &path, String::new()).await;
            let events = events.clone();
            watches.spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    let lines = frame.data_ref().map_or(0, |data| lines(data));
                    events.fetch_add(lines, Ordering::Relaxed);
                }
                drop(sender);
            });
        }
        let began = now();
        events.store(0, Ordering::Relaxed);
        self.patches(lasts).await;
        let rate = f64::from(events.load(Ordering::Relaxed)) / began.elapsed().as_secs_f64();
        watches.abort_all();
        rate
    }
}

fn lines(data: &[u8]) -> u32 {
    data.iter().map(|byte| u32::from(*byte == b'\n')).sum()
}

fn client_config(kubeconfig: &str) -> ClientConfig {
    let pem = |key: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(key));
        STANDARD.decode(line.expect(key)).expect("base64")
    };
    let mut roots = RootCertStore::empty();
    let authority = pem("certificate-authority-data: ");
    roots.add(CertificateDer::from_pem_slice(&authority).expect("PEM")).expect("an authority");
    let certificate =
        CertificateDer::from_pem_slice(&pem("client-certificate-data: ")).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data: ")).expect("PEM");
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .expect("a client certificate")
}
