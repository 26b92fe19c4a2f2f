//! What a user can do next, as data.
//!
//! Refusals, failures and halts know what helps, but not how their user says it: a flag,
//! a field of a profile or an annotation. So each front end words [`Advice`] itself, and
//! only what reads the same to every user has words here ([`Fix`], [`Choice`]).

mod choice;
mod examples;
mod fix;

pub use choice::Choice;
pub use fix::Fix;

use serde::{Deserialize, Serialize};

use crate::snapshot::NodeName;

examples::with_examples! {
    /// What a user can do next.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Advice {
        /// Continue as planned. The state of the node is checked before a request is
        /// repeated (rule 8).
        Retry => Self::Retry,
        /// Do this, then continue as planned.
        FixThenRetry(Vec<Fix>) => Self::retry_after(Fix::NodeUnreachable),
        /// Do this, then make another plan.
        FixThenPlan(Vec<Fix>) => Self::plan_after(Fix::RepairEtcd),
        /// Continue with the plan that the journal names, or make another.
        RetryJournal => Self::RetryJournal,
        /// Choose another target.
        ChooseTarget(Choice) => Self::ChooseTarget(Choice::Newer),
        /// Give a permission.
        Allow(Permission) => Self::Allow(Permission::Outage),
        /// Do not ask for a rollback.
        WithdrawRollback => Self::WithdrawRollback,
        /// Name the schematic of a node.
        NameSchematic => Self::NameSchematic,
        /// Name an installer image, such as this one where the right one is known.
        NameInstaller(Option<String>) => Self::NameInstaller(Some("metal-installer".to_owned())),
        /// Stop holding these nodes.
        ReleaseHold(Vec<NodeName>) => Self::ReleaseHold(vec!["cp-1".into()]),
        /// Let more workers be unavailable at once, of a pool where one is named.
        RaiseLimit(Option<String>) => Self::RaiseLimit(Some("gpu".to_owned())),
        /// Correct the policy.
        CorrectPolicy => Self::CorrectPolicy,
        /// Use a release of this program that knows more versions.
        UpdateProgram => Self::UpdateProgram,
        /// Any of these helps.
        AnyOf(Vec<Self>) => Self::AnyOf(vec![Self::Retry, Self::Allow(Permission::Rollback)]),
    }
}

examples::with_examples! {
    /// What only the user can allow.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Permission {
        /// The Kubernetes API may be away while a control plane reboots (rule 1).
        Outage => Self::Outage,
        /// Versions may fall (rule 13).
        Rollback => Self::Rollback,
        /// Extensions may go that the new installer lacks (rule 4).
        DropExtensions => Self::DropExtensions,
        /// The image is trusted to bring the extensions of the node (rule 4).
        KeepExtensions => Self::KeepExtensions,
        /// Pods may be lost, or their data, when their node is drained (rule 6).
        LosePods => Self::LosePods,
        /// Objects may be deleted with which others, or data, go.
        PruneAll => Self::PruneAll,
        /// This node is not a Talos machine of the cluster (rule 10).
        ForeignNode(NodeName) => Self::ForeignNode("edge-1".into()),
    }
}

impl Advice {
    /// Do this, then continue as planned.
    pub fn retry_after(fix: Fix) -> Self {
        Self::FixThenRetry(vec![fix])
    }

    /// Do this, then make another plan.
    pub fn plan_after(fix: Fix) -> Self {
        Self::FixThenPlan(vec![fix])
    }

    /// For a node of Kubernetes without a known machine: find it, or say that there is
    /// none (rule 10).
    pub fn no_machine(node: &NodeName) -> Self {
        Self::AnyOf(vec![
            Self::plan_after(Fix::FindMachine),
            Self::Allow(Permission::ForeignNode(node.clone())),
        ])
    }

    /// For pods that are lost, or lose data, when they are evicted (rule 6).
    pub fn pods_at_stake() -> Self {
        Self::AnyOf(vec![Self::retry_after(Fix::DeletePods), Self::Allow(Permission::LosePods)])
    }

    /// Whether there is nothing in it that a user could do.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::FixThenRetry(fixes) | Self::FixThenPlan(fixes) => fixes.is_empty(),
            Self::ReleaseHold(nodes) => nodes.is_empty(),
            Self::AnyOf(several) => several.iter().all(Self::is_empty),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;

    fn reads_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(examples: Vec<T>) {
        assert!(!examples.is_empty());
        for example in examples {
            let json = serde_json::to_string(&example).unwrap();
            assert_eq!(serde_json::from_str::<T>(&json).unwrap(), example, "{json}");
        }
    }

    #[test]
    fn a_journal_keeps_every_advice() {
        reads_back(Advice::examples());
        reads_back(Permission::examples());
        reads_back(Fix::examples());
        reads_back(Choice::examples());
    }

    #[test]
    fn advice_is_something_to_do() {
        assert!(!Advice::examples().iter().any(Advice::is_empty));
        assert!(Advice::AnyOf(vec![Advice::FixThenPlan(Vec::new())]).is_empty());
    }

    #[test]
    fn shared_words_belong_to_no_front_end() {
        let fixes = Fix::examples().into_iter().map(|fix| fix.to_string());
        let choices = Choice::examples().into_iter().map(|choice| choice.to_string());
        for text in fixes.chain(choices) {
            assert!(!text.is_empty());
            // Commands of talosctl act on nodes, whatever started the upgrade.
            let mut parts = text.split('`');
            let outside: String = parts.by_ref().step_by(2).collect();
            for word in ["--", "resume", "annotat", "talos-operator", "vitistack"] {
                assert!(!outside.contains(word), "{text}");
            }
            let inside = text.split('`').skip(1).step_by(2);
            for code in inside.filter(|code| code.contains("--")) {
                assert!(code.starts_with("talosctl "), "{text}");
            }
        }
    }
}
