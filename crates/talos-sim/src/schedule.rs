//! When faults start and end: at once, after some virtual time, or when a method of a node is
//! called. Their text form is in `words`.

mod fault_syntax;

pub use fault_syntax::{
    FAULTS, FaultError, fault_text, kind_name, parse_duration, parse_fault, parse_kind,
};

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::model::{Fault, FaultKind, NodeIndex, Time, World};

/// One entry of a fault file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Host name or address; all nodes if omitted.
    #[serde(default)]
    pub node: Option<String>,
    /// Such as `boot-back` or `slow-pull=5`.
    #[serde(deserialize_with = "fault")]
    pub fault: Fault,
    /// Virtual time until it starts.
    #[serde(default, deserialize_with = "duration")]
    pub after: Option<Duration>,
    /// The method that starts it when it is called, such as `Reboot` or `Upgrade`.
    #[serde(default)]
    pub on: Option<String>,
    /// How long it lasts; until it is cleared if omitted.
    #[serde(default, rename = "for", deserialize_with = "duration")]
    pub lasting: Option<Duration>,
}

fn fault<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fault, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_fault(&text).map_err(serde::de::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Parses a fault file: a YAML list of [`Planned`].
pub fn parse_file(text: &str) -> Result<Vec<Planned>, FaultError> {
    serde_saphyr::from_str(text).map_err(|error| FaultError::File(error.to_string()))
}

/// Pending starts and ends of faults. Part of a cluster's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    when: When,
    node: Option<NodeIndex>,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum When {
    At(Time),
    Called(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum What {
    Begin(Fault, Option<Duration>),
    End(FaultKind),
}

impl Schedule {
    /// Plans a fault; times count from `now`.
    pub fn add(&mut self, world: &World, now: Time, planned: &Planned) -> Result<(), FaultError> {
        let Planned { node, fault, after, on, lasting } = planned;
        let node = match node {
            None => None,
            Some(name) => Some(world.find(name).ok_or_else(|| FaultError::Node(name.clone()))?),
        };
        let when = match on {
            Some(method) => When::Called(method.clone()),
            None => When::At(now.plus(after.unwrap_or_default())),
        };
        let what = What::Begin(fault.clone(), *lasting);
        self.entries.push(Entry { when, node, what });
        Ok(())
    }

    /// When the next fault starts or ends.
    pub fn next(&self) -> Option<Time> {
        self.entries
            .iter()
            .filter_map(|entry| match entry.when {
                When::At(time) => Some(time),
                When::Called(_) => None,
            })
            .min()
    }

    /// Starts and ends the faults that are due.
    pub fn advance(&mut self, world: &mut World, now: Time) {
        while let Some(at) = self
            .entries
            .iter()
            .position(|entry| matches!(entry.when, When::At(time) if time <= now))
        {
            let entry = self.entries.remove(at);
            self.act(world, now, entry.node, entry.what);
        }
    }

    /// A method of a node is called: starts the faults that wait for it.
    pub fn called(&mut self, world: &mut World, now: Time, node: NodeIndex, method: &str) {
        while let Some(at) = self.entries.iter().position(|entry| {
            matches!(&entry.when, When::Called(name) if name == method)
                && entry.node.is_none_or(|only| only == node)
        }) {
            let entry = self.entries.remove(at);
            self.act(world, now, Some(node), entry.what);
        }
    }

    /// Drops the planned start and end of a fault.
    pub fn forget(&mut self, node: Option<NodeIndex>, kind: FaultKind) {
        self.entries.retain(|entry| {
            let same = match &entry.what {
                What::Begin(fault, _) => fault.kind() == kind,
                What::End(ended) => *ended == kind,
            };
            !same || node.is_some_and(|only| entry.node != Some(only))
        });
    }

    fn act(&mut self, world: &mut World, now: Time, node: Option<NodeIndex>, what: What) {
        match what {
            What::Begin(fault, lasting) => {
                world.inject(now, node, &fault);
                if let Some(lasting) = lasting {
                    self.entries.push(Entry {
                        when: When::At(now.plus(lasting)),
                        node,
                        what: What::End(fault.kind()),
                    });
                }
            }
            What::End(kind) => world.clear(now, node, kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::version::Version;

    use super::*;
    use crate::model::ClusterSpec;

    fn world() -> World {
        let spec = ClusterSpec::new(1, 2, &Version::new(1, 12, 6), &Version::new(1, 34, 2));
        World::new(&spec, 0, Time::from_secs(1000))
    }

    #[test]
    fn a_file_plans_by_time_and_by_call() {
        let text = "\
- {node: cp-1, fault: boot-back, on: Upgrade}
- {fault: slow-pull=5, after: 1m, for: 30s}
";
        let mut world = world();
        let mut schedule = Schedule::default();
        let start = Time::from_secs(1000);
        for planned in parse_file(text).unwrap() {
            schedule.add(&world, start, &planned).unwrap();
        }
        assert_eq!(schedule.next(), Some(Time::from_secs(1060)));
        schedule.advance(&mut world, Time::from_secs(1059));
        assert!(world.faults().is_empty());
        schedule.advance(&mut world, Time::from_secs(1060));
        assert_eq!(world.faults().len(), 3);
        assert_eq!(schedule.next(), Some(Time::from_secs(1090)));
        schedule.advance(&mut world, Time::from_secs(1090));
        assert!(world.faults().is_empty());
        schedule.called(&mut world, Time::from_secs(1100), NodeIndex(1), "Upgrade");
        assert!(world.faults().is_empty(), "another node");
        schedule.called(&mut world, Time::from_secs(1100), NodeIndex(0), "Upgrade");
        assert_eq!(world.faults().len(), 1);
    }

    #[test]
    fn an_invalid_file_is_refused() {
        for text in
            ["node: cp-1", "- {node: cp-1}", "- {fault: boot-back, wenn: 3}", "- {fault: fly}"]
        {
            assert!(matches!(parse_file(text), Err(FaultError::File(_))), "{text}");
        }
        let planned = &parse_file("- {node: nobody, fault: boot-back}").unwrap()[0];
        let error = Schedule::default().add(&world(), Time::default(), planned).unwrap_err();
        assert_eq!(error, FaultError::Node("nobody".to_owned()));
    }
}
