//! Rule 2: what disrupts begins on a look that is newer than the end of the last
//! disruption.
//!
//! A step begins when its process writes that down; what it knew then is its
//! [`Basis`](super::notes::Basis). Steps that run side by side may begin on one
//! look; an end counts from when it was written.

use upgrade_core::jiff::{SignedDuration, Timestamp};

use super::driver::Answers;
use super::{Rule, Scene};
use crate::seen::Seen;

/// How old a look may be, even if nothing was disrupted since: a few seconds by
/// intention, and what a look at many nodes that do not answer takes.
const OLDEST: SignedDuration = SignedDuration::from_secs(90);

pub(super) struct Fresh;

impl Rule for Fresh {
    fn number(&self) -> u8 {
        2
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        let Some(blow) = scene.notes.blow(seen) else { return };
        // Never written down: that is rule 8's.
        let Some(basis) = blow.basis else { return };
        let rollback = blow.driver.plan.rollback;
        let etcd = blow.node.control_plane && !rollback;
        let oldest = basis.at.saturating_sub(OLDEST).unwrap_or(Timestamp::MIN);
        for (what, needed, answers) in [
            ("the node", true, basis.facts),
            ("Kubernetes", !rollback, basis.nodes),
            ("etcd", etcd, basis.etcd),
        ] {
            // One that was never answered is rule 10's.
            let Answers { good: Some(good), .. } = answers else { continue };
            let act = blow.act;
            if !needed {
                continue;
            }
            if good <= basis.calm_since {
                let since = basis.calm_since;
                found.push(format!(
                    "{act:?} on a look at {what} of {good}, and something was disrupted until {since}"
                ));
            } else if good < oldest {
                found.push(format!("{act:?} on a look at {what} of {good}, which is too old"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use crate::seen::{Act, Question};

    #[test]
    fn a_look_of_before_the_last_disruption() {
        for looks in [true, false] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.give_back(1, "worker-1");
            bench.take(1, "worker-2");
            bench.wait(1);
            if looks {
                bench.look(1);
            }
            bench.begins(1, "1/worker-2/drain");
            bench.wait(1);
            bench.ends(1, "1/worker-2/drain");
            bench.wait(1);
            bench.ask(1, Question::Facts("worker-2".into()), true);
            bench.ask(1, Question::Etcd, true);
            if looks {
                bench.ask(1, Question::Nodes, true);
            }
            bench.begins(1, "1/worker-2/cordon");
            bench.act(1, Act::Cordon { node: "worker-2".into(), on: true });
            bench.assert_broken(if looks { &[] } else { &[2] });
        }
    }

    #[test]
    fn a_look_that_is_old() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.wait(300);
        bench.begins(1, "1/worker-2/cordon");
        bench.act(1, Act::Cordon { node: "worker-2".into(), on: true });
        bench.assert_broken(&[2]);
    }
}
