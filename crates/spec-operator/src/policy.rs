//! How the upgrade of a unit is done: the limits of its pools and the annotations of its
//! control plane.

use spec_api::IntOrString;
use thiserror::Error;
use upgrade_controller::steering::{AnnotationError, Steering};
use upgrade_core::amount::Amount;
use upgrade_core::policy::{Order, Policy};

use crate::unit::Unit;

/// The label of a Kubernetes node that names its pool. Nodes have it only if a user set it: the
/// pool of a machine is known from the specs.
pub const POOL_LABEL: &str = "talos.alperen.cloud/worker";

/// The limit of a pool that has none: one machine after the other.
const ONE: Amount = Amount::Count(1);

/// A policy, and what of the specs it does not follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitPolicy {
    /// The policy.
    pub policy: Policy,
    /// To be told once.
    pub warnings: Vec<PolicyWarning>,
}

/// What a user wrote and does not get.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyWarning {
    /// Control planes are upgraded one at a time (rule 1).
    #[error(
        "TalosControlPlane {name}, spec.rolloutStrategy.rollingUpdate.maxUnavailable is {written}: \
         control planes are upgraded one at a time all the same; write 1"
    )]
    OneAtATime {
        /// The object.
        name: String,
        /// What was written.
        written: String,
    },
    /// A limit that cannot be read.
    #[error(
        "TalosWorker {name}, spec.rolloutStrategy.rollingUpdate.maxUnavailable is {written}: it \
         counts as 1; write a number from 1, or a percentage from 1% to 100%"
    )]
    NotAnAmount {
        /// The object.
        name: String,
        /// What was written.
        written: String,
    },
}

impl PolicyWarning {
    /// The reason of the Event that tells it.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::OneAtATime { .. } => "MaxUnavailableIgnored",
            Self::NotAnAmount { .. } => "InvalidMaxUnavailable",
        }
    }
}

/// The policy of a unit, or which annotation is not valid. `base` is that of the operator.
/// Control planes go first, since workers wait for them on this front end, unless the user wants
/// another order.
pub fn policy(
    unit: &Unit,
    steering: &Steering,
    base: &Policy,
) -> Result<UnitPolicy, AnnotationError> {
    let base = Policy { order: Order::ControlPlanesFirst, ..base.clone() };
    let mut policy = steering.policy(&base)?;
    let common = steering.max_unavailable()?.unwrap_or(ONE);
    let mut warnings = Vec::new();
    if let Some(written) = unit.max_unavailable.as_ref().filter(|it| !is_one(it)) {
        let (name, written) = (unit.key.name.clone(), written.to_string());
        warnings.push(PolicyWarning::OneAtATime { name, written });
    }
    POOL_LABEL.clone_into(&mut policy.workers.pool_label);
    policy.workers.pools = unit
        .pools
        .iter()
        .map(|(name, pool)| {
            let amount = match &pool.max_unavailable {
                None => common,
                Some(written) => written.to_string().parse().unwrap_or_else(|_| {
                    let (name, written) = (name.clone(), written.to_string());
                    warnings.push(PolicyWarning::NotAnAmount { name, written });
                    ONE
                }),
            };
            (name.clone(), amount)
        })
        .collect();
    Ok(UnitPolicy { policy, warnings })
}

fn is_one(written: &IntOrString) -> bool {
    written.to_string() == "1"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use upgrade_api::annotation;

    use super::*;
    use crate::test_objects::{Hub, machines, worker};

    fn hub(limits: &[(&str, Value)]) -> Hub {
        let mut hub = Hub::usual();
        hub.workers = limits
            .iter()
            .enumerate()
            .map(|(index, (name, limit))| {
                let address = format!("10.0.1.{index}");
                let list = machines(&[address.as_str()]);
                let strategy = json!({"rollingUpdate": {"maxUnavailable": limit}});
                worker(name, json!({"metalSpec": list, "rolloutStrategy": strategy}))
            })
            .collect();
        hub
    }

    fn of(hub: &Hub, annotations: &[(&str, &str)]) -> UnitPolicy {
        policy(&hub.unit(), &steering(annotations), &Policy::default()).expect("valid")
    }

    fn steering(annotations: &[(&str, &str)]) -> Steering {
        let all = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Steering::from_annotations(&all.collect())
    }

    #[test]
    fn each_pool_has_its_own_limit() {
        // Rule 6.
        let hub =
            hub(&[("a", json!(3)), ("b", json!("50%")), ("c", json!("2")), ("d", Value::Null)]);
        let UnitPolicy { policy, warnings } = of(&hub, &[]);
        let limits: Vec<_> =
            policy.workers.pools.iter().map(|(name, limit)| (name.as_str(), *limit)).collect();
        let expected = [
            ("a", Amount::Count(3)),
            ("b", Amount::Percent(50)),
            ("c", Amount::Count(2)),
            ("d", ONE),
        ];
        assert_eq!(limits, expected);
        assert_eq!((warnings, policy.workers.max_unavailable), (vec![], ONE));
        assert_eq!(policy.problems(), []);
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_one_and_told() {
        for written in [json!(0), json!(-1), json!("many"), json!("0%"), json!("150%"), json!(0.5)]
        {
            let UnitPolicy { policy, warnings } = of(&hub(&[("a", written.clone())]), &[]);
            assert_eq!(policy.workers.pools["a"], ONE, "{written}");
            let [PolicyWarning::NotAnAmount { name, .. }] = warnings.as_slice() else {
                panic!("{written}: {warnings:?}");
            };
            assert_eq!(name, "a");
        }
    }

    #[test]
    fn control_planes_are_upgraded_one_at_a_time() {
        // Rule 1.
        let strategy = |limit: Value| {
            let mut hub = Hub::usual();
            let strategy = json!({"rollingUpdate": {"maxUnavailable": limit}});
            hub.control_planes[0].spec.rollout_strategy =
                Some(serde_json::from_value(strategy).expect("readable"));
            of(&hub, &[])
        };
        for (limit, warned) in
            [(json!(1), false), (json!("1"), false), (json!(2), true), (json!("50%"), true)]
        {
            let UnitPolicy { policy, warnings } = strategy(limit.clone());
            assert_eq!(!warnings.is_empty(), warned, "{limit}");
            assert_eq!(policy, of(&Hub::usual(), &[]).policy, "nothing follows from it");
        }
    }

    #[test]
    fn annotations_steer() {
        let hub = hub(&[("a", json!(3)), ("b", Value::Null)]);
        assert_eq!(of(&hub, &[]).policy.order, Order::ControlPlanesFirst);
        let base = Policy { order: Order::WorkersFirst, ..Policy::default() };
        let own = policy(&hub.unit(), &steering(&[]), &base).expect("valid").policy;
        assert_eq!(own.order, Order::ControlPlanesFirst, "whatever the other front end has");
        let steered = of(
            &hub,
            &[
                (annotation::ORDER, "workers-first"),
                (annotation::MAX_UNAVAILABLE, "2"),
                (annotation::ACCEPT_OUTAGE, "true"),
            ],
        );
        assert_eq!(steered.policy.order, Order::WorkersFirst);
        assert!(steered.policy.accept_outage);
        let pools = &steered.policy.workers.pools;
        assert_eq!((pools["a"], pools["b"]), (Amount::Count(3), Amount::Count(2)));
        let wrong = policy(&hub.unit(), &steering(&[(annotation::ORDER, "random")]), &base);
        assert!(matches!(wrong, Err(AnnotationError::Choice { key: annotation::ORDER, .. })));
    }
}
