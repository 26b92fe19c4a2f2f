//! Rule 14: no key, token or configuration in anything that is told or written.

use std::collections::BTreeSet;

use serde::Serialize;
use upgrade_core::plan::PlanHash;

use super::{Rule, Scene};
use crate::seen::{Seen, What};

#[derive(Default)]
pub(super) struct Secrets {
    /// Plans that were read.
    read: BTreeSet<PlanHash>,
    text: Vec<u8>,
}

impl Secrets {
    fn search(&mut self, place: &str, told: &impl Serialize, scene: &Scene<'_>) -> Option<String> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, told).ok()?;
        let text = std::str::from_utf8(&self.text).unwrap_or_default();
        holds(text, scene).then(|| format!("{place} holds a secret"))
    }
}

fn holds(text: &str, scene: &Scene<'_>) -> bool {
    // What the secret is, is not said here either.
    let mut secrets = scene.wanted.secrets.iter().filter(|secret| !secret.is_empty());
    secrets.any(|secret| text.contains(secret.as_str()))
}

impl Rule for Secrets {
    fn number(&self) -> u8 {
        14
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            What::Told { event, .. } => found.extend(self.search("an event", event, scene)),
            What::Wrote { runner, entry } => {
                found.extend(self.search("a journal entry", entry, scene));
                if self.read.insert(entry.plan.clone())
                    && let Some(driver) = scene.notes.drivers.get(runner)
                {
                    found.extend(self.search("a plan", &*driver.plan, scene));
                }
            }
            What::Ends { end, .. } => {
                if holds(&format!("{end:?}"), scene) {
                    found.push("the end of a run holds a secret".to_owned());
                }
            }
            _ => {}
        }
    }
}
