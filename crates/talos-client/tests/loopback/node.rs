//! A node on loopback that answers each call from a script: messages, pauses, statuses, broken
//! connections. It speaks real TLS and real HTTP/2, and does not interpret the messages.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, crypto::ring};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;
use tonic::Code;

use crate::pki::{Authority, Pair, Valid};

/// A received call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `/machine.MachineService/Version`.
    pub(crate) path: String,
    /// The `node` in its metadata.
    pub(crate) node: Option<String>,
    /// The request.
    pub(crate) message: Bytes,
}

impl Call {
    /// The method without its service.
    pub(crate) fn method(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The request, decoded.
    pub(crate) fn request<M: Message + Default>(&self) -> M {
        M::decode(self.message.clone()).expect("a request of that type")
    }
}

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Send a message.
    Send(Vec<u8>),
    /// Wait.
    Pause(Duration),
    /// End with an error.
    Fail(Code, &'static str),
    /// Cut the connection.
    Break,
    /// Send nothing more, and keep the connection open.
    Hang,
}

/// A message to send.
pub(crate) fn send(message: &impl Message) -> Step {
    Step::Send(message.encode_to_vec())
}

type Script = dyn Fn(&Call) -> Vec<Step> + Send + Sync;

/// A running node. Dropping it does not end calls in flight.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    task: tokio::task::JoinHandle<()>,
    cut: Arc<Notify>,
    /// Bound to the same port, so that it stays reserved after the node is stopped.
    _reserved: TcpSocket,
}

impl Node {
    /// Starts a node that trusts `authority` and has a certificate from it.
    pub(crate) async fn start(
        authority: &Authority,
        script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let pair = authority.server(&["127.0.0.1"], Valid::Now);
        Self::start_with(authority, &pair, script).await
    }

    /// Starts a node with another certificate.
    #[expect(clippy::unused_async, reason = "listening needs a runtime")]
    pub(crate) async fn start_with(
        authority: &Authority,
        pair: &Pair,
        script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let reserved = bound("127.0.0.1:0".parse().unwrap());
        let listener = bound(reserved.local_addr().unwrap()).listen(1024).unwrap();
        Self::serve(listener, reserved, authority, pair, Arc::new(script))
    }

    fn serve(
        listener: TcpListener,
        reserved: TcpSocket,
        authority: &Authority,
        pair: &Pair,
        script: Arc<Script>,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls(authority, pair)));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let cut = Arc::new(Notify::new());
        let task = tokio::spawn({
            let (calls, cut) = (Arc::clone(&calls), Arc::clone(&cut));
            async move {
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    let acceptor = acceptor.clone();
                    let calls = Arc::clone(&calls);
                    let script = Arc::clone(&script);
                    let cut = Arc::clone(&cut);
                    tokio::spawn(async move {
                        let Ok(stream) = acceptor.accept(socket).await else {
                            return;
                        };
                        let service = service_fn(|request| {
                            answer(
                                request,
                                Arc::clone(&calls),
                                Arc::clone(&script),
                                Arc::clone(&cut),
                            )
                        });
                        let connection =
                            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                                .serve_connection(TokioIo::new(stream), service);
                        tokio::select! {
                            _ = connection => {}
                            () = cut.notified() => {}
                        }
                    });
                }
            }
        });
        Self { address, calls, task, cut, _reserved: reserved }
    }

    /// The endpoint as written in a talosconfig.
    pub(crate) fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// The calls that arrived, by method.
    pub(crate) fn methods(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|call| call.method().to_owned()).collect()
    }

    /// The calls of one method.
    pub(crate) fn calls(&self, method: &str) -> Vec<Call> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.method() == method).cloned().collect()
    }

    /// Stops listening and cuts every connection.
    pub(crate) fn stop(&self) {
        self.task.abort();
        self.cut.notify_waiters();
    }
}

/// A bound socket that does not listen yet, on a port that two sockets may share.
fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    #[cfg(unix)]
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

fn tls(authority: &Authority, pair: &Pair) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.der.clone())).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from(pair.certificate_der.clone())],
            PrivatePkcs8KeyDer::from(pair.key_der.clone()).into(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn answer(
    request: Request<Incoming>,
    calls: Arc<Mutex<Vec<Call>>>,
    script: Arc<Script>,
    cut: Arc<Notify>,
) -> Result<Response<Answer>, Infallible> {
    let path = request.uri().path().to_owned();
    let node = request.headers().get("node").map(|node| node.to_str().unwrap().to_owned());
    let mut body = request.into_body();
    let mut message = BytesMut::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        if let Ok(data) = frame.into_data() {
            message.put(data);
        }
    }
    let call = Call { path, node, message: message.freeze().slice(5..) };
    calls.lock().unwrap().push(call.clone());
    let (sender, receiver) = mpsc::channel(16);
    let steps = script(&call);
    // Headers are sent with the first message, as by a server in Go.
    tokio::spawn(play(steps, sender, cut));
    Ok(Response::builder()
        .header("content-type", "application/grpc")
        .body(Answer(receiver))
        .unwrap())
}

async fn play(steps: Vec<Step>, sender: mpsc::Sender<Frame<Bytes>>, cut: Arc<Notify>) {
    let mut status = (Code::Ok, "");
    for step in steps {
        match step {
            Step::Send(message) => {
                let mut frame = BytesMut::new();
                frame.put_u8(0);
                frame.put_u32(u32::try_from(message.len()).unwrap());
                frame.put_slice(&message);
                if sender.send(Frame::data(frame.freeze())).await.is_err() {
                    return;
                }
            }
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Fail(code, message) => {
                status = (code, message);
                break;
            }
            Step::Break => {
                cut.notify_waiters();
                return std::future::pending().await;
            }
            Step::Hang => return sender.closed().await,
        }
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(status.0 as i32));
    trailers.insert("grpc-message", HeaderValue::from_static(status.1));
    let _ = sender.send(Frame::trailers(trailers)).await;
}

/// The frames of a reply.
struct Answer(mpsc::Receiver<Frame<Bytes>>);

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}
