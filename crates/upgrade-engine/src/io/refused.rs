//! What a failed call to Kubernetes means to the engine: the one place that says
//! so. The live cluster, the worlds in memory and the doubles of tests all end
//! here; they differ only in how they learn what the API server answered.

use serde::Deserialize;
use upgrade_core::reason::FailureKind;
use upgrade_core::workload::PodName;

use super::kubernetes::Evicted;
use super::{Happened, Trouble};

/// An error that an API server answers with, as Kubernetes writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The words.
    pub message: String,
    /// What it is about.
    pub details: Option<Details>,
    /// Whether an earlier try of the same call may have been carried out.
    #[serde(skip)]
    pub tried_before: bool,
}

/// What an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The single reasons.
    pub causes: Vec<Cause>,
}

/// One reason of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// In one word.
    pub reason: String,
    /// In words.
    pub message: String,
}

impl Cause {
    /// Whether it is a disruption budget.
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

    /// Whether the answer may be another one in a moment: the server is starting,
    /// stopping or has too much to do. A budget's no is an answer.
    pub fn may_pass(&self) -> bool {
        match self.code {
            429 => !self.causes().any(Cause::is_budget),
            502..=504 => true,
            // etcd lost its leader, a webhook its pod.
            500 => self.message.contains("etcdserver") || self.message.contains("webhook"),
            _ => false,
        }
    }

    /// Whether what was asked for may have been done all the same: a server that
    /// fails or gives up waiting may have written by then.
    fn happened(&self) -> Happened {
        if self.tried_before || self.code >= 500 { Happened::Maybe } else { Happened::No }
    }

    /// What it says about the eviction of a pod; `None` if it is no usual answer to that.
    pub fn evicted(&self, pod: &PodName) -> Option<Evicted> {
        let blocked = |budget, why: &str| Some(Evicted::Blocked { budget, why: why.to_owned() });
        match self.code {
            404 => Some(Evicted::Gone),
            // The precondition: a pod of this name, and not this one.
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

/// Why Kubernetes did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The API server answered with an error.
    Status(Box<Status>),
    /// There was no answer, or none that can be read.
    Away(Trouble),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl Refused {
    /// Nothing was sent: there was no connection.
    pub fn not_sent(words: &str) -> Self {
        Self::Away(Trouble::new(FailureKind::Unavailable, words))
    }

    /// It was sent, and no answer came.
    pub fn no_answer(words: &str) -> Self {
        Self::not_sent(words).after_a_try()
    }

    /// The same, where an earlier try of the call may have been carried out.
    #[must_use]
    pub fn after_a_try(mut self) -> Self {
        match &mut self {
            Self::Status(status) => status.tried_before = true,
            Self::Away(trouble) => trouble.happened = Happened::Maybe,
        }
        self
    }

    /// Whether what was asked for may have been done all the same.
    pub fn happened(&self) -> Happened {
        match self {
            Self::Status(status) => status.happened(),
            Self::Away(trouble) => trouble.happened,
        }
    }

    /// Whether nothing was sent: the port refuses connections.
    pub fn is_not_sent(&self) -> bool {
        matches!(self, Self::Away(_)) && self.may_pass() && self.happened() == Happened::No
    }

    /// Whether it is worth asking again in a moment.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Status(status) => status.may_pass(),
            Self::Away(trouble) => trouble.failure.kind == FailureKind::Unavailable,
        }
    }

    /// Whether the API server said that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status(status) if status.code == 404)
    }

    /// Whether it said that it does not know who asks: a certificate that has
    /// expired, for one.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Status(status) if status.code == 401)
    }

    /// What it means for a read.
    pub fn look(&self, what: &str) -> Trouble {
        match self {
            Self::Away(trouble) => {
                Trouble::new(trouble.failure.kind, &format!("{what}: {}", trouble.failure))
            }
            Self::Status(status) => {
                let Status { code, message, .. } = &**status;
                let kind = if status.may_pass() || *code == 500 {
                    FailureKind::Unavailable
                } else {
                    FailureKind::Refused
                };
                Trouble::new(kind, &format!("{what}: Kubernetes answered {code}: {message}"))
            }
        }
    }

    /// What it means for a change.
    pub fn act(&self, what: &str) -> Trouble {
        Trouble { happened: self.happened(), ..self.look(what) }
    }

    /// What it means for an eviction.
    pub fn evicted(&self, pod: &PodName) -> Result<Evicted, Trouble> {
        let answer = match self {
            Self::Status(status) => status.evicted(pod),
            Self::Away(_) => None,
        };
        answer.ok_or_else(|| self.act(&format!("evicting {pod}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(value: Value) -> Refused {
        serde_json::from_value::<Status>(value).unwrap().into()
    }

    fn pod() -> PodName {
        PodName { namespace: "shop".to_owned(), name: "web-1".to_owned() }
    }

    #[test]
    fn a_budget_is_named() {
        // Rule 6: the words of a real API server.
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
        let trouble = refused.evicted(&pod()).unwrap_err();
        assert_eq!(trouble.failure.kind, FailureKind::Unavailable);
        assert_eq!(trouble.happened, Happened::No);
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
            let trouble = refused(other).evicted(&pod()).unwrap_err();
            assert_eq!(trouble.failure.kind, FailureKind::Refused);
        }
    }

    #[test]
    fn an_answer_that_did_not_come_leaves_an_act_in_doubt() {
        // Rules 7 and 8: a cordon whose answer was lost may be set.
        for (refused, happened) in [
            (Refused::not_sent("refused"), Happened::No),
            (Refused::no_answer("no answer"), Happened::Maybe),
            (Status::new(504, "timeout").into(), Happened::Maybe),
            (Status::new(500, "etcdserver: request timed out").into(), Happened::Maybe),
            (Status::new(429, "busy").into(), Happened::No),
            (Status::new(403, "no").into(), Happened::No),
            (Refused::from(Status::new(403, "no")).after_a_try(), Happened::Maybe),
            (Refused::not_sent("refused").after_a_try(), Happened::Maybe),
        ] {
            assert_eq!(refused.act("cordoning").happened, happened, "{refused:?}");
            assert_eq!(refused.look("nodes").happened, Happened::No, "{refused:?}");
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
            let refused = Refused::from(Status::new(code, message));
            assert_eq!(refused.look("a call").failure.kind, kind, "{code}");
        }
    }
}
