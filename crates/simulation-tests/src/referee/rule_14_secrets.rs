//! Rule 14: no key, token or configuration in any event, journal entry or output.

use std::collections::BTreeSet;

use serde::Serialize;
use upgrade_core::plan::PlanHash;

use super::{Rule, Scene};
use crate::trace::{TraceEvent, TraceKind};

#[derive(Default)]
pub(super) struct Secrets {
    /// Plans that have been searched.
    read: BTreeSet<PlanHash>,
    text: Vec<u8>,
}

impl Secrets {
    fn search(&mut self, place: &str, value: &impl Serialize, scene: &Scene<'_>) -> Option<String> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, value).ok()?;
        let text = std::str::from_utf8(&self.text).unwrap_or_default();
        holds(text, scene).then(|| format!("{place} holds a secret"))
    }
}

fn holds(text: &str, scene: &Scene<'_>) -> bool {
    // The breach does not contain the secret either.
    let mut secrets = scene.wanted.secrets.iter().filter(|secret| !secret.is_empty());
    secrets.any(|secret| text.contains(secret.as_str()))
}

impl Rule for Secrets {
    fn number(&self) -> u8 {
        14
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::Reported { event, .. } => {
                found.extend(self.search("an event", event, scene));
            }
            TraceKind::Wrote { runner, entry } => {
                found.extend(self.search("a journal entry", entry, scene));
                if self.read.insert(entry.plan.clone())
                    && let Some(driver) = scene.notes.drivers.get(runner)
                {
                    found.extend(self.search("a plan", &*driver.plan, scene));
                }
            }
            TraceKind::Ends { end, .. } if holds(&format!("{end:?}"), scene) => {
                found.push("the end of a run holds a secret".to_owned());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::event::{EventKind, StepProgress};
    use upgrade_core::journal::Record;
    use upgrade_engine::drive::End;

    use super::super::testing::{Bench, SECRET};

    fn says(message: &str) -> EventKind {
        let step = "1/worker-1/drain".parse().unwrap();
        EventKind::StepProgress { step, progress: StepProgress::text(message) }
    }

    #[test]
    fn no_event_contains_a_secret() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.reported(1, says("everything is healthy"));
        bench.wrote(1, Record::Paused { by: "user".to_owned() });
        bench.assert_broken(&[]);
        bench.reported(1, says(&format!("token: {SECRET}")));
        bench.assert_broken(&[14]);
        assert!(!format!("{:?}", bench.referee.breaches()).contains(SECRET));
    }

    #[test]
    fn no_journal_entry_contains_a_secret() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.wrote(1, Record::Paused { by: SECRET.to_owned() });
        bench.assert_broken(&[14]);
    }

    #[test]
    fn no_end_of_a_run_contains_a_secret() {
        let mut bench = Bench::new(1, 1);
        bench.ready(1);
        bench.see(crate::trace::TraceKind::User { command: crate::trace::UserCommand::Pause });
        bench.ended(1, End::Paused { by: SECRET.to_owned() });
        bench.assert_broken(&[14]);
    }
}
