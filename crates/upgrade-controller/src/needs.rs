//! What a front end needs of its hub: kinds, namespaces, rights. All are checked at the start,
//! and each missing one is reported with the command that adds it.
//!
//! A replica does not exit when something is missing: a `GitOps` tool applies manifests in any
//! order, and a restart loop would notice minutes later than a replica that checks again. It
//! is not ready, says why, and starts once everything required exists. Errors that waiting
//! cannot fix (no kubeconfig, an address in use) end the process instead.

mod ask;
mod fix;
mod rights;

use std::fmt::Write as _;
use std::time::Duration;

use kube::core::ApiResource;
use kube::{Client, Resource};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api_call::CallError;
use crate::error_log::ErrorLog;

pub use rights::{CONFIG_MAPS, LEASES, Right, Role, Scope};

/// How soon it is asked again while something is missing.
const AGAIN: Duration = Duration::from_secs(5);

/// How often once all is there: rights may be taken away.
const EVERY: Duration = Duration::from_mins(5);

/// How often what stays missing is logged.
const REMIND: Duration = Duration::from_mins(10);

/// The longest time for all questions (rule 11).
const CHECK: Duration = Duration::from_secs(30);

/// What something missing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing can be done without it: no cluster is touched.
    Needed,
    /// The operator works without it and is not ready.
    Wanted,
    /// Some clusters may do without it: it is logged.
    Noted,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// What it means.
    pub weight: Weight,
    /// A sentence.
    pub what: String,
    /// The command that brings it.
    pub fix: String,
}

/// A kind that the hub has to serve.
#[derive(Clone, Debug)]
pub struct NeededKind {
    /// The kind.
    pub resource: ApiResource,
    /// Whether its status subresource is needed.
    pub status: bool,
}

impl NeededKind {
    /// This kind.
    pub fn of<K: Resource<DynamicType = ()>>(status: bool) -> Self {
        Self { resource: ApiResource::erase::<K>(&()), status }
    }
}

/// What a front end needs of its hub.
#[derive(Clone)]
pub struct Needs {
    /// The hub.
    pub client: Client,
    /// The operator's own namespace.
    pub namespace: String,
    /// The only namespace that is watched, if it is one.
    pub watch_namespace: Option<String>,
    /// The kind of the objects that stand for clusters; rights may be granted in their
    /// namespaces only.
    pub clusters: ApiResource,
    /// The kinds.
    pub kinds: Vec<NeededKind>,
    /// The rights.
    pub rights: Vec<Right>,
}

/// What is known of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whether it ever answered.
    pub answered: bool,
    /// Why it did not, until it does.
    pub away: Option<String>,
    /// What is missing.
    pub missing: Vec<Missing>,
}

impl State {
    /// Whether the operator can begin.
    pub fn suffices(&self) -> bool {
        self.answered && self.missing.iter().all(|it| it.weight != Weight::Needed)
    }

    /// Why a replica is not ready, in lines; nothing if it is. `listed` says that the
    /// clusters were read.
    pub fn not_ready(&self, listed: bool) -> Option<String> {
        if !self.answered {
            let why = self.away.as_deref().unwrap_or("it was not asked yet");
            return Some(format!("not ready: waiting for the hub: {why}\n"));
        }
        let missing: Vec<_> = self.missing.iter().filter(|it| it.weight != Weight::Noted).collect();
        if !missing.is_empty() {
            let mut text = "not ready: missing on the hub\n".to_owned();
            for Missing { what, fix, .. } in missing {
                let _ = writeln!(text, "- {what}\n  fix: {fix}");
            }
            return Some(text);
        }
        (!listed).then(|| "not ready: waiting for the list of clusters\n".to_owned())
    }
}

impl Needs {
    /// Asks until it is dropped, and tells what is known.
    pub async fn keep_asking(self, tell: watch::Sender<State>) {
        let mut away = ErrorLog::new("the hub cannot be asked", "the hub answers");
        let mut logged = Logged::default();
        loop {
            let asked = tokio::time::timeout(CHECK, self.check()).await;
            match asked.unwrap_or(Err(CallError::TimedOut)) {
                Ok(missing) => {
                    away.recovered();
                    logged.log(&missing, Instant::now());
                    tell.send_replace(State { answered: true, away: None, missing });
                }
                Err(error) => {
                    let why = error.to_string();
                    away.failed(&why);
                    // Later it is away for a moment, as every API server is: what was
                    // known of it still holds.
                    tell.send_if_modified(|state| {
                        let first = !state.answered;
                        if first {
                            state.away = Some(why);
                        }
                        first
                    });
                }
            }
            let complete = tell.borrow().not_ready(true).is_none();
            tokio::time::sleep(if complete { EVERY } else { AGAIN }).await;
        }
    }
}

/// What was logged as missing, and when.
#[derive(Debug, Default)]
struct Logged {
    missing: Option<Vec<Missing>>,
    at: Option<Instant>,
}

impl Logged {
    /// Logs what is new, what came, and now and then what stays.
    fn log(&mut self, missing: &[Missing], now: Instant) {
        let first = self.missing.is_none();
        let before = self.missing.replace(missing.to_vec()).unwrap_or_default();
        let remind = self.at.is_none_or(|at| now.duration_since(at) >= REMIND);
        for Missing { what, fix, .. } in missing.iter().filter(|it| remind || !before.contains(it))
        {
            tracing::warn!(%fix, "missing on the hub: {what}");
        }
        for Missing { what, .. } in before.iter().filter(|it| !missing.contains(it)) {
            tracing::info!("not missing any more: {what}");
        }
        if missing.is_empty() && (first || !before.is_empty()) {
            tracing::info!("the hub has all that the operator needs");
        }
        if remind || missing.is_empty() {
            self.at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(weight: Weight) -> Missing {
        let (what, fix) = ("no namespace x".to_owned(), "kubectl create namespace x".to_owned());
        Missing { weight, what, fix }
    }

    #[test]
    fn a_replica_says_what_it_waits_for() {
        let unasked = State::default();
        assert!(!unasked.suffices());
        assert!(unasked.not_ready(true).unwrap().contains("waiting for the hub"));
        let away = State { away: Some("no answer".to_owned()), ..State::default() };
        assert!(away.not_ready(true).unwrap().contains("waiting for the hub: no answer"));
        let of = |missing| State { answered: true, away: None, missing };
        let without = of(vec![missing(Weight::Needed)]);
        let expected = "not ready: missing on the hub\n- no namespace x\n  \
                        fix: kubectl create namespace x\n";
        assert_eq!(without.not_ready(true).as_deref(), Some(expected));
        assert!(!without.suffices());
        let wanted = of(vec![missing(Weight::Wanted)]);
        assert!(wanted.suffices() && wanted.not_ready(true).is_some());
        let noted = of(vec![missing(Weight::Noted)]);
        assert!(noted.suffices() && noted.not_ready(true).is_none());
        assert!(of(Vec::new()).not_ready(false).unwrap().contains("the list of clusters"));
        assert_eq!(of(Vec::new()).not_ready(true), None);
    }
}
