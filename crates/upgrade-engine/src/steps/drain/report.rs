//! The status of a drain while it lasts and when it fails: every budget and pod by name, up to a
//! readable number.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use upgrade_core::snapshot::NodeName;
use upgrade_core::text;
use upgrade_core::workload::PodName;

/// How many items are named of each kind.
const NAMED: usize = 8;

/// Why an eviction was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionBlock {
    /// The budget, if one was named.
    pub(super) budget: Option<String>,
    /// The message of the API server.
    pub(super) why: String,
}

/// What has not left the node yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DrainStatus {
    /// Pods that are terminating.
    pub(super) going: Vec<PodName>,
    /// Pods whose eviction is refused, and why.
    pub(super) blocked: Vec<(PodName, EvictionBlock)>,
    /// Volumes that are still attached, once the pods are gone.
    pub(super) volumes: Vec<String>,
}

impl DrainStatus {
    pub(super) fn is_done(&self) -> bool {
        self.going.is_empty() && self.blocked.is_empty() && self.volumes.is_empty()
    }
}

impl Display for DrainStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut held: BTreeMap<&EvictionBlock, Vec<&PodName>> = BTreeMap::new();
        for (pod, block) in &self.blocked {
            held.entry(block).or_default().push(pod);
        }
        let mut parts: Vec<String> = held
            .into_iter()
            .map(|(block, pods)| match block {
                EvictionBlock { budget: Some(budget), why } => {
                    format!("budget {budget} blocks {} ({why})", some(&pods))
                }
                EvictionBlock { budget: None, why } => {
                    format!("{} cannot be evicted ({why})", some(&pods))
                }
            })
            .collect();
        if !self.going.is_empty() {
            parts.push(format!("terminating: {}", some(&self.going)));
        }
        if !self.volumes.is_empty() {
            parts.push(format!("volumes still attached: {}", some(&self.volumes)));
        }
        f.write_str(&parts.join("; "))
    }
}

/// The failure text of a drain that does not begin.
pub(super) fn halted(node: &NodeName, halts: &[(PodName, &str)]) -> String {
    let mut stakes: BTreeMap<&str, Vec<&PodName>> = BTreeMap::new();
    for (pod, stake) in halts {
        stakes.entry(stake).or_default().push(pod);
    }
    let stakes = stakes.into_iter().map(|(stake, pods)| format!("{stake}: {}", some(&pods)));
    let stakes: Vec<_> = stakes.collect();
    format!(
        "nothing was evicted from {node}, since pods there would be lost or lose data ({})",
        stakes.join("; ")
    )
}

fn some<T: Display>(items: &[T]) -> String {
    let mut names: Vec<_> = items.iter().map(ToString::to_string).collect();
    names.sort();
    text::first(&names, NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodName {
        PodName { namespace: "shop".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn budgets_and_pods_are_named() {
        // Rule 6.
        let block =
            EvictionBlock { budget: Some("shop/web".to_owned()), why: "needs 2".to_owned() };
        let denied = EvictionBlock { budget: None, why: "a webhook says no".to_owned() };
        let mut left = DrainStatus {
            going: vec![pod("api-1")],
            blocked: vec![
                (pod("web-2"), block.clone()),
                (pod("db-0"), denied),
                (pod("web-1"), block),
            ],
            volumes: vec![],
        };
        assert_eq!(
            left.to_string(),
            "shop/db-0 cannot be evicted (a webhook says no); \
             budget shop/web blocks shop/web-1, shop/web-2 (needs 2); terminating: shop/api-1"
        );
        left.blocked.clear();
        left.going = (0..10).map(|number| pod(&format!("p-{number}"))).collect();
        assert!(left.to_string().ends_with("shop/p-7 and 2 more"), "{left}");
        let left = DrainStatus { volumes: vec!["pvc-1".to_owned()], ..DrainStatus::default() };
        assert_eq!(left.to_string(), "volumes still attached: pvc-1");
        assert!(DrainStatus::default().is_done());
    }

    #[test]
    fn what_would_be_lost_is_named() {
        let halts = [(pod("a"), "no controller"), (pod("b"), "emptyDir")];
        let text = halted(&"worker-1".into(), &halts);
        assert!(text.contains("emptyDir: shop/b; no controller: shop/a"), "{text}");
    }
}
