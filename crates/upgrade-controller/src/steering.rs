//! The annotations that steer upgrades, as types; each mistake says what to write instead. Every
//! front end whose users annotate the object of a cluster reads the same ones.

mod window;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use upgrade_api::annotation;
use upgrade_core::amount::{Amount, ParseAmountError};
use upgrade_core::jiff::SignedDuration;
use upgrade_core::policy::{OnDrainTimeout, Order, Policy, Prune, RebootChoice};
use upgrade_core::snapshot::NodeName;

/// What a user says about how an upgrade is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Who asked for a pause, if there is one.
    pub pause: Option<String>,
    /// An older target is a rollback.
    pub rollback: bool,
    /// A cluster with one or two control planes may lose its API for a while.
    pub accept_outage: bool,
    /// The order of roles as it was written.
    pub order: Option<String>,
    /// The limit for workers as it was written.
    pub max_unavailable: Option<String>,
    /// What is pruned, as it was written.
    pub prune: Option<String>,
    /// How nodes are rebooted, as it was written.
    pub reboot_mode: Option<String>,
    /// When new work may begin, as it was written.
    pub windows: Option<String>,
    /// How long pods get to leave, as it was written.
    pub drain_timeout: Option<String>,
    /// What happens to those that stay, as it was written.
    pub on_drain_timeout: Option<String>,
    /// Nodes that are no machines of the cluster.
    pub foreign_nodes: Vec<String>,
}

impl Steering {
    /// Reads the annotations.
    pub fn from_annotations(annotations: &BTreeMap<String, String>) -> Self {
        let some = |key: &str| value(annotations, key);
        Self {
            pause: some(annotation::PAUSE).filter(|text| !is_no(text)).map(|text| {
                if is_yes(&text) { format!("annotation {}", annotation::PAUSE) } else { text }
            }),
            rollback: is_set(annotations, annotation::ROLLBACK),
            accept_outage: is_set(annotations, annotation::ACCEPT_OUTAGE),
            order: some(annotation::ORDER),
            max_unavailable: some(annotation::MAX_UNAVAILABLE),
            prune: some(annotation::PRUNE),
            reboot_mode: some(annotation::REBOOT_MODE),
            windows: some(annotation::WINDOWS),
            drain_timeout: some(annotation::DRAIN_TIMEOUT),
            on_drain_timeout: some(annotation::ON_DRAIN_TIMEOUT),
            foreign_nodes: some(annotation::FOREIGN_NODES)
                .iter()
                .flat_map(|text| listed(text))
                .collect(),
        }
    }

    /// Nodes that are no machines of the cluster, those of the operator's own policy included.
    pub fn foreign(&self, base: &Policy) -> BTreeSet<NodeName> {
        let own = self.foreign_nodes.iter().map(|name| name.as_str().into());
        base.foreign_nodes.iter().cloned().chain(own).collect()
    }

    /// The policy, or which annotation is not valid.
    pub fn policy(&self, base: &Policy) -> Result<Policy, AnnotationError> {
        let mut policy = base.clone();
        if let Some(text) = &self.order {
            policy.order = choice(annotation::ORDER, text, ORDERS)?;
        }
        if let Some(amount) = self.max_unavailable()? {
            policy.workers.max_unavailable = amount;
        }
        if let Some(text) = &self.prune {
            policy.manifests.prune = choice(annotation::PRUNE, text, PRUNES)?;
        }
        if let Some(text) = &self.reboot_mode {
            policy.reboot.mode = choice(annotation::REBOOT_MODE, text, REBOOTS)?;
        }
        if let Some(text) = &self.windows {
            policy.windows = window::windows(annotation::WINDOWS, text)?;
        }
        if let Some(text) = &self.drain_timeout {
            policy.drain.timeout = duration(annotation::DRAIN_TIMEOUT, text)?;
        }
        if let Some(text) = &self.on_drain_timeout {
            policy.drain.on_timeout = choice(annotation::ON_DRAIN_TIMEOUT, text, ON_TIMEOUT)?;
        }
        policy.accept_outage |= self.accept_outage;
        policy.foreign_nodes = self.foreign(base);
        Ok(policy)
    }

    /// The limit for workers.
    pub fn max_unavailable(&self) -> Result<Option<Amount>, AnnotationError> {
        let Some(text) = &self.max_unavailable else { return Ok(None) };
        let key = annotation::MAX_UNAVAILABLE;
        text.parse().map(Some).map_err(|error| AnnotationError::Amount { key, error })
    }
}

const ORDERS: &[(&str, Order)] =
    &[("workers-first", Order::WorkersFirst), ("control-planes-first", Order::ControlPlanesFirst)];

const PRUNES: &[(&str, Prune)] =
    &[("none", Prune::None), ("safe", Prune::Safe), ("all", Prune::All)];

const REBOOTS: &[(&str, RebootChoice)] = &[
    ("default", RebootChoice::Default),
    ("powercycle", RebootChoice::Powercycle),
    ("powercycle-first", RebootChoice::PowercycleFirst),
];

const ON_TIMEOUT: &[(&str, OnDrainTimeout)] =
    &[("halt", OnDrainTimeout::Halt), ("proceed", OnDrainTimeout::Proceed)];

/// An annotation that is not valid, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AnnotationError {
    /// It is none of a few words.
    #[error("the annotation {key} is `{value}`: write {}", either(.choices))]
    Choice {
        /// The annotation.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        choices: Vec<&'static str>,
    },
    /// It is not a number or a percentage.
    #[error("the annotation {key}: {error}")]
    Amount {
        /// The annotation.
        key: &'static str,
        /// What is wrong.
        error: ParseAmountError,
    },
    /// It is not a time span.
    #[error("the annotation {key} is `{value}`: write a time span longer than zero, such as 10m")]
    Duration {
        /// The annotation.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// It is not a list of windows.
    #[error(
        "the annotation {key} has the window `{value}`: write days, a time, a time span and a \
         time zone, such as `sat,sun 22:00 4h Europe/Oslo`; without days it is every day, without \
         a time zone UTC"
    )]
    Window {
        /// The annotation.
        key: &'static str,
        /// The window.
        value: String,
    },
}

/// The value of an annotation; an empty one is none.
pub fn value(annotations: &BTreeMap<String, String>, key: &str) -> Option<String> {
    let text = annotations.get(key)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether an annotation says yes.
pub fn is_set(annotations: &BTreeMap<String, String>, key: &str) -> bool {
    value(annotations, key).is_some_and(|text| is_yes(&text))
}

fn choice<T: Copy>(
    key: &'static str,
    value: &str,
    choices: &[(&'static str, T)],
) -> Result<T, AnnotationError> {
    let found = choices.iter().find(|(word, _)| *word == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| AnnotationError::Choice {
        key,
        value: value.to_owned(),
        choices: choices.iter().map(|(word, _)| *word).collect(),
    })
}

fn duration(key: &'static str, value: &str) -> Result<SignedDuration, AnnotationError> {
    let parsed = value.parse().ok().filter(SignedDuration::is_positive);
    parsed.ok_or_else(|| AnnotationError::Duration { key, value: value.to_owned() })
}

/// `a, b or c`.
fn either(choices: &[&str]) -> String {
    match choices {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        choices => choices.join(""),
    }
}

fn listed(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(ToOwned::to_owned)
}

fn is_yes(text: &str) -> bool {
    ["true", "yes", "1"].iter().any(|yes| text.eq_ignore_ascii_case(yes))
}

fn is_no(text: &str) -> bool {
    ["false", "no", "0"].iter().any(|no| text.eq_ignore_ascii_case(no))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steering(pairs: &[(&str, &str)]) -> Steering {
        let annotations =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Steering::from_annotations(&annotations)
    }

    #[test]
    fn a_pause_names_who_asked_for_it() {
        let pause = |value| steering(&[(annotation::PAUSE, value)]).pause;
        assert_eq!(pause("anna, until Monday").as_deref(), Some("anna, until Monday"));
        assert_eq!((pause("false"), pause("")), (None, None));
        assert!(pause("true").is_some());
    }

    #[test]
    fn the_pace_is_the_users() {
        let base = Policy { order: Order::WorkersFirst, ..Policy::default() };
        assert_eq!(steering(&[]).policy(&base).unwrap(), base);
        let policy = steering(&[
            (annotation::ORDER, "control-planes-first"),
            (annotation::MAX_UNAVAILABLE, "25%"),
            (annotation::PRUNE, "all"),
            (annotation::REBOOT_MODE, "powercycle-first"),
            (annotation::FOREIGN_NODES, "edge-1, edge-2,"),
            (annotation::WINDOWS, "sat,sun 22:00 4h Europe/Oslo; 01:00 30m"),
            (annotation::DRAIN_TIMEOUT, "5m"),
            (annotation::ON_DRAIN_TIMEOUT, "proceed"),
            (annotation::ACCEPT_OUTAGE, "true"),
        ]);
        let policy = policy.policy(&base).unwrap();
        assert_eq!(policy.manifests.prune, Prune::All);
        assert_eq!(policy.reboot.mode, RebootChoice::PowercycleFirst);
        let foreign: Vec<_> = policy.foreign_nodes.iter().map(|name| name.0.as_str()).collect();
        assert_eq!(foreign, ["edge-1", "edge-2"]);
        assert_eq!(policy.order, Order::ControlPlanesFirst);
        assert_eq!(policy.workers.max_unavailable, Amount::Percent(25));
        assert_eq!(policy.drain.timeout, SignedDuration::from_mins(5));
        assert_eq!(policy.drain.on_timeout, OnDrainTimeout::Proceed);
        assert!(policy.accept_outage && policy.problems().is_empty());
        assert_eq!(policy.windows.len(), 2);
    }

    #[test]
    fn a_wrong_value_names_the_right_ones() {
        let base = Policy::default();
        let wrong = |key, value| steering(&[(key, value)]).policy(&base).unwrap_err();
        for (annotation, value, expected) in [
            (annotation::ORDER, "random", &["workers-first", "control-planes-first"][..]),
            (annotation::PRUNE, "everything", &["none", "safe", "all"]),
            (annotation::REBOOT_MODE, "cold", &["default", "powercycle", "powercycle-first"]),
            (annotation::ON_DRAIN_TIMEOUT, "kill", &["halt", "proceed"]),
        ] {
            let AnnotationError::Choice { key, value: found, choices } = wrong(annotation, value)
            else {
                panic!("{annotation}: {:?}", wrong(annotation, value));
            };
            assert_eq!((key, found.as_str(), choices.as_slice()), (annotation, value, expected));
        }
        let order = wrong(annotation::ORDER, "random").to_string();
        let said = "the annotation upgrade.vitistack.io/order is `random`: write workers-first or \
                    control-planes-first";
        assert_eq!(order, said);
        let amount = wrong(annotation::MAX_UNAVAILABLE, "0");
        assert!(
            matches!(amount, AnnotationError::Amount { key: annotation::MAX_UNAVAILABLE, .. }),
            "{amount}"
        );
        for value in ["0s", "-5m", "soon"] {
            let error = wrong(annotation::DRAIN_TIMEOUT, value);
            assert!(matches!(error, AnnotationError::Duration { .. }), "{error}");
        }
    }
}
