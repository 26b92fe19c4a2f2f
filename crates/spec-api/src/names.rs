//! The names of the objects around a cluster.
//!
//! They are those that users and their tools know, and that a restarted operator finds again.
//! `owner` is [`TalosControlPlane::owner_name`](crate::TalosControlPlane::owner_name). A name
//! that Kubernetes would refuse, because it is too long or has an address or a version with
//! odd characters in it, is replaced by one with a hash of the whole.

use std::net::IpAddr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

/// The longest name of an object.
const LONGEST: usize = 253;
/// The longest name of a Job: it is the value of a label on its pods.
const LONGEST_JOB: usize = 63;
/// How many hexadecimal digits of a hash tell names apart: 32 bits are enough for names that
/// begin alike in one namespace.
const HASH_DIGITS: usize = 8;

/// The Secret with the kubeconfig of an administrator.
pub fn kubeconfig_secret(owner: &str) -> String {
    format!("{owner}-kubeconfig")
}

/// The Secret with the talosconfig of an administrator.
pub fn talosconfig_secret(owner: &str) -> String {
    format!("{owner}-talosconfig")
}

/// The Secret with the secrets of the cluster, by the name of the control plane itself. It
/// has no owner and outlives every object.
pub fn state_secret(control_plane: &str) -> String {
    format!("{control_plane}-state")
}

/// The `ConfigMap` in which another operator left the machine configuration of a control plane
/// or of a pool of workers.
pub fn config_map(parent: &str) -> String {
    format!("{parent}-config")
}

/// The key in [`config_map`] of a control plane.
pub const CONTROL_PLANE_CONFIG: &str = "controlplane.yaml";
/// The key in [`config_map`] of a pool of workers.
pub const WORKER_CONFIG: &str = "worker.yaml";

/// The Job that upgrades Kubernetes to a version.
pub fn upgrade_job(owner: &str, kube_version: &str) -> String {
    fit(&format!("{owner}-upgrade-{kube_version}"), LONGEST_JOB)
}

/// The account of that Job, its Role and its `RoleBinding`.
pub fn upgrade_account(control_plane: &str) -> String {
    fit(&format!("{control_plane}-upgrade"), LONGEST)
}

/// The `TalosMachine` of a machine with an address. The groups of an IPv6 address are all
/// written out, so that one address has one name however it is spelled.
pub fn machine(parent: &str, address: &str) -> String {
    let address = match address.parse() {
        Ok(IpAddr::V6(address)) => address.segments().map(|group| format!("{group:x}")).join("-"),
        Ok(IpAddr::V4(_)) | Err(_) => address.to_owned(),
    };
    fit(&format!("{parent}-{address}"), LONGEST)
}

/// The `TalosEtcdBackup` of a schedule for a scheduled time. Two replicas, or one that was
/// killed after it created the object, make one backup.
pub fn scheduled_backup(schedule: &str, scheduled: Timestamp) -> String {
    fit(&format!("{schedule}-{}", scheduled.as_second()), LONGEST)
}

/// The key of a snapshot in its bucket.
pub fn snapshot_key(control_plane: &str, at: Timestamp) -> String {
    format!("{BACKUPS}/{control_plane}/etcd-snapshot-{}.db", stamp(at))
}

/// The key of the cluster's secrets beside the snapshot of the same time.
pub fn state_key(control_plane: &str, at: Timestamp) -> String {
    format!("{BACKUPS}/{control_plane}/state-{}.yaml", stamp(at))
}

/// What all keys begin with.
const BACKUPS: &str = "talos-operator-etcd-backups";

/// A time in a key: UTC, without the colons that some tools do not allow in file names.
fn stamp(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H-%M-%SZ").to_string()
}

/// The name itself if Kubernetes accepts it, else its beginning and a hash of the whole.
fn fit(name: &str, longest: usize) -> String {
    if name.len() <= longest && is_name(name) {
        return name.to_owned();
    }
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(longest - HASH_DIGITS - 1)
        .collect();
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let hash = u32::from_be_bytes([a, b, c, d]);
    format!("{}-{hash:0HASH_DIGITS$x}", plain.trim_matches('-'))
}

/// Whether it is a DNS subdomain, apart from its length.
fn is_name(name: &str) -> bool {
    name.split('.').all(|label| {
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty()
            && label.chars().all(known)
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_users_know() {
        for (name, expected) in [
            (kubeconfig_secret("prod"), "prod-kubeconfig"),
            (talosconfig_secret("prod"), "prod-talosconfig"),
            (state_secret("prod"), "prod-state"),
            (config_map("prod"), "prod-config"),
            (upgrade_account("prod"), "prod-upgrade"),
            (upgrade_job("prod", "v1.35.0"), "prod-upgrade-v1.35.0"),
            (upgrade_job("prod.eu", "v1.36.0-rc.1"), "prod.eu-upgrade-v1.36.0-rc.1"),
            (machine("prod", "10.0.0.1"), "prod-10.0.0.1"),
            (machine("prod", "fd00::A"), "prod-fd00-0-0-0-0-0-0-a"),
            (machine("prod", "fd00:0::000a"), "prod-fd00-0-0-0-0-0-0-a"),
            (machine("prod", "::"), "prod-0-0-0-0-0-0-0-0"),
        ] {
            assert_eq!(name, expected);
        }
    }

    #[test]
    fn names_that_kubernetes_would_refuse_end_with_a_hash() {
        // 63 characters are a Job's own name still, 64 are not.
        let longest = "a".repeat(63 - "-upgrade-v1.35.0".len());
        assert_eq!(upgrade_job(&longest, "v1.35.0"), format!("{longest}-upgrade-v1.35.0"));
        let longer = format!("{longest}a");
        let job = upgrade_job(&longer, "v1.35.0");
        assert!(job.starts_with(&longest) && job.len() == 63, "{job}");
        assert_ne!(job, upgrade_job(&longer, "v1.35.1"), "the version is cut off");
        assert_eq!(job, upgrade_job(&longer, "v1.35.0"), "and found again");
        let endless = "b-.".repeat(200);
        for (name, longest) in [
            (upgrade_job(&endless, "v1.35.0"), 63),
            (upgrade_job("prod", "v1.35.0-RC1"), 63),
            (upgrade_job("prod", "v1.35.0-rc-"), 63),
            (machine(&endless, "10.0.0.1"), 253),
            (machine("prod", "fe80::1%eth0"), 253),
            (machine("prod", ""), 253),
        ] {
            assert!(is_name(&name) && name.len() <= longest, "{name}");
        }
        assert_ne!(upgrade_job("prod", "v1.35.0-RC1"), upgrade_job("prod", "v1.35.0-rc1"));
    }

    #[test]
    fn backups_are_named_after_their_time() {
        let at: Timestamp = "2026-01-02T03:04:05.9+02:00".parse().expect("a time");
        assert_eq!(scheduled_backup("nightly", at), "nightly-1767315845");
        assert_eq!(
            snapshot_key("prod", at),
            "talos-operator-etcd-backups/prod/etcd-snapshot-2026-01-02T01-04-05Z.db"
        );
        assert_eq!(
            state_key("prod", at),
            "talos-operator-etcd-backups/prod/state-2026-01-02T01-04-05Z.yaml"
        );
    }
}
