//! Rule 9: only the process that holds the run acts. The last process that wrote to the journal
//! holds it; one that lost the run neither writes nor acts.

use upgrade_core::jiff::SignedDuration;

use super::{Rule, Scene};
use crate::trace::{Act, TraceEvent, TraceKind};

/// A message sent before its sender lost the run may still arrive: at most ten seconds later, and
/// the run is taken over five seconds after it was lost.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_secs(6);

pub(super) struct OneDriver;

impl Rule for OneDriver {
    fn number(&self) -> u8 {
        9
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        let holder = scene.notes.holder;
        match &seen.what {
            TraceKind::Wrote { runner, .. } => {
                if let Some((holder, _)) = holder.filter(|(holder, _)| holder > runner) {
                    found.push(format!("process {runner} writes, but {holder} holds the run"));
                }
            }
            // Pulls and snapshots disrupt nothing.
            TraceKind::Act { act: Act::Pull { .. } | Act::Snapshot, .. } => {}
            TraceKind::Act { runner, act, .. } => match holder {
                Some((holder, since)) if holder != *runner => {
                    if seen.at.duration_since(since) > ON_ITS_WAY {
                        found.push(format!(
                            "{act:?} by process {runner}, but {holder} holds the run"
                        ));
                    }
                }
                Some(_) => {}
                None => found.push(format!("{act:?} by process {runner}, which holds no run")),
            },
            // A process may lose its run, but it must not write an invalid entry.
            TraceKind::Ends { runner, end: Err(why) } if why.contains("does not fit") => {
                found.push(format!("process {runner} failed: {why}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use crate::trace::Act;

    #[test]
    fn a_process_that_lost_the_run_does_not_act() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.observe(1);
        bench.begins(1, "1/worker-1/uncordon");
        bench.starts(2);
        let act = Act::Cordon { node: "worker-1".into(), on: false };
        // In transit when the run was taken over.
        bench.wait(2);
        bench.act(1, act.clone());
        bench.assert_broken(&[]);
        bench.wait(20);
        bench.act(1, act);
        bench.assert_broken(&[9]);
    }

    #[test]
    fn a_process_that_lost_the_run_does_not_write() {
        let mut bench = Bench::new(1, 2);
        bench.starts(1);
        bench.starts(2);
        bench.assert_broken(&[]);
        bench.begins(1, "1/worker-1/verify");
        bench.assert_broken(&[9]);
    }
}
