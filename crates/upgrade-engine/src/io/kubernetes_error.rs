//! What a failed call to Kubernetes means to the engine, defined in this one place. The live
//! cluster, the simulated worlds and the test doubles all use it; they differ only in how they
//! learn what the API server answered.

use serde::Deserialize;
use upgrade_core::reason::FailureKind;
use upgrade_core::workload::PodName;

use super::kubernetes::Evicted;
use super::{Applied, IoError};

/// An error of the API server, in the form of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The message.
    pub message: String,
    /// The object that it is about, and the causes.
    pub details: Option<Details>,
    /// Whether an earlier try of the same call may have been carried out.
    #[serde(skip)]
    pub tried_before: bool,
}

/// What an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The causes.
    pub causes: Vec<Cause>,
}

/// One reason of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The reason, one word.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Cause {
    /// Whether it is about a disruption budget.
    fn is_budget(&self) -> bool {
        self.reason == "DisruptionBudget"
    }
}

impl Status {
    /// An error without details.
    pub fn new(code: u16, message: &str) -> Self {
        Self { code, message: message.to_owned(), ..Self::default() }
    }

    fn causes(&self) -> impl Iterator<Item = &Cause> {
        self.details.iter().flat_map(|details| &details.causes)
    }

    /// Whether the answer may be another one in a moment: the server is starting, stopping or
    /// overloaded. The refusal of a budget is an answer.
    pub fn may_pass(&self) -> bool {
        match self.code {
            429 => !self.causes().any(Cause::is_budget),
            502..=504 => true,
            // etcd lost its leader, a webhook its pod.
            500 => self.message.contains("etcdserver") || self.message.contains("webhook"),
            _ => false,
        }
    }

    /// Whether the change may have been carried out all the same: a server that fails or times out
    /// may have written it by then.
    fn applied(&self) -> Applied {
        if self.tried_before || self.code >= 500 { Applied::Unknown } else { Applied::No }
    }

    /// What it means for the eviction of a pod; `None` if it is no usual answer to one.
    pub fn evicted(&self, pod: &PodName) -> Option<Evicted> {
        let blocked = |budget, why: &str| Some(Evicted::Blocked { budget, why: why.to_owned() });
        match self.code {
            404 => Some(Evicted::Gone),
            // The precondition failed: there is a pod of this name, but another one.
            409 if self.message.contains("UID") => Some(Evicted::Gone),
            429 => {
                let words = &self.causes().find(|cause| cause.is_budget())?.message;
                blocked(budget(words).map(|name| format!("{}/{name}", pod.namespace)), words)
            }
            // Two budgets count it, and Kubernetes does not evict such a pod at all.
            500 if self.message.contains("PodDisruptionBudget") => blocked(None, &self.message),
            // Its namespace is being deleted, and the pod with it.
            403 if self.causes().any(|cause| cause.reason == "NamespaceTerminating") => {
                blocked(None, &self.message)
            }
            _ => None,
        }
    }
}

/// The name in "The disruption budget web needs 2 healthy pods and has 2
/// currently".
fn budget(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once("disruption budget ")?;
    let name = rest.split_whitespace().next()?.trim_matches(['"', ',', '.']);
    (!name.is_empty()).then_some(name)
}

/// A request to Kubernetes that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The API server answered with an error.
    Status(Box<Status>),
    /// There was no answer, or none that can be parsed.
    NoAnswer(IoError),
}

impl From<Status> for RequestError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl RequestError {
    /// Nothing was sent, since there was no connection.
    pub fn not_sent(words: &str) -> Self {
        Self::NoAnswer(IoError::new(FailureKind::Unavailable, words))
    }

    /// It was sent, and no answer came.
    pub fn no_answer(words: &str) -> Self {
        Self::not_sent(words).after_a_try()
    }

    /// The same error, where an earlier try of the request may have been carried out.
    #[must_use]
    pub fn after_a_try(mut self) -> Self {
        match &mut self {
            Self::Status(status) => status.tried_before = true,
            Self::NoAnswer(error) => error.applied = Applied::Unknown,
        }
        self
    }

    /// Whether the change may have been carried out all the same.
    pub fn applied(&self) -> Applied {
        match self {
            Self::Status(status) => status.applied(),
            Self::NoAnswer(error) => error.applied,
        }
    }

    /// Whether nothing was sent: the port refuses connections.
    pub fn is_not_sent(&self) -> bool {
        matches!(self, Self::NoAnswer(_)) && self.may_pass() && self.applied() == Applied::No
    }

    /// Whether a retry may help.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Status(status) => status.may_pass(),
            Self::NoAnswer(error) => error.failure.kind == FailureKind::Unavailable,
        }
    }

    /// Whether the API server answered that there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status(status) if status.code == 404)
    }

    /// Whether the API server did not accept the credentials: an expired certificate, for example.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Status(status) if status.code == 401)
    }

    /// What it means for a read.
    pub fn on_read(&self, what: &str) -> IoError {
        match self {
            Self::NoAnswer(error) => {
                IoError::new(error.failure.kind, &format!("{what}: {}", error.failure))
            }
            Self::Status(status) => {
                let Status { code, message, .. } = &**status;
                let kind = if status.may_pass() || *code == 500 {
                    FailureKind::Unavailable
                } else {
                    FailureKind::Refused
                };
                IoError::new(kind, &format!("{what}: Kubernetes answered {code}: {message}"))
            }
        }
    }

    /// What it means for a change.
    pub fn on_change(&self, what: &str) -> IoError {
        IoError { applied: self.applied(), ..self.on_read(what) }
    }

    /// What it means for an eviction.
    pub fn evicted(&self, pod: &PodName) -> Result<Evicted, IoError> {
        let answer = match self {
            Self::Status(status) => status.evicted(pod),
            Self::NoAnswer(_) => None,
        };
        answer.ok_or_else(|| self.on_change(&format!("evicting {pod}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(value: Value) -> RequestError {
        serde_json::from_value::<Status>(value).unwrap().into()
    }

    fn pod() -> PodName {
        PodName { namespace: "shop".to_owned(), name: "web-1".to_owned() }
    }

    #[test]
    fn a_budget_is_named() {
        // Rule 6: the message of a real API server.
        let refused = refused(json!({
            "code": 429,
            "reason": "TooManyRequests",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"causes": [{
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
            }]},
        }));
        let Ok(Evicted::Blocked { budget, why }) = refused.evicted(&pod()) else {
            panic!("not blocked");
        };
        assert_eq!(budget.as_deref(), Some("shop/web"));
        assert!(why.contains("needs 2 healthy pods"));
        assert!(!refused.may_pass());
    }

    #[test]
    fn a_busy_server_is_no_budget() {
        let refused = refused(json!({"code": 429, "message": "Too many requests"}));
        let error = refused.evicted(&pod()).unwrap_err();
        assert_eq!(error.failure.kind, FailureKind::Unavailable);
        assert_eq!(error.applied, Applied::No);
    }

    #[test]
    fn several_budgets_block_without_a_name() {
        let refused = refused(json!({
            "code": 500,
            "message": "This pod has more than one PodDisruptionBudget, which the eviction \
                        subresource does not support.",
        }));
        let blocked = refused.evicted(&pod());
        assert!(matches!(blocked, Ok(Evicted::Blocked { budget: None, .. })), "{blocked:?}");
    }

    #[test]
    fn a_pod_that_is_gone_is_gone() {
        for gone in [
            json!({"code": 404, "message": "pods \"web-1\" not found"}),
            json!({"code": 409, "message": "Precondition failed: UID in precondition: a, UID in \
                                            object meta: b"}),
        ] {
            assert_eq!(refused(gone).evicted(&pod()), Ok(Evicted::Gone));
        }
        for other in [json!({"code": 403, "message": "no"}), json!({"code": 409, "message": "old"})]
        {
            let error = refused(other).evicted(&pod()).unwrap_err();
            assert_eq!(error.failure.kind, FailureKind::Refused);
        }
    }

    #[test]
    fn an_answer_that_did_not_come_leaves_an_act_in_doubt() {
        // Rules 7 and 8: a cordon whose answer was lost may be set.
        for (refused, applied) in [
            (RequestError::not_sent("refused"), Applied::No),
            (RequestError::no_answer("no answer"), Applied::Unknown),
            (Status::new(504, "timeout").into(), Applied::Unknown),
            (Status::new(500, "etcdserver: request timed out").into(), Applied::Unknown),
            (Status::new(429, "busy").into(), Applied::No),
            (Status::new(403, "no").into(), Applied::No),
            (RequestError::from(Status::new(403, "no")).after_a_try(), Applied::Unknown),
            (RequestError::not_sent("refused").after_a_try(), Applied::Unknown),
        ] {
            assert_eq!(refused.on_change("cordoning").applied, applied, "{refused:?}");
            assert_eq!(refused.on_read("nodes").applied, Applied::No, "{refused:?}");
        }
    }

    #[test]
    fn what_may_pass_is_told_from_a_refusal() {
        for (code, message, kind) in [
            (429, "busy", FailureKind::Unavailable),
            (500, "anything", FailureKind::Unavailable),
            (503, "starting", FailureKind::Unavailable),
            (401, "who?", FailureKind::Refused),
            (403, "no", FailureKind::Refused),
            (422, "invalid", FailureKind::Refused),
        ] {
            let refused = RequestError::from(Status::new(code, message));
            assert_eq!(refused.on_read("a call").failure.kind, kind, "{code}");
        }
    }
}
