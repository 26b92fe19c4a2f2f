//! The HTTP server of a process: `/healthz`, `/readyz`, `/metrics`.
//!
//! Nothing here is secret, and nothing can be changed. Metrics carry no name of
//! a cluster: a thousand clusters must not make a thousand series.

mod guards;
mod metrics;
mod process;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use guards::{DriveMetrics, StatusGauge, StepMetrics};
pub use metrics::{Metrics, RunEnd};

/// The content type of the metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a replica knows of itself.
#[derive(Clone, Debug)]
pub struct Health {
    /// Why it is not ready, in lines for people; `None` if it is.
    pub not_ready: watch::Receiver<Option<String>>,
    /// Everything counted.
    pub metrics: Arc<Metrics>,
}

/// Answers until `end`; requests under way are finished.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(health)).with_graceful_shutdown(end).await
}

fn router(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health)
}

async fn ready(State(health): State<Health>) -> Response {
    let not_ready = health.not_ready.borrow().clone();
    match not_ready {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

async fn metrics(State(health): State<Health>) -> Response {
    let text = health.metrics.render();
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("a listener");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn a_replica_is_alive_before_it_is_ready() {
        let (tell, not_ready) = watch::channel(Some("not ready: no namespace\n".to_owned()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (end, ended) = oneshot::channel::<()>();
        let health = Health { not_ready, metrics: Arc::default() };
        let served = tokio::spawn(serve(listener, health, async {
            let _ = ended.await;
        }));
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("not ready: no namespace\n"),
            "{answer}"
        );
        tell.send_replace(None);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/metrics").await;
        assert!(answer.contains("application/openmetrics-text; version=1.0.0"), "{answer}");
        assert!(answer.contains("# TYPE process_resident_memory_bytes gauge"), "{answer}");
        assert!(ask(address, "/").await.starts_with("HTTP/1.1 404"));
        end.send(()).expect("it serves");
        served.await.expect("no panic").expect("a good end");
    }
}
