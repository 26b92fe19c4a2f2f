//! The annotations of users as types; each mistake says what to write instead.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use upgrade_core::amount::{Amount, ParseAmountError};
use upgrade_core::policy::{Order, Policy, Prune, RebootChoice};
use upgrade_core::product::Product;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;
use vitistack_api::annotation;

use crate::keys;

/// What a user asks for in the annotations of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an annotation that is set or not")]
pub struct UpgradeRequest {
    /// The Talos target as it was written.
    pub talos: Option<String>,
    /// The Kubernetes target as it was written.
    pub kubernetes: Option<String>,
    /// Who asked for a pause, if there is one.
    pub pause: Option<String>,
    /// An older target is a rollback.
    pub rollback: bool,
    /// A cluster with one or two control planes may lose its API for a while.
    pub accept_outage: bool,
    /// Bookkeeping and targets are to be wiped, once.
    pub reset: bool,
    /// The operator leaves this object alone.
    pub do_not_reconcile: bool,
    /// The order of roles as it was written.
    pub order: Option<String>,
    /// The limit for workers as it was written.
    pub max_unavailable: Option<String>,
    /// What is pruned, as it was written.
    pub prune: Option<String>,
    /// How nodes are rebooted, as it was written.
    pub reboot_mode: Option<String>,
    /// Nodes that are no machines of the cluster.
    pub foreign_nodes: Vec<String>,
}

impl UpgradeRequest {
    /// Reads the annotations.
    pub fn from_annotations(annotations: &BTreeMap<String, String>) -> Self {
        let get = |key: &str| annotations.get(key).map(|text| text.trim().to_owned());
        // An empty target is one that was removed.
        let some = |key: &str| get(key).filter(|text| !text.is_empty());
        let yes = |key: &str| some(key).is_some_and(|text| is_yes(&text));
        Self {
            talos: some(keys::target(Product::Talos)),
            kubernetes: some(keys::target(Product::Kubernetes)),
            pause: some(annotation::PAUSE).filter(|text| !is_no(text)).map(|text| {
                if is_yes(&text) { format!("annotation {}", annotation::PAUSE) } else { text }
            }),
            rollback: yes(annotation::ROLLBACK),
            accept_outage: yes(keys::ACCEPT_OUTAGE),
            reset: yes(annotation::RESET),
            // As the platform's own operator reads it: any value counts.
            do_not_reconcile: annotation::do_not_reconcile(annotations),
            order: some(annotation::ORDER),
            max_unavailable: some(annotation::MAX_UNAVAILABLE),
            prune: some(keys::PRUNE),
            reboot_mode: some(keys::REBOOT_MODE),
            foreign_nodes: some(keys::FOREIGN_NODES).iter().flat_map(|text| listed(text)).collect(),
        }
    }

    /// The target of a product, as it was written.
    pub fn target(&self, product: Product) -> Option<&str> {
        match product {
            Product::Talos => self.talos.as_deref(),
            Product::Kubernetes => self.kubernetes.as_deref(),
        }
    }

    /// Whether anything is wanted.
    pub fn has_target(&self) -> bool {
        self.talos.is_some() || self.kubernetes.is_some()
    }

    /// Whether a target means this version.
    pub fn targets(&self, product: Product, version: &Version) -> bool {
        self.target(product).and_then(|text| text.parse::<Version>().ok()).as_ref() == Some(version)
    }

    /// Nodes that are no machines of the cluster, those of the operator's own policy
    /// included.
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
        if let Some(text) = &self.max_unavailable {
            policy.workers.max_unavailable = text.parse::<Amount>().map_err(|error| {
                AnnotationError::Amount { key: annotation::MAX_UNAVAILABLE, error }
            })?;
        }
        if let Some(text) = &self.prune {
            policy.manifests.prune = choice(keys::PRUNE, text, PRUNES)?;
        }
        if let Some(text) = &self.reboot_mode {
            policy.reboot.mode = choice(keys::REBOOT_MODE, text, REBOOTS)?;
        }
        policy.accept_outage |= self.accept_outage;
        policy.foreign_nodes = self.foreign(base);
        Ok(policy)
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

    fn request(pairs: &[(&str, &str)]) -> UpgradeRequest {
        let annotations =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        UpgradeRequest::from_annotations(&annotations)
    }

    #[test]
    fn annotations_are_read() {
        let read = request(&[
            ("upgrade.vitistack.io/talos-target", " v1.12.0 "),
            ("upgrade.vitistack.io/kubernetes-target", ""),
            ("upgrade.vitistack.io/pause", "anna, until Monday"),
            ("upgrade.vitistack.io/rollback", "true"),
            ("upgrade.vitistack.io/talos-reset-upgrade-state", "false"),
        ]);
        assert_eq!(read.talos.as_deref(), Some("v1.12.0"));
        assert!(read.targets(Product::Talos, &Version::new(1, 12, 0)));
        assert_eq!(read.kubernetes, None, "an empty target is none");
        assert_eq!(read.pause.as_deref(), Some("anna, until Monday"));
        assert!(read.rollback && !read.reset && !read.do_not_reconcile);
        assert_eq!(request(&[("upgrade.vitistack.io/pause", "false")]).pause, None);
        assert!(request(&[("upgrade.vitistack.io/pause", "true")]).pause.is_some());
    }

    #[test]
    fn the_pace_is_the_users() {
        let base = Policy { order: Order::WorkersFirst, ..Policy::default() };
        assert_eq!(request(&[]).policy(&base).unwrap(), base);
        let policy = request(&[
            ("upgrade.vitistack.io/order", "control-planes-first"),
            ("upgrade.vitistack.io/max-unavailable", "25%"),
            ("upgrade.vitistack.io/prune", "all"),
            ("upgrade.vitistack.io/reboot-mode", "powercycle-first"),
            ("upgrade.vitistack.io/foreign-nodes", "edge-1, edge-2,"),
        ]);
        let policy = policy.policy(&base).unwrap();
        assert_eq!(policy.manifests.prune, Prune::All);
        assert_eq!(policy.reboot.mode, RebootChoice::PowercycleFirst);
        let foreign: Vec<_> = policy.foreign_nodes.iter().map(|name| name.0.as_str()).collect();
        assert_eq!(foreign, ["edge-1", "edge-2"]);
        assert_eq!(policy.order, Order::ControlPlanesFirst);
        assert_eq!(policy.workers.max_unavailable, Amount::Percent(25));
        let wrong = |key, value| request(&[(key, value)]).policy(&base).unwrap_err();
        for (annotation, value, expected) in [
            (annotation::ORDER, "random", &["workers-first", "control-planes-first"][..]),
            (keys::PRUNE, "everything", &["none", "safe", "all"]),
            (keys::REBOOT_MODE, "cold", &["default", "powercycle", "powercycle-first"]),
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
    }
}
