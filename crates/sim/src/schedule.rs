//! Faults as people write them, and when they begin and end.
//!
//! A fault is its name, with a number where it has one: `boot-back`,
//! `slow-pull=5`, `etcd-alarm=corrupt`, `clock-skew=-10m`. It begins at once,
//! some (virtual) time after the start, or when a node is asked for something.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::model::{Fault, FaultKind, NodeIndex, Time, World};

/// A fault that is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such name.
    #[error("`{0}` is no fault; there are: {names}", names = names())]
    Unknown(String),
    /// The number after it makes no sense.
    #[error("`{fault}={value}`: {wanted}")]
    Value {
        /// The fault.
        fault: &'static str,
        /// What was given.
        value: String,
        /// What can be.
        wanted: &'static str,
    },
    /// Not a duration.
    #[error("`{0}` is not a duration; write it like 90s, 2m or 1h")]
    Duration(String),
    /// No such node.
    #[error("there is no node `{0}`")]
    Node(String),
    /// The file cannot be read as a list of faults.
    #[error("not a list of faults: {0}")]
    File(String),
}

/// Every fault with its name and what it means.
pub const FAULTS: &[(FaultKind, &str, &str)] = &[
    (FaultKind::SlowPull, "slow-pull", "pulls take 10 times as long; slow-pull=N: N times"),
    (FaultKind::FailingPull, "failing-pull", "pulls fail"),
    (
        FaultKind::InstallerExit,
        "installer-exit",
        "the installer exits with 7; installer-exit=N: with N",
    ),
    (FaultKind::NeverReturns, "never-returns", "the next time it goes down, it stays down"),
    (FaultKind::BootBack, "boot-back", "the next boot of a new version falls back to the old one"),
    (FaultKind::LostReboot, "lost-reboot", "reboot requests are accepted, and nothing happens"),
    (FaultKind::NotReady, "not-ready", "the Kubernetes node is not ready"),
    (FaultKind::EtcdLearner, "etcd-learner", "the etcd member is a learner"),
    (
        FaultKind::EtcdAlarm,
        "etcd-alarm",
        "the etcd member raises NOSPACE; etcd-alarm=corrupt: CORRUPT",
    ),
    (
        FaultKind::EtcdLag,
        "etcd-lag",
        "the etcd member is 10000 entries behind; etcd-lag=N: N entries",
    ),
    (
        FaultKind::ApidDrops,
        "apid-drops",
        "apid drops every 2nd connection; apid-drops=N: every N-th",
    ),
    (FaultKind::Partition, "partition", "it runs, but nobody can reach it"),
    (
        FaultKind::ClockSkew,
        "clock-skew",
        "its clock is 10 minutes ahead; clock-skew=-2m: 2 minutes behind",
    ),
];

fn names() -> String {
    let names: Vec<&str> = FAULTS.iter().map(|(_, name, _)| *name).collect();
    names.join(", ")
}

/// The name of a fault.
pub fn kind_name(kind: FaultKind) -> &'static str {
    FAULTS.iter().find(|(known, ..)| *known == kind).map_or("", |(_, name, _)| name)
}

/// The fault of this name, whatever number follows it.
pub fn parse_kind(text: &str) -> Result<FaultKind, FaultError> {
    let name = text.split('=').next().unwrap_or(text);
    FAULTS
        .iter()
        .find(|(_, known, _)| *known == name)
        .map(|(kind, ..)| *kind)
        .ok_or_else(|| FaultError::Unknown(name.to_owned()))
}

/// Reads a fault.
pub fn parse_fault(text: &str) -> Result<Fault, FaultError> {
    let kind = parse_kind(text)?;
    let value = text.split_once('=').map(|(_, value)| value);
    let wrong = |value: &str, wanted| FaultError::Value {
        fault: kind_name(kind),
        value: value.to_owned(),
        wanted,
    };
    let number = |default: u64| match value {
        None => Ok(default),
        Some(value) => value.parse().map_err(|_| wrong(value, "a number should stand there")),
    };
    let small = |default: u64| {
        number(default)?
            .try_into()
            .map_err(|_| wrong(value.unwrap_or_default(), "that number is too large"))
    };
    Ok(match kind {
        FaultKind::SlowPull => Fault::SlowPull { factor: small(10)? },
        FaultKind::InstallerExit => Fault::InstallerExit {
            code: i32::try_from(number(7)?)
                .ok()
                .filter(|code| (1..256).contains(code))
                .ok_or_else(|| wrong(value.unwrap_or_default(), "exit codes are 1 to 255"))?,
        },
        FaultKind::EtcdAlarm => Fault::EtcdAlarm {
            corrupt: match value {
                None | Some("nospace") => false,
                Some("corrupt") => true,
                Some(other) => return Err(wrong(other, "alarms are nospace and corrupt")),
            },
        },
        FaultKind::EtcdLag => Fault::EtcdLag { entries: number(10_000)? },
        FaultKind::ApidDrops => Fault::ApidDrops { every: small(2)? },
        FaultKind::ClockSkew => {
            let text = value.unwrap_or("10m");
            let behind = text.strip_prefix('-');
            Fault::ClockSkew {
                by: parse_duration(behind.unwrap_or_else(|| text.trim_start_matches('+')))?,
                ahead: behind.is_none(),
            }
        }
        plain => {
            if let Some(value) = value {
                return Err(wrong(value, "this fault takes no value"));
            }
            match plain {
                FaultKind::FailingPull => Fault::FailingPull,
                FaultKind::NeverReturns => Fault::NeverReturns,
                FaultKind::BootBack => Fault::BootBack,
                FaultKind::LostReboot => Fault::LostReboot,
                FaultKind::NotReady => Fault::NotReady,
                FaultKind::EtcdLearner => Fault::EtcdLearner,
                _ => Fault::Partition,
            }
        }
    })
}

/// Writes a fault as [`parse_fault`] reads it.
pub fn fault_text(fault: &Fault) -> String {
    let name = kind_name(fault.kind());
    match fault {
        Fault::SlowPull { factor } => format!("{name}={factor}"),
        Fault::InstallerExit { code } => format!("{name}={code}"),
        Fault::EtcdAlarm { corrupt: true } => format!("{name}=corrupt"),
        Fault::EtcdLag { entries } => format!("{name}={entries}"),
        Fault::ApidDrops { every } => format!("{name}={every}"),
        Fault::ClockSkew { by, ahead } => {
            let sign = if *ahead { "" } else { "-" };
            format!("{name}={sign}{}s", by.as_secs())
        }
        _ => name.to_owned(),
    }
}

/// Reads `90s`, `2m`, `1h30m`, `500ms`.
pub fn parse_duration(text: &str) -> Result<Duration, FaultError> {
    let wrong = || FaultError::Duration(text.to_owned());
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = match &rest[digits..digits + letters] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return Err(wrong()),
        };
        let part = u32::try_from(number)
            .ok()
            .and_then(|number| unit.checked_mul(number))
            .ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &rest[digits + letters..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// One entry of a file of faults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Host name or address; all nodes if it is left out.
    #[serde(default)]
    pub node: Option<String>,
    /// Such as `boot-back` or `slow-pull=5`.
    #[serde(deserialize_with = "fault")]
    pub fault: Fault,
    /// Virtual time from the start until it begins.
    #[serde(default, deserialize_with = "duration")]
    pub after: Option<Duration>,
    /// The method of the node that brings it about when it is called, such as
    /// `Reboot` or `Upgrade`.
    #[serde(default)]
    pub on: Option<String>,
    /// How long it lasts; until it is cleared if left out.
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

/// Reads a file of faults: a YAML list of [`Planned`].
pub fn parse_file(text: &str) -> Result<Vec<Planned>, FaultError> {
    serde_saphyr::from_str(text).map_err(|error| FaultError::File(error.to_string()))
}

/// What begins or ends, and when. Part of a cluster's state.
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
    /// Plans a fault, counting from `now`.
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

    /// When something begins or ends next.
    pub fn next(&self) -> Option<Time> {
        self.entries
            .iter()
            .filter_map(|entry| match entry.when {
                When::At(time) => Some(time),
                When::Called(_) => None,
            })
            .min()
    }

    /// Begins and ends what is due.
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

    /// A node is asked for something: begins what waited for that.
    pub fn called(&mut self, world: &mut World, now: Time, node: NodeIndex, method: &str) {
        while let Some(at) = self.entries.iter().position(|entry| {
            matches!(&entry.when, When::Called(name) if name == method)
                && entry.node.is_none_or(|only| only == node)
        }) {
            let entry = self.entries.remove(at);
            self.act(world, now, Some(node), entry.what);
        }
    }

    /// Forgets when a fault would have ended or begun.
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
    fn faults_are_read_as_they_are_written() {
        for (kind, name, _) in FAULTS {
            let fault = parse_fault(name).unwrap();
            assert_eq!(fault.kind(), *kind);
            assert_eq!(parse_fault(&fault_text(&fault)).unwrap(), fault);
        }
        assert_eq!(
            parse_fault("clock-skew=-90s").unwrap(),
            Fault::ClockSkew { by: Duration::from_secs(90), ahead: false }
        );
        for wrong in [
            "fly",
            "boot-back=1",
            "slow-pull=x",
            "slow-pull=99999999999",
            "installer-exit=0",
            "etcd-alarm=loud",
            "clock-skew=soon",
            "",
        ] {
            assert!(parse_fault(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("1h30m").unwrap(), Duration::from_mins(90));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        for wrong in ["", "5", "m", "5d", "1h 5m", "99999999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
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
    fn a_file_that_is_none_says_so() {
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
