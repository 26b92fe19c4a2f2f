//! The text form of faults: a name, with a value where it has one, such as `boot-back`,
//! `slow-pull=5`, `etcd-alarm=corrupt` or `clock-skew=-10m`.

use std::time::Duration;

use crate::model::{Condition, Fault, FaultKind};

/// Text that is not a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such name.
    #[error("`{0}` is not a fault; known faults: {names}", names = names())]
    Unknown(String),
    /// The value is invalid.
    #[error("`{fault}={value}`: {wanted}")]
    Value {
        /// The fault.
        fault: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
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

/// Every fault with its name and its description.
pub const FAULTS: &[(FaultKind, &str, &str)] = &[
    (FaultKind::SlowPull, "slow-pull", "pulls take 10 times as long; slow-pull=N: N times"),
    (FaultKind::FailingPull, "failing-pull", "pulls fail"),
    (
        FaultKind::InstallerExit,
        "installer-exit",
        "the installer exits with code 7; installer-exit=N: with code N",
    ),
    (
        FaultKind::InstallerExitLate,
        "installer-exit-late",
        "the installer switches the default to its version, then exits with code 7; \
         installer-exit-late=N: with code N",
    ),
    (FaultKind::NeverReturns, "never-returns", "the next time it goes down, it stays down"),
    (FaultKind::BootBack, "boot-back", "the next boot of a new version falls back to the old one"),
    (FaultKind::LostReboot, "lost-reboot", "reboot requests are accepted, and nothing happens"),
    (FaultKind::NotReady, "not-ready", "the Kubernetes node is not ready"),
    (
        FaultKind::UnmetCondition,
        "unmet-condition",
        "the machine is not ready because it has no default route, but works otherwise; \
         unmet-condition=time or =services: for another reason",
    ),
    (
        FaultKind::UnmetAfterBoot,
        "unmet-after-boot",
        "the same from its next boot on; unmet-after-boot=time or =services",
    ),
    (
        FaultKind::KexecOnly,
        "kexec-only",
        "it boots by kexec, but not through its firmware: a power cycle leaves it down",
    ),
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
        "apid drops every 2nd connection; apid-drops=N: every N-th; \
         apid-drops=N:reads: every N-th call that reads",
    ),
    (FaultKind::Partition, "partition", "it runs, but is unreachable"),
    (
        FaultKind::ClockSkew,
        "clock-skew",
        "its clock is 10 minutes ahead; clock-skew=-2m: 2 minutes behind",
    ),
    (
        FaultKind::ApiThrottles,
        "api-throttles",
        "its Kubernetes API answers every 2nd request with 429; api-throttles=N: every N-th",
    ),
    (
        FaultKind::ApiErrors,
        "api-errors",
        "its Kubernetes API fails every 2nd request with 500; api-errors=N: every N-th",
    ),
    (
        FaultKind::ApiLatency,
        "api-latency",
        "its Kubernetes API answers 5 s late; api-latency=30s: 30 s late",
    ),
    (
        FaultKind::StuckBudgets,
        "stuck-budgets",
        "the disruption budgets of its pods allow no eviction",
    ),
    (FaultKind::StuckVolumes, "stuck-volumes", "volumes that are attached to it stay attached"),
    (
        FaultKind::KubeletNeverReturns,
        "kubelet-never-returns",
        "the next time its kubelet stops, it stays down, though the machine runs",
    ),
    (
        FaultKind::FailingImage,
        "failing-image",
        "images of its pods cannot be pulled; failing-image=PREFIX: only those with this prefix",
    ),
    (
        FaultKind::FailingManifest,
        "failing-manifest",
        "extra manifests are not downloaded after its next boot; failing-manifest=now: at once",
    ),
    (FaultKind::Silent, "silent", "it accepts connections and requests, and answers none"),
    (
        FaultKind::DiscoveryCut,
        "discovery-cut",
        "it does not reach the discovery service: the others forget it after 30 minutes, and \
         after a boot it knows only itself; discovery-cut=now: at once",
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
    let (value, reads) = match value.and_then(|value| value.strip_suffix(":reads")) {
        Some(number) if kind == FaultKind::ApidDrops => (Some(number), true),
        _ => (value, false),
    };
    let wrong = |value: &str, wanted| FaultError::Value {
        fault: kind_name(kind),
        value: value.to_owned(),
        wanted,
    };
    let number = |default: u64| match value {
        None => Ok(default),
        Some(value) => value.parse().map_err(|_| wrong(value, "expected a number")),
    };
    let small = |default: u64| {
        number(default)?
            .try_into()
            .map_err(|_| wrong(value.unwrap_or_default(), "that number is too large"))
    };
    let exit_code = |number: u64| {
        i32::try_from(number)
            .ok()
            .filter(|code| (1..256).contains(code))
            .ok_or_else(|| wrong(value.unwrap_or_default(), "exit codes are 1 to 255"))
    };
    let condition = || {
        let name = value.unwrap_or("network");
        let known = Condition::ALL.into_iter().find(|condition| condition.name() == name);
        known.ok_or_else(|| wrong(name, "conditions are network, time and services"))
    };
    let at_once = || match value {
        None => Ok(false),
        Some("now") => Ok(true),
        Some(other) => Err(wrong(other, "expected `now` or no value")),
    };
    Ok(match kind {
        FaultKind::SlowPull => Fault::SlowPull { factor: small(10)? },
        FaultKind::InstallerExit => Fault::InstallerExit { code: exit_code(number(7)?)? },
        FaultKind::InstallerExitLate => Fault::InstallerExitLate { code: exit_code(number(7)?)? },
        FaultKind::EtcdAlarm => Fault::EtcdAlarm {
            corrupt: match value {
                None | Some("nospace") => false,
                Some("corrupt") => true,
                Some(other) => return Err(wrong(other, "alarms are nospace and corrupt")),
            },
        },
        FaultKind::EtcdLag => Fault::EtcdLag { entries: number(10_000)? },
        FaultKind::ApidDrops => Fault::ApidDrops { every: small(2)?, reads },
        FaultKind::ApiThrottles => Fault::ApiThrottles { every: small(2)? },
        FaultKind::ApiErrors => Fault::ApiErrors { every: small(2)? },
        FaultKind::ApiLatency => Fault::ApiLatency { by: parse_duration(value.unwrap_or("5s"))? },
        FaultKind::FailingImage => {
            Fault::FailingImage { prefix: value.unwrap_or_default().to_owned() }
        }
        FaultKind::FailingManifest => Fault::FailingManifest { now: at_once()? },
        FaultKind::DiscoveryCut => Fault::DiscoveryCut { now: at_once()? },
        FaultKind::UnmetCondition => Fault::UnmetCondition { condition: condition()? },
        FaultKind::UnmetAfterBoot => Fault::UnmetAfterBoot { condition: condition()? },
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
                FaultKind::KexecOnly => Fault::KexecOnly,
                FaultKind::EtcdLearner => Fault::EtcdLearner,
                FaultKind::StuckBudgets => Fault::StuckBudgets,
                FaultKind::StuckVolumes => Fault::StuckVolumes,
                FaultKind::KubeletNeverReturns => Fault::KubeletNeverReturns,
                FaultKind::Silent => Fault::Silent,
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
        Fault::InstallerExit { code } | Fault::InstallerExitLate { code } => {
            format!("{name}={code}")
        }
        Fault::EtcdAlarm { corrupt: true } => format!("{name}=corrupt"),
        Fault::EtcdLag { entries } => format!("{name}={entries}"),
        Fault::FailingManifest { now: true } | Fault::DiscoveryCut { now: true } => {
            format!("{name}=now")
        }
        Fault::ApidDrops { every, reads: true } => format!("{name}={every}:reads"),
        Fault::ApidDrops { every, .. }
        | Fault::ApiThrottles { every }
        | Fault::ApiErrors { every } => {
            format!("{name}={every}")
        }
        Fault::UnmetCondition { condition } | Fault::UnmetAfterBoot { condition } => {
            format!("{name}={}", condition.name())
        }
        Fault::ApiLatency { by } => format!("{name}={}ms", by.as_millis()),
        Fault::FailingImage { prefix } if !prefix.is_empty() => format!("{name}={prefix}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_texts_round_trip() {
        for (kind, name, _) in FAULTS {
            let fault = parse_fault(name).unwrap();
            assert_eq!(fault.kind(), *kind);
            assert_eq!(parse_fault(&fault_text(&fault)).unwrap(), fault);
        }
        assert_eq!(
            parse_fault("clock-skew=-90s").unwrap(),
            Fault::ClockSkew { by: Duration::from_secs(90), ahead: false }
        );
        let image = "failing-image=example.com/web:1";
        assert_eq!(fault_text(&parse_fault(image).unwrap()), image);
        for wrong in [
            "fly",
            "boot-back=1",
            "slow-pull=x",
            "slow-pull=99999999999",
            "installer-exit=0",
            "etcd-alarm=loud",
            "clock-skew=soon",
            "api-throttles=often",
            "api-latency=late",
            "stuck-budgets=web",
            "failing-manifest=later",
            "unmet-condition=weather",
            "kexec-only=1",
            "silent=1",
            "discovery-cut=later",
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
}
