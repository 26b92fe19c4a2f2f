//! Rule 10: incomplete or contradictory knowledge never deletes or overwrites anything. An object
//! of a manifest in some control plane's configuration, downloaded or not, is never deleted;
//! objects whose deletion removes others are deleted only if the policy allows it; and a
//! configuration that someone staged is not replaced.

use std::collections::BTreeMap;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::policy::Prune;
use upgrade_core::snapshot::NodeName;

use super::facts;
use super::{Rule, Scene};
use crate::trace::{Act, ExternalAction, Fate, TraceEvent, TraceKind};

/// How long a process may not know yet that a configuration was staged: it observed before, was
/// suspended, and its message was delayed.
const UNKNOWN: SignedDuration = SignedDuration::from_mins(2);

/// Objects whose deletion removes other objects or data.
const TAKES_OTHERS: [&str; 4] =
    ["CustomResourceDefinition", "Namespace", "PersistentVolume", "PersistentVolumeClaim"];

#[derive(Default)]
pub(super) struct Incomplete {
    /// Nodes with a staged configuration, and since when.
    staged: BTreeMap<NodeName, Timestamp>,
}

impl Rule for Incomplete {
    fn number(&self) -> u8 {
        10
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::External { action: ExternalAction::Stages { node } } => {
                self.staged.insert(node.clone(), seen.at);
            }
            TraceKind::Boots { node } => {
                self.staged.remove(node);
            }
            TraceKind::Act { runner, act, fate: Fate::Arrives } => match act {
                Act::Configure { node, .. } => {
                    let since = self.staged.get(node).copied().unwrap_or(seen.at);
                    let known = seen.at.duration_since(since) > UNKNOWN;
                    if known && facts::has_staged_config(scene.view, node) {
                        found.push(format!("the staged configuration of {node} is overwritten"));
                    }
                }
                Act::Delete { kind, namespace, name } => {
                    let object = format!("{kind} {namespace}/{name}");
                    if let Some(node) = facts::wants_object(scene.view, kind, namespace, name) {
                        let text =
                            format!("{object} is deleted, but a manifest of {node} contains it");
                        found.push(text);
                    }
                    let driver = scene.notes.drivers.get(runner);
                    let policy = driver.map(|driver| driver.plan.policy.manifests.prune);
                    let takes = TAKES_OTHERS.contains(&kind.as_str());
                    if policy == Some(Prune::None) || (takes && policy != Some(Prune::All)) {
                        found.push(format!("{object} is deleted without consent"));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, NONE, wanted};
    use super::*;

    fn deletes(kind: &str, namespace: &str, name: &str, prune: Prune) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.policy.manifests.prune = prune;
        let mut bench = Bench::with(1, 0, wanted);
        bench.ready(1);
        let text = str::to_owned;
        let (kind, namespace, name) = (text(kind), text(namespace), text(name));
        bench.act(1, Act::Delete { kind, namespace, name });
        bench.broken()
    }

    #[test]
    fn an_object_of_a_manifest_is_not_deleted() {
        let safe = Prune::Safe;
        assert_eq!(deletes("Deployment", "kube-system", "coredns", safe), [10]);
        assert_eq!(deletes("ConfigMap", "kube-system", "left-over", safe), NONE);
        assert_eq!(deletes("ConfigMap", "kube-system", "left-over", Prune::None), [10]);
        assert_eq!(deletes("Namespace", "", "left-over", safe), [10]);
        assert_eq!(deletes("Namespace", "", "left-over", Prune::All), NONE);
    }

    #[test]
    fn a_staged_configuration_is_not_replaced() {
        let configured = |seconds: i64| {
            let mut bench = Bench::with(1, 1, wanted());
            bench.ready(1);
            bench.stage_config("worker-1");
            bench.wait(seconds);
            let (node, images) = ("worker-1".into(), Vec::new());
            bench.act(1, Act::Configure { node, images });
            bench.broken().contains(&10)
        };
        assert!(configured(600));
        assert!(!configured(10), "it may have been staged since the observation");
    }
}
