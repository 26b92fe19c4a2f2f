//! Sending a call: with a deadline, and again while the API server is away.
//!
//! A control plane that reboots takes its API server along for a while, and the
//! one behind a shared address changes. Every call here may be repeated: reads,
//! applies and patches by nature, deletions and evictions because they name the
//! object that they mean.

use std::fmt::Write as _;
use std::time::Duration;

use http::{Method, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use upgrade_core::reason::FailureKind;
use upgrade_core::text::chain;
use upgrade_engine::io::refused::{Cause, Details, Refused, Status};
use upgrade_engine::io::{Happened, Trouble};

use super::access::Access;
use super::own::is_refused;

/// One try: the API server answers from memory, or waits for etcd.
const ATTEMPT: Duration = Duration::from_secs(10);

/// All tries. Whoever needs longer looks again.
const TOTAL: Duration = Duration::from_secs(25);

/// How long a read is retried while the port refuses connections: that is an answer, and
/// the next observation asks again.
const REFUSED: Duration = Duration::from_secs(2);

/// The pauses between them.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How many objects a page has.
const PAGE: usize = 500;

/// What is sent.
#[derive(Clone)]
pub(super) struct Call {
    method: Method,
    /// Path and query.
    pub(super) path: String,
    accept: &'static str,
    content: Option<(&'static str, Vec<u8>)>,
    /// Whether it is a look, which is not tried for long where nothing listens.
    look: bool,
}

pub(super) const JSON: &str = "application/json";

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, accept: JSON, content: None, look: false }
    }

    /// A look.
    pub(super) fn look(path: String) -> Self {
        Self { look: true, ..Self::get(path) }
    }

    pub(super) fn post(path: String, body: &Value) -> Self {
        Self::with(Method::POST, path, JSON, body)
    }

    pub(super) fn patch(path: String, content_type: &'static str, body: &Value) -> Self {
        Self::with(Method::PATCH, path, content_type, body)
    }

    pub(super) fn delete(path: String, body: &Value) -> Self {
        Self::with(Method::DELETE, path, JSON, body)
    }

    fn with(method: Method, path: String, content_type: &'static str, body: &Value) -> Self {
        let body = serde_json::to_vec(body).expect("a value is JSON");
        Self { method, path, accept: JSON, content: Some((content_type, body)), look: false }
    }

    /// In another form.
    pub(super) fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    pub(super) fn request(&self) -> Request<Vec<u8>> {
        let request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header(http::header::ACCEPT, self.accept);
        let request = match &self.content {
            Some((content_type, body)) => {
                request.header(http::header::CONTENT_TYPE, *content_type).body(body.clone())
            }
            None => request.body(Vec::new()),
        };
        request.expect("paths are made of encoded segments")
    }
}

/// A name as part of a path: anything else than the usual characters is encoded.
pub(super) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The parts of a list.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct List<T> {
    #[serde(default = "Vec::new")]
    pub(super) items: Vec<T>,
    #[serde(default)]
    pub(super) metadata: ListMetadata,
}

/// About a list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl Access {
    /// Sends it, and reads the answer.
    pub(super) async fn send<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Refused> {
        let text = self.text(call).await?;
        serde_json::from_str(&text).map_err(|error| {
            // The position, and not the text: it may be a Secret.
            Refused::no_answer(&format!("the answer makes no sense at line {}", error.line()))
        })
    }

    /// Sends it, and gives the answer as it is.
    pub(super) async fn text(&self, call: &Call) -> Result<String, Refused> {
        let began = Instant::now();
        let until = began + TOTAL;
        let mut pause = FIRST_PAUSE;
        let (mut renewed, mut in_doubt) = (false, false);
        loop {
            let mut refused = match self.attempt(call, until).await {
                Ok(text) => return Ok(text),
                Err(refused) => refused,
            };
            if in_doubt {
                refused = refused.after_a_try();
            }
            in_doubt = refused.happened() == Happened::Maybe;
            if refused.is_unauthorized() && !renewed && self.forget().await {
                renewed = true;
                continue;
            }
            let again = refused.may_pass();
            tracing::debug!(path = %call.path, again, ?refused, "a call failed");
            let given_up = call.look && refused.is_not_sent() && began.elapsed() >= REFUSED;
            if !again || given_up || Instant::now() + pause >= until {
                return Err(refused);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self, call: &Call, until: Instant) -> Result<String, Refused> {
        let until = until.min(Instant::now() + ATTEMPT);
        let asking = async {
            let client = self.client().await.map_err(Refused::Away)?;
            client.request_text(call.request()).await.map_err(|error| refused(&error))
        };
        match timeout_at(until, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(Refused::no_answer("the Kubernetes API did not answer in time")),
        }
    }

    /// Everything of a list, page by page.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
    ) -> Result<Vec<T>, Refused> {
        let mut items = Vec::new();
        let mut next: Option<String> = None;
        let mut pages = true;
        loop {
            let mut full = format!("{path}?{query}");
            if pages {
                let _ = write!(full, "&limit={PAGE}");
            }
            if let Some(next) = next.take() {
                full.push_str("&continue=");
                full.push_str(&segment(&next));
            }
            match self.send::<List<T>>(&Call::look(full)).await {
                Ok(list) => {
                    items.extend(list.items);
                    match list.metadata.next.filter(|next| !next.is_empty()) {
                        Some(token) => next = Some(token),
                        None => return Ok(items),
                    }
                }
                // The list changed too much between two pages: all at once then.
                Err(Refused::Status(status)) if status.code == 410 && pages => {
                    items.clear();
                    pages = false;
                }
                Err(refused) => return Err(refused),
            }
        }
    }
}

/// What a client's error means.
pub(super) fn refused(error: &kube::Error) -> Refused {
    let text = || format!("the Kubernetes API cannot be reached: {}", chain(error));
    match error {
        kube::Error::Api(answer) => status(answer).into(),
        // A login that failed and a certificate that is wrong stay so.
        kube::Error::Auth(_) | kube::Error::RustlsTls(_) => {
            Refused::Away(Trouble::new(FailureKind::Refused, &text()))
        }
        _ if is_refused(error) => {
            let text = format!("the Kubernetes API refuses connections: {}", chain(error));
            Refused::not_sent(&text)
        }
        // Whether it was sent before the connection broke is not told.
        _ => Refused::no_answer(&text()),
    }
}

/// An API server's error as plain data.
pub(super) fn status(answer: &kube::core::Status) -> Status {
    let cause = |cause: &kube::core::response::StatusCause| Cause {
        reason: cause.reason.clone(),
        message: cause.message.clone(),
    };
    let details = answer.details.as_ref();
    let causes = details.map(|details| details.causes.iter().map(cause).collect());
    Status {
        details: causes.map(|causes| Details { causes }),
        ..Status::new(answer.code, &answer.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(segment("system:node-proxier"), "system:node-proxier");
        assert_eq!(segment("a/b c?"), "a%2Fb%20c%3F");
    }
}
