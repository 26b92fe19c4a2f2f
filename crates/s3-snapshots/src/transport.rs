//! HTTP for the protocol's library: over our own TLS, with deadlines, and without anything secret in
//! what it returns.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Method};
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use rustls::{CertificateError, ClientConfig};
use thiserror::Error;
use upgrade_core::text::chain;

use crate::error::Problem;

/// The deadline of a connection, without TLS.
const CONNECT: Duration = Duration::from_secs(10);

/// The deadline of a request until the beginning of its reply. It includes sending a part of 8 MiB,
/// for which 140 kB a second suffice.
const ANSWER: Duration = Duration::from_mins(1);

/// The size limit of an error's reply; they have some hundred bytes.
const LARGEST_ERROR: usize = 64 << 10;

/// The size limit of what is taken from one.
const LONGEST_MESSAGE: usize = 300;

/// What our side of a connection met.
#[derive(Debug, Error)]
#[error("{text}")]
pub(crate) struct TransportError {
    pub(crate) problem: Problem,
    pub(crate) text: String,
}

/// Makes clients for the protocol's library.
#[derive(Debug)]
pub(crate) struct Connector {
    tls: Arc<ClientConfig>,
}

impl Connector {
    pub(crate) fn new(tls: ClientConfig) -> Self {
        Self { tls: Arc::new(tls) }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = Tcp::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.enforce_http(false);
        // The address allows plain HTTP for loopback only.
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config((*self.tls).clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(HttpClient::new(Transport { client }))
    }
}

#[derive(Debug)]
struct Transport {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Transport {
    // As the macro `async_trait`, with which the trait is declared, would write it.
    fn call<'life, 'future>(&'life self, request: HttpRequest) -> Answer<'future>
    where
        'life: 'future,
        Self: 'future,
    {
        Box::pin(self.send(request))
    }
}

impl Transport {
    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static("talos-operator"));
        if completes_an_upload(&request) {
            // The library overwrites an object of the same name. The header needs no signature.
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let answered = tokio::time::timeout(ANSWER, self.client.request(request)).await;
        let response = match answered {
            Ok(response) => response.map_err(|error| not_sent(&error))?,
            Err(_) => return Err(late()),
        };
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            let body = HttpResponseBody::new(body.map_err(|error| cut(&error)));
            return Ok(HttpResponse::from_parts(parts, body));
        }
        let limited = Limited::new(body, LARGEST_ERROR).collect();
        let body = tokio::time::timeout(ANSWER, limited).await.map_err(|_| late())?;
        // An error whose text cannot be read is still one with a status.
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Ok(HttpResponse::from_parts(parts, clean(&body).into()))
    }
}

fn completes_an_upload(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::POST && query.split('&').any(|part| part.starts_with("uploadId="))
}

/// An error's code and message, and nothing else of its reply: to a wrong signature, servers reply
/// with all that was signed, a session token included (rule 14).
fn clean(body: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(body);
    let Some(code) = element(&text, "Code") else { return Bytes::new() };
    let message = element(&text, "Message").unwrap_or_default();
    let plain = |text: &str| -> String {
        text.chars().filter(|c| !c.is_control()).take(LONGEST_MESSAGE).collect()
    };
    let (code, message) = (plain(code), plain(message));
    format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>").into()
}

/// The text of the first element of this name.
pub(crate) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once('<')?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

fn late() -> HttpError {
    let text = format!("within {ANSWER:?}");
    HttpError::new(HttpErrorKind::Timeout, TransportError { problem: Problem::TimedOut, text })
}

/// A reply that ended early.
fn cut(error: &(dyn StdError + 'static)) -> HttpError {
    let text = format!("the reply was cut: {}", chain(error));
    let error = TransportError { problem: Problem::Unreachable, text };
    HttpError::new(HttpErrorKind::Interrupted, error)
}

/// A request without a reply. What retrying cannot help is not retried.
fn not_sent(error: &ClientError) -> HttpError {
    if let Some(tls) = find_tls(error) {
        let problem = match tls {
            // A wrong signature is that of another authority of the same name.
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => Problem::UnknownAuthority,
            _ => Problem::Tls,
        };
        let error = TransportError { problem, text: tls.to_string() };
        return HttpError::new(HttpErrorKind::Unknown, error);
    }
    let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
    let error = TransportError { problem: Problem::Unreachable, text: chain(error) };
    HttpError::new(kind, error)
}

/// The error of TLS behind another; `io::Error` does not list what it wraps among its sources.
fn find_tls<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = wrapped.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Some(found);
        }
        let wrapped = wrapped.map(|inner| inner as &(dyn StdError + 'static));
        next = wrapped.or_else(|| error.source());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_error_only_code_and_message_are_left() {
        // Rule 14: what Amazon replies to a wrong signature.
        let reply = b"<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>\
            <Message>Check your key.</Message><AWSAccessKeyId>AKIA1</AWSAccessKeyId>\
            <StringToSign>AWS4-HMAC</StringToSign><SignatureProvided>abcd</SignatureProvided>\
            <CanonicalRequest>x-amz-security-token:hunter2</CanonicalRequest></Error>";
        let clean = String::from_utf8(clean(reply).to_vec()).unwrap();
        assert_eq!(
            clean,
            "<Error><Code>SignatureDoesNotMatch</Code><Message>Check your key.</Message></Error>"
        );
        assert!(super::clean(b"<html>login page</html>").is_empty());
    }

    #[test]
    fn only_the_end_of_an_upload_gets_the_condition() {
        let request = |method: Method, uri: &str| {
            http::Request::builder().method(method).uri(uri).body(HttpRequestBody::empty()).unwrap()
        };
        let uri = "http://127.0.0.1/backups/a";
        assert!(completes_an_upload(&request(Method::POST, &format!("{uri}?uploadId=1"))));
        for (method, query) in [
            (Method::POST, "?uploads"),
            (Method::PUT, "?partNumber=1&uploadId=1"),
            (Method::DELETE, "?uploadId=1"),
        ] {
            assert!(!completes_an_upload(&request(method, &format!("{uri}{query}"))), "{query}");
        }
    }
}
