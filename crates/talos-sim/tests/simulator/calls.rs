//! gRPC by hand, for requests that no talosctl sends.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use talos_sim::cluster::Cluster;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The answer.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The HTTP status.
    pub(crate) http: u16,
    /// The gRPC status; -1 if there is none.
    pub(crate) code: i32,
    pub(crate) message: String,
    /// The messages before the status.
    pub(crate) frames: Vec<Bytes>,
}

/// Calls a method of a control plane with a message.
pub(crate) async fn call(
    cluster: &Cluster,
    metadata: &[(&str, &str)],
    path: &str,
    message: &impl Message,
) -> Answered {
    send(cluster, metadata, path, "application/grpc", &frame(&message.encode_to_vec())).await
}

/// A message with gRPC's prefix of five bytes.
pub(crate) fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("a short message"));
    framed.put_slice(message);
    framed.freeze()
}

/// Sends any body to any path.
pub(crate) async fn send(
    cluster: &Cluster,
    metadata: &[(&str, &str)],
    path: &str,
    content_type: &str,
    body: &Bytes,
) -> Answered {
    let apid = cluster.nodes()[0].apid;
    let stream = connect(cluster).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let mut request = http::Request::post(format!("https://{apid}{path}"))
        .header("content-type", content_type)
        .header("te", "trailers");
    for (key, value) in metadata {
        request = request.header(*key, *value);
    }
    let request = request.body(Full::new(body.clone())).expect("a request");
    let response = sender.send_request(request).await.expect("a response");
    let http = response.status().as_u16();
    let headers = response.headers().clone();
    let collected = response.into_body().collect().await.expect("a body");
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let get = |key: &str| {
        let value = trailers.get(key).or_else(|| headers.get(key))?;
        Some(value.to_str().expect("text").to_owned())
    };
    let mut rest = collected.to_bytes();
    let mut frames = Vec::new();
    while rest.len() >= 5 {
        let head = rest.split_to(5);
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        frames.push(rest.split_to(length as usize));
    }
    connection.abort();
    Answered {
        http,
        code: get("grpc-status").map_or(-1, |code| code.parse().expect("a number")),
        message: get("grpc-message").unwrap_or_default().replace("%20", " ").replace("%22", "\""),
        frames,
    }
}

/// A connection to the first control plane, after its handshake.
pub(crate) async fn connect(cluster: &Cluster) -> TlsStream<TcpStream> {
    let apid = cluster.nodes()[0].apid;
    let stream = TcpStream::connect(apid).await.expect("a connection");
    let name = ServerName::IpAddress(apid.ip().into());
    let connector = TlsConnector::from(client_config(cluster.talosconfig()));
    connector.connect(name, stream).await.expect("a handshake")
}

fn client_config(talosconfig: &str) -> Arc<ClientConfig> {
    let pem = |key: &str| {
        let line = talosconfig.lines().find_map(|line| line.trim().strip_prefix(key));
        STANDARD.decode(line.expect(key)).expect("base64")
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem("ca: ")).expect("PEM")).expect("an authority");
    let certificate = CertificateDer::from_pem_slice(&pem("crt: ")).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(&pem("key: ")).expect("PEM");
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .expect("a client certificate");
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}
