//! Making a call: with a deadline, and again while the API server is away.
//!
//! A control plane that reboots takes its API server along for a while, and the
//! one behind a shared address changes. Every call here may be repeated: reads,
//! applies and patches by nature, deletions and evictions because they name the
//! object that they mean.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};
use upgrade_core::reason::FailureKind;
use upgrade_core::text::chain;
use upgrade_engine::io::kubernetes_error::{Cause, Details, RequestError, Status};
use upgrade_engine::io::{Applied, IoError};

use super::access::Access;
use super::own::is_refused;

/// One attempt: the API server answers from memory, or waits for etcd.
const ATTEMPT: Duration = Duration::from_secs(10);

/// All attempts together. A caller that needs longer asks again.
const TOTAL: Duration = Duration::from_secs(25);

/// How long a list is retried while the port refuses connections: that is an answer, and
/// the next observation asks again.
const REFUSED: Duration = Duration::from_secs(2);

/// The pauses between them.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How many objects a page has.
const PAGE: u32 = 500;

/// Why one try failed.
struct Failed {
    refused: RequestError,
    /// Whether another try may end differently.
    again: bool,
}

impl From<RequestError> for Failed {
    fn from(refused: RequestError) -> Self {
        Self { again: refused.may_pass(), refused }
    }
}

impl From<kube::Error> for Failed {
    fn from(error: kube::Error) -> Self {
        let failed = Self::from(refused(&error));
        let unreadable = matches!(error, kube::Error::SerdeError(_));
        Self { again: failed.again && !unreadable, ..failed }
    }
}

impl Access {
    /// Makes a call.
    pub(super) async fn call<T, F>(
        &self,
        call: impl Fn(kube::Client) -> F + Send + Sync,
    ) -> Result<T, RequestError>
    where
        F: Future<Output = kube::Result<T>> + Send,
    {
        self.call_while_refused(TOTAL, &call).await
    }

    /// Makes a call, and takes a port that refuses connections for so long as an answer.
    async fn call_while_refused<T, F>(
        &self,
        limit: Duration,
        call: &(impl Fn(kube::Client) -> F + Send + Sync),
    ) -> Result<T, RequestError>
    where
        F: Future<Output = kube::Result<T>> + Send,
    {
        let began = Instant::now();
        let until = began + TOTAL;
        let mut pause = FIRST_PAUSE;
        let (mut renewed, mut in_doubt) = (false, false);
        loop {
            let Failed { mut refused, again } = match self.attempt(call, until).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if in_doubt {
                refused = refused.after_a_try();
            }
            in_doubt = refused.applied() == Applied::Unknown;
            if refused.is_unauthorized() && !renewed && self.forget().await {
                renewed = true;
                continue;
            }
            tracing::debug!(again, ?refused, "a call failed");
            let given_up = refused.is_not_sent() && began.elapsed() >= limit;
            if !again || given_up || Instant::now() + pause >= until {
                return Err(refused);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt<T, F>(
        &self,
        call: &(impl Fn(kube::Client) -> F + Send + Sync),
        until: Instant,
    ) -> Result<T, Failed>
    where
        F: Future<Output = kube::Result<T>> + Send,
    {
        let until = until.min(Instant::now() + ATTEMPT);
        let asking = async {
            let client = self.client().await.map_err(RequestError::NoAnswer)?;
            Ok(call(client).await?)
        };
        match timeout_at(until, asking).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(RequestError::no_answer("the Kubernetes API did not answer in time").into())
            }
        }
    }

    /// Everything of a list, page by page.
    pub(super) async fn list<K>(
        &self,
        api: impl Fn(kube::Client) -> Api<K> + Send + Sync,
        what: ListParams,
    ) -> Result<Vec<K>, RequestError>
    where
        K: Clone + Debug + DeserializeOwned + Send,
    {
        let mut items = Vec::new();
        let mut page = what.limit(PAGE);
        loop {
            let (api, params) = (&api, &page);
            let call = |client| {
                let api = api(client);
                async move { api.list(params).await }
            };
            match self.call_while_refused(REFUSED, &call).await {
                Ok(list) => {
                    items.extend(list.items);
                    match list.metadata.continue_.filter(|next| !next.is_empty()) {
                        Some(next) => page.continue_token = Some(next),
                        None => return Ok(items),
                    }
                }
                // The list changed too much between two pages: all at once then.
                Err(RequestError::Status(status)) if status.code == 410 && page.limit.is_some() => {
                    items.clear();
                    page = ListParams { limit: None, continue_token: None, ..page };
                }
                Err(refused) => return Err(refused),
            }
        }
    }
}

/// What a client's error means.
pub(super) fn refused(error: &kube::Error) -> RequestError {
    let text = || format!("the Kubernetes API cannot be reached: {}", chain(error));
    match error {
        kube::Error::Api(answer) => status(answer).into(),
        // A login that failed and a certificate that is wrong stay so, and so does a name
        // that no path can have.
        kube::Error::Auth(_)
        | kube::Error::RustlsTls(_)
        | kube::Error::BuildRequest(_)
        | kube::Error::HttpError(_) => {
            RequestError::NoAnswer(IoError::new(FailureKind::Refused, &text()))
        }
        // The position, and not the text: it may be a Secret.
        kube::Error::SerdeError(error) => {
            RequestError::no_answer(&format!("the answer is invalid at line {}", error.line()))
        }
        _ if is_refused(error) => {
            let text = format!("the Kubernetes API refuses connections: {}", chain(error));
            RequestError::not_sent(&text)
        }
        // Whether it was sent before the connection broke is not told.
        _ => RequestError::no_answer(&text()),
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
