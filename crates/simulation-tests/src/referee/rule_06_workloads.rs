//! Rule 6, how: pods leave only by eviction, and a node goes down after they have left, unless the
//! policy says otherwise.

use std::collections::BTreeMap;

use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::Record;
use upgrade_core::policy::{AtStake, OnDrainTimeout};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;

use super::facts::{self, Pod};
use super::notes::{Blow, Whose};
use super::{Rule, Scene};
use crate::trace::{Act, TraceEvent, TraceKind};

#[derive(Default)]
pub(super) struct Workloads {
    /// When a node's last drain began: pods that came later were not part of it.
    drains: BTreeMap<NodeName, Timestamp>,
}

impl Rule for Workloads {
    fn number(&self) -> u8 {
        6
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::Starts { fresh: true, .. } => self.drains.clear(),
            TraceKind::Wrote { entry, .. } => {
                if let Record::Started { step, .. } = &entry.record
                    && let (Action::Drain, Some(node)) = (step.action, &step.node)
                {
                    self.drains.insert(node.clone(), seen.at);
                }
            }
            TraceKind::Act { act: Act::Delete { kind, namespace, name }, .. } if kind == "Pod" => {
                found.push(format!("the pod {namespace}/{name} is deleted instead of evicted"));
            }
            TraceKind::Act { act, .. } if act.boots() => {
                if let Some(blow) = scene.notes.blow(seen) {
                    self.left(&blow, scene, found);
                }
            }
            _ => {}
        }
    }
}

impl Workloads {
    /// The pods left on a node that gets a boot request.
    fn left(&self, blow: &Blow<'_>, scene: &Scene<'_>, found: &mut Vec<String>) {
        let policy = &blow.driver.wanted.policy.drain;
        let alone = scene.notes.facts.nodes().count() < 2;
        // A rollback does not wait for Kubernetes (rule 12), and pods of a single node cannot be
        // rescheduled.
        if blow.driver.plan.rollback || alone || policy.on_timeout == OnDrainTimeout::Proceed {
            return;
        }
        let name = &blow.node.name;
        if matches!(scene.notes.whose(name), Some(Whose::Lifted { .. })) {
            // Someone else uncordoned the node, so pods came back.
            return;
        }
        let Some(drained) = self.drains.get(name) else {
            found.push(format!("{:?} of a node that was never drained", blow.act));
            return;
        };
        let leaves = |pod: &Pod| {
            let kept = pod.bare && policy.bare_pods == AtStake::Leave
                || pod.scratch && policy.empty_dir == AtStake::Leave;
            let old = pod.created.is_some_and(|created| created < *drained);
            old && !pod.stays && !kept
        };
        let left: Vec<_> = facts::pods(scene.view, name).into_iter().filter(leaves).collect();
        if !left.is_empty() {
            let names: Vec<_> = left.iter().map(|pod| pod.name.as_str()).collect();
            found.push(format!("{:?} with {} still on the node", blow.act, names.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::policy::OnDrainTimeout;

    use super::super::testing::{Bench, wanted};
    use crate::trace::Act;

    #[test]
    fn pods_are_never_deleted() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        for (kind, rules) in [("ConfigMap", vec![]), ("Pod", vec![6])] {
            let (namespace, name) = ("default".to_owned(), "web".to_owned());
            bench.act(1, Act::Delete { kind: kind.to_owned(), namespace, name });
            bench.assert_broken(&rules);
        }
    }

    #[test]
    fn pods_have_left_when_their_node_goes_down() {
        for (on_timeout, rules) in
            [(OnDrainTimeout::Halt, vec![6]), (OnDrainTimeout::Proceed, vec![])]
        {
            let mut wanted = wanted();
            wanted.policy.drain.on_timeout = on_timeout;
            let mut bench = Bench::with(1, 1, wanted);
            bench.wait(30);
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.step(1, "1/worker-1/drain", None);
            bench.boot(1, "worker-1");
            bench.assert_broken(&rules);
        }
    }
}
