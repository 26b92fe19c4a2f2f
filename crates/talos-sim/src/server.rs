//! One node's apid on a socket. While the node is unreachable the socket is closed, and its
//! connections are dropped.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::driver::{Presence, Welcome};
use crate::grpc::Endpoint;
use crate::keepalive::Watched;
use crate::tls;

/// The time limit for a handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a refused client has to read the alert.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause before the address is bound again, if another process took it while the node was down.
const BIND_RETRY: Duration = Duration::from_millis(200);

/// The listen backlog, the same as Go's.
const BACKLOG: i32 = 1024;

/// The flow control window of the real apid.
const STREAM_WINDOW: u32 = 65_535 * 32;
const CONNECTION_WINDOW: u32 = 65_535 * 16;

/// Opens a listening socket.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A rebooted node binds its address again at once.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// One node on one address.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// The server's side of TLS.
    pub tls: Arc<ServerConfig>,
    /// The endpoint; the caller's roles are filled in for each connection.
    pub endpoint: Endpoint,
}

impl Server {
    /// Serves until the task is aborted. The first listener is already open, so that a taken
    /// address is found before anything has started.
    pub async fn run(self, listener: TcpListener) {
        let presence = self.endpoint.driver.presence();
        let node = self.endpoint.node.0;
        serve(self.address, listener, presence, node, |stream| self.connection(stream)).await;
    }

    fn connection(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.tls));
        let mut endpoint = self.endpoint.clone();
        async move {
            match endpoint.driver.accepts(endpoint.node).await {
                Welcome::Taken => {}
                Welcome::Dropped => return,
                Welcome::Silent => return std::future::pending().await,
            }
            let _ = stream.set_nodelay(true);
            let accepting = acceptor.accept(stream).into_fallible();
            let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await {
                Ok(Ok(stream)) => stream,
                Ok(Err((error, stream))) => {
                    tracing::debug!(%error, "client refused");
                    refuse(stream).await;
                    return;
                }
                Err(_) => return,
            };
            if let Some([leaf, ..]) = stream.get_ref().1.peer_certificates() {
                endpoint.roles = tls::roles(leaf).into();
            }
            let service = service_fn(move |request| endpoint.clone().serve(request));
            let served = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                // A real node sets no limit to the calls on one connection.
                .max_concurrent_streams(u32::MAX)
                .serve_connection(TokioIo::new(Watched::new(stream)), service)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "connection ended");
            }
        }
    }
}

/// Accepts connections at an address while the node behind it is reachable.
pub(crate) async fn serve<F>(
    address: SocketAddr,
    listener: TcpListener,
    mut presence: watch::Receiver<Vec<Presence>>,
    index: usize,
    connection: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut listener = Some(listener);
    loop {
        let Some(mut here) = wait_until_reachable(&mut presence, index).await else {
            return;
        };
        let listener = match listener.take() {
            Some(listener) => listener,
            None => listen_again(address).await,
        };
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(connection(stream));
                    }
                }
                changed = presence.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let now = presence.borrow_and_update().get(index).copied();
                    match now.filter(|now| now.reachable) {
                        None => break,
                        // It was unreachable in between: drop the older connections.
                        Some(now) if now != here => {
                            connections = JoinSet::new();
                            here = now;
                        }
                        Some(_) => {}
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        // Dropping both closes the socket and every connection.
    }
}

async fn listen_again(address: SocketAddr) -> TcpListener {
    loop {
        match listen(address) {
            Ok(listener) => return listener,
            Err(error) => {
                tracing::warn!(%address, %error, "cannot listen yet; retrying");
                tokio::time::sleep(BIND_RETRY).await;
            }
        }
    }
}

/// Waits until the client has read the alert: closing a socket with unread bytes in it would
/// discard the alert.
async fn refuse(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = [0; 4096];
    let drain = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, drain).await;
}

async fn wait_until_reachable(
    presence: &mut watch::Receiver<Vec<Presence>>,
    node: usize,
) -> Option<Presence> {
    loop {
        let now = presence.borrow_and_update().get(node).copied();
        match now {
            Some(here) if here.reachable => return now,
            _ => presence.changed().await.ok()?,
        }
    }
}
