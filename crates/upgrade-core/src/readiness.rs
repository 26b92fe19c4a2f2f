//! Readiness: the conditions that a machine does not meet, and which of them are new.
//!
//! Machines that serve well may be "not ready" for good: no default route in an air
//! gap, no time server, an extension's service that is unhealthy. A node is back when
//! it is as ready as it was before, not when nothing is unmet.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::guard;
use crate::mutant::Mutant;
use crate::snapshot::TalosFacts;

/// A condition of Talos's machine status that is not met.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnmetCondition {
    /// Its name: `time`, `network`, `services`, `staticPods` or `nodeReady`.
    pub name: String,
    /// Why, in Talos's words.
    pub reason: String,
}

impl Display for UnmetCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "" => f.write_str(&self.name),
            reason => write!(f, "{} ({reason})", self.name),
        }
    }
}

/// The conditions whose reason lists what is not well, one after the other.
const LISTS: [&str; 3] = ["network", "services", "staticPods"];

/// What Talos writes before the list of `network`.
const WAITING_ON: &str = "waiting on: ";

impl UnmetCondition {
    /// What is not well; nothing where the condition as a whole is unmet.
    fn items(&self) -> impl Iterator<Item = &str> {
        let listed = LISTS.contains(&self.name.as_str()).then_some(self.reason.as_str());
        let listed = listed.map(|reason| reason.strip_prefix(WAITING_ON).unwrap_or(reason));
        listed.into_iter().flat_map(|list| list.split(", ")).filter(|item| !item.is_empty())
    }

    /// What of it was not unmet before, if anything.
    fn since(&self, before: &[Self]) -> Option<Self> {
        let Some(before) = before.iter().find(|it| it.name == self.name) else {
            return Some(self.clone());
        };
        let new: Vec<&str> =
            self.items().filter(|item| !before.items().any(|known| known == *item)).collect();
        (!new.is_empty()).then(|| Self { name: self.name.clone(), reason: new.join(", ") })
    }
}

/// All of them in one line.
pub fn listed(unmet: &[UnmetCondition]) -> String {
    unmet.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl TalosFacts {
    /// Why the machine is less ready than it was, naming what is new; `None` if it is as
    /// ready as before (rule 10: a machine that does not say why it is not ready is not).
    pub fn less_ready_than(&self, before: &[UnmetCondition]) -> Option<String> {
        if !guard!(Mutant::LessReady, !self.ready) {
            return None;
        }
        if self.unmet.is_empty() {
            return Some("not ready, and it names no unmet condition".to_owned());
        }
        let new: Vec<UnmetCondition> =
            self.unmet.iter().filter_map(|unmet| unmet.since(before)).collect();
        (!new.is_empty()).then(|| {
            let known = if before.is_empty() {
                String::new()
            } else {
                format!("; unmet before as well: {}", listed(before))
            };
            format!("not ready: {}{known}", listed(&new))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmet(name: &str, reason: &str) -> UnmetCondition {
        UnmetCondition { name: name.to_owned(), reason: reason.to_owned() }
    }

    fn facts(ready: bool, unmet: &[UnmetCondition]) -> TalosFacts {
        TalosFacts {
            version: crate::version::Version::new(1, 13, 9),
            boot_id: "1".to_owned(),
            stage: crate::snapshot::Stage::Running,
            ready,
            static_pods: vec![],
            schematic: None,
            extensions: vec![],
            installer: None,
            platform: "metal".to_owned(),
            secure_boot: false,
            unmet: unmet.to_vec(),
            uki: true,
            container: false,
            factory: None,
        }
    }

    #[test]
    fn a_machine_is_back_when_it_is_as_ready_as_before() {
        let air_gap = unmet("network", "waiting on: connectivity");
        let extension = unmet("services", "ext-tailscale not healthy");
        for before in [vec![air_gap.clone()], vec![extension.clone(), air_gap.clone()]] {
            assert_eq!(facts(false, std::slice::from_ref(&air_gap)).less_ready_than(&before), None);
            assert_eq!(facts(true, &[]).less_ready_than(&before), None);
        }
        // The words of a condition that lists nothing may change with the version.
        let before = [unmet("time", "time is not synced")];
        assert_eq!(facts(false, &[unmet("time", "no server")]).less_ready_than(&before), None);
    }

    #[test]
    fn what_is_new_is_named() {
        // Rule 10.
        let before = [unmet("services", "ext-tailscale not healthy")];
        let now = [unmet("services", "ext-tailscale not healthy, kubelet not running")];
        let why = facts(false, &now).less_ready_than(&before).unwrap();
        assert_eq!(
            why,
            "not ready: services (kubelet not running); unmet before as well: services \
             (ext-tailscale not healthy)"
        );
        let now = [unmet("network", "waiting on: address, connectivity")];
        let before = [unmet("network", "waiting on: connectivity")];
        let why = facts(false, &now).less_ready_than(&before).unwrap();
        assert!(why.starts_with("not ready: network (address);"), "{why}");
        let why = facts(false, &now).less_ready_than(&[]).unwrap();
        assert_eq!(why, "not ready: network (waiting on: address, connectivity)");
    }

    #[test]
    fn not_ready_without_a_reason_is_not_ready() {
        // Rule 10.
        assert!(facts(false, &[]).less_ready_than(&[unmet("time", "")]).is_some());
    }
}
