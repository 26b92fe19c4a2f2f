//! One HTTP request to a factory.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use upgrade_core::text::chain;

use crate::AskError;

/// The deadline of a request; a factory answers from memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The size limit of a reply; the list of all extensions has some tens of kilobytes.
const LARGEST: usize = 4 << 20;

pub(crate) async fn ask(
    url: &str,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Bytes, AskError> {
    let unreachable = |why: String| AskError::Unreachable { url: url.to_owned(), why };
    let request = Request::builder()
        .method(method)
        .uri(format!("{url}{path}"))
        .header(http::header::CONTENT_TYPE, "application/yaml")
        .body(Full::new(body))
        .map_err(|error| unreachable(error.to_string()))?;
    let answered = if url.starts_with("https:") {
        // Name `ring` explicitly: the process has no default provider.
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| unreachable(format!("no trusted authorities: {error}")))?
            .https_only()
            .enable_http1()
            .build();
        tokio::time::timeout(PATIENCE, send(connector, request)).await
    } else {
        tokio::time::timeout(PATIENCE, send(HttpConnector::new(), request)).await
    };
    let (status, text) = match answered {
        Ok(answer) => answer.map_err(unreachable)?,
        Err(_) => return Err(unreachable(format!("no answer within {PATIENCE:?}"))),
    };
    if status.is_success() {
        return Ok(text);
    }
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Err(AskError::Refused { url: url.to_owned(), status, text })
}

async fn send<C>(connector: C, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(connector);
    let answer = client.request(request).await.map_err(|error| chain(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[tokio::test]
    async fn an_unreachable_factory_is_named() {
        // Bound but not listening, so the port stays reserved and refuses connections.
        let closed = TcpSocket::new_v4().expect("a socket");
        closed.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let url = format!("http://{}", closed.local_addr().expect("an address"));
        let error = crate::get(&url, "/versions").await.unwrap_err().to_string();
        assert!(error.contains(&url) && error.contains("cannot be reached"), "{error}");
    }

    #[tokio::test]
    async fn an_error_response_contains_the_factory_s_message() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a caller");
            let mut asked = [0; 1024];
            let length = stream.read(&mut asked).await.expect("a question");
            assert!(asked[..length].starts_with(b"GET /versions "), "the request has the path");
            let no = "HTTP/1.1 404 Not Found\r\ncontent-length: 8\r\n\r\nnot here";
            stream.write_all(no.as_bytes()).await.expect("sent");
        });
        let error = crate::get(&url, "/versions").await.unwrap_err();
        assert!(matches!(&error, AskError::Refused { status, .. } if status.as_u16() == 404));
        assert!(error.to_string().ends_with("said 404 Not Found: not here"), "{error}");
    }
}
