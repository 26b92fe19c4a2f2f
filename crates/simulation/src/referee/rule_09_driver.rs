//! Rule 9: only the process that holds the run acts. Whoever writes to the
//! journal last holds it; one that lost it writes and does nothing more.

use upgrade_core::jiff::SignedDuration;

use super::{Rule, Scene};
use crate::seen::{Act, Runner, Seen, What};

/// A message that was sent before its sender lost the run may still arrive.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_secs(12);

pub(super) struct OneDriver;

impl Rule for OneDriver {
    fn number(&self) -> u8 {
        9
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        let holder = scene.notes.holder;
        match &seen.what {
            What::Wrote { runner, .. } => {
                if let Some((holder, _)) = holder.filter(|(holder, _)| holder > runner) {
                    found.push(format!("process {runner} writes, and {holder} holds the run"));
                }
            }
            // What changes nothing that anybody would miss does no harm.
            What::Act { act: Act::Pull { .. } | Act::Snapshot { .. }, .. } => {}
            What::Act { runner, act, .. } => match holder {
                Some((holder, since)) if holder != *runner => {
                    if seen.at.duration_since(since) > ON_ITS_WAY {
                        found.push(format!(
                            "{act:?} by process {runner}, and {holder} holds the run"
                        ));
                    }
                }
                Some(_) => {}
                None => found.push(format!("{act:?} by process {runner}, which holds no run")),
            },
            What::Ends { runner, end: Err(why) } => {
                let later = |(other, driver): (&Runner, &super::notes::Driver)| {
                    other > runner && driver.lives
                };
                let taken = holder.is_some_and(|(holder, _)| holder > *runner);
                if !taken && !scene.notes.drivers.iter().any(later) {
                    found.push(format!("process {runner} gave its run up to nobody: {why}"));
                }
            }
            _ => {}
        }
    }
}
