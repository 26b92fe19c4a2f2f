//! Connecting to an endpoint: name, socket and TLS, each with its own error.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::{Service, http::Uri};

use crate::address::EndpointAddress;
use crate::connection_error::ConnectionError;

/// The idle time before the kernel sends a keepalive probe, and the interval between probes. With
/// the kernel's nine attempts, a dead peer is detected within a minute.
///
/// Kernel probes instead of HTTP/2 pings: gRPC servers in Go drop clients that ping more often than
/// every five minutes.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long to wait for the endpoint's first bytes. In TLS 1.3 the client's handshake ends before
/// the server has verified the client certificate. An HTTP/2 server sends first, so its first bytes
/// show whether it accepted the certificate. Waiting costs one round trip per connection and turns
/// a rejected certificate into a connect error with its reason, instead of a broken pipe during a
/// call. A silent endpoint counts as connected.
const FIRST_WORD: Duration = Duration::from_secs(2);

/// Connects to one endpoint.
#[derive(Clone)]
pub(crate) struct Connector {
    address: EndpointAddress,
    server_name: ServerName<'static>,
    tls: TlsConnector,
    within: Duration,
}

impl Connector {
    pub(crate) fn new(address: EndpointAddress, tls: Arc<ClientConfig>, within: Duration) -> Self {
        Self { server_name: address.server_name(), address, tls: tls.into(), within }
    }

    async fn connect(self) -> Result<TokioIo<Connection>, ConnectionError> {
        let within = self.within;
        tokio::time::timeout(within, self.connect_and_listen())
            .await
            .unwrap_or(Err(ConnectionError::TimedOut(within)))
            .map(TokioIo::new)
    }

    async fn connect_and_listen(self) -> Result<Connection, ConnectionError> {
        let Self { address, server_name, tls, within: _ } = self;
        let addresses: Vec<_> = tokio::net::lookup_host((address.host(), address.port()))
            .await
            .map_err(|error| ConnectionError::Unresolved(error.to_string()))?
            .collect();
        let socket = TcpStream::connect(addresses.as_slice())
            .await
            .map_err(|error| ConnectionError::of_io(&error))?;
        // Both are optimisations; the system may refuse them.
        let _ = socket.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
        let mut stream = tls
            .connect(server_name, socket)
            .await
            .map_err(|error| ConnectionError::of_io(&error))?;
        let mut first = BytesMut::with_capacity(1024);
        match tokio::time::timeout(FIRST_WORD, stream.read_buf(&mut first)).await {
            Ok(Ok(0)) => return Err(ConnectionError::of_io(&io::ErrorKind::UnexpectedEof.into())),
            Ok(Err(error)) => return Err(ConnectionError::of_io(&error)),
            Ok(Ok(_)) | Err(_) => {}
        }
        Ok(Connection { stream, first })
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Connection>;
    type Error = ConnectionError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectionError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

/// A connection whose first bytes have already been read.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    first: BytesMut,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let count = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
