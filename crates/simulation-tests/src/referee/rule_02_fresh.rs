//! Rule 2: a disruptive step begins on an observation newer than the end of the last disruption.
//!
//! A step begins when its process records that; what it knew then is its
//! [`Basis`](super::notes::Basis). Parallel steps may begin on one observation; an end counts from
//! when it was recorded.

use upgrade_core::jiff::{SignedDuration, Timestamp};

use super::driver::Answers;
use super::{Rule, Scene};
use crate::trace::TraceEvent;

/// The maximum age of an observation, even without a disruption since: a few seconds as designed,
/// plus the time to observe many nodes that do not answer.
const OLDEST: SignedDuration = SignedDuration::from_secs(90);

pub(super) struct Fresh;

impl Rule for Fresh {
    fn number(&self) -> u8 {
        2
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        let Some(blow) = scene.notes.blow(seen) else { return };
        // A step that was never recorded is a breach of rule 8.
        let Some(basis) = blow.basis else { return };
        let rollback = blow.driver.plan.rollback;
        let etcd = blow.node.control_plane && !rollback;
        let oldest = basis.at.saturating_sub(OLDEST).unwrap_or(Timestamp::MIN);
        for (what, needed, answers) in [
            ("the node", true, basis.facts),
            ("Kubernetes", !rollback, basis.nodes),
            ("etcd", etcd, basis.etcd),
        ] {
            // A question that was never answered is a breach of rule 10.
            let Answers { good: Some(good), .. } = answers else { continue };
            let act = blow.act;
            if !needed {
                continue;
            }
            if good <= basis.calm_since {
                let since = basis.calm_since;
                found.push(format!(
                    "{act:?} on an observation of {what} from {good}, but a disruption lasted until {since}"
                ));
            } else if good < oldest {
                found.push(format!(
                    "{act:?} on an observation of {what} from {good}, which is too old"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use crate::trace::{Act, Question};

    #[test]
    fn an_observation_from_before_the_last_disruption_is_a_breach() {
        for observes in [true, false] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.verify_and_uncordon(1, "worker-1");
            bench.take(1, "worker-2");
            bench.wait(1);
            if observes {
                bench.observe(1);
            }
            bench.begins(1, "1/worker-2/drain");
            bench.wait(1);
            bench.ends(1, "1/worker-2/drain");
            bench.wait(1);
            bench.ask(1, Question::Facts("worker-2".into()), true);
            bench.ask(1, Question::Etcd, true);
            if observes {
                bench.ask(1, Question::Nodes, true);
            }
            bench.begins(1, "1/worker-2/cordon");
            bench.act(1, Act::Cordon { node: "worker-2".into(), on: true });
            bench.assert_broken(if observes { &[] } else { &[2] });
        }
    }

    #[test]
    fn an_old_observation_is_a_breach() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.wait(300);
        bench.begins(1, "1/worker-2/cordon");
        bench.act(1, Act::Cordon { node: "worker-2".into(), on: true });
        bench.assert_broken(&[2]);
    }
}
