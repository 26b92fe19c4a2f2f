//! The tier's requirements for the machine, and its cleanup there.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The required capabilities, by bit number in the kernel's mask.
const CAPABILITIES: [(u32, &str, &str); 5] = [
    (12, "CAP_NET_ADMIN", "networks of the nodes"),
    (18, "CAP_SYS_CHROOT", "containers of the nodes"),
    (21, "CAP_SYS_ADMIN", "namespaces and mounts"),
    (27, "CAP_MKNOD", "devices of the nodes"),
    (7, "CAP_SETUID", "containers of the nodes"),
];

/// Programs that must be on the PATH, and their packages.
const PROGRAMS: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("cp", "coreutils"),
    ("apt-get", "apt; the tier takes runc, nftables and network plugins from Debian"),
    ("dpkg-deb", "dpkg"),
];

/// Settings of the whole machine that a kubelet, or Talos 1.14 itself, changes.
const SETTINGS: [&str; 8] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "fs/aio-max-nr",
    "fs/inotify/max_user_instances",
];

/// Reports all missing requirements at once.
pub(super) fn check() -> Result<()> {
    if std::env::consts::OS != "linux" {
        bail!("real Talos nodes need Linux namespaces; this is {}", std::env::consts::OS);
    }
    let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let mut missing = lacking(&status);
    for (program, package) in PROGRAMS {
        if !on_path(program) {
            missing.push(format!("no `{program}` on the PATH ({package})"));
        }
    }
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.split_whitespace().any(|name| name == "overlay") {
        missing.push("the kernel has no overlayfs (try `modprobe overlay`)".to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!("real Talos nodes cannot run here:\n- {}", missing.join("\n- "))
}

fn lacking(status: &str) -> Vec<String> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let user = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)).unwrap_or("unknown");
    if user != "0" {
        return vec![format!("it needs root, and this is user {user}: run it with sudo")];
    }
    let mask = field("CapEff:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.unwrap_or_default();
    let lacking = CAPABILITIES.iter().filter(|(bit, ..)| mask & (1 << bit) == 0);
    lacking.map(|(_, name, why)| format!("the capability {name} is missing ({why})")).collect()
}

fn on_path(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

/// The machine's current settings.
pub(super) fn read_settings() -> BTreeMap<String, String> {
    SETTINGS
        .iter()
        .filter_map(|name| {
            let value = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
            Some(((*name).to_owned(), value.trim().to_owned()))
        })
        .collect()
}

/// Settings that change by themselves.
const COUNTERS: [&str; 11] = [
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "fs/negative-dentry",
    "fs/quota",
    "kernel/ns_last_pid",
    "kernel/pty/nr",
    "kernel/random",
    "kernel/tainted",
];

/// Every setting of the machine except those of networks, which each node has for itself.
pub(super) fn all_settings() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in ["fs", "kernel", "vm", "user"] {
        collect(Path::new("/proc/sys"), Path::new(part), &mut found);
    }
    found
}

fn collect(root: &Path, place: &Path, found: &mut BTreeMap<String, String>) {
    if COUNTERS.iter().any(|name| place == Path::new(name)) {
        return;
    }
    let path = root.join(place);
    if path.is_dir() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            collect(root, &place.join(entry.file_name()), found);
        }
    } else if let Ok(value) = fs::read_to_string(&path) {
        found.insert(place.display().to_string(), value.trim().to_owned());
    }
}

/// Restores settings that differ from the saved ones.
pub(super) fn restore_settings(saved: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in saved {
        let path = Path::new("/proc/sys").join(name);
        let now = fs::read_to_string(&path).with_context(|| format!("reading {name}"))?;
        if now.trim() != value {
            fs::write(&path, value).with_context(|| format!("restoring {name} to {value}"))?;
        }
    }
    Ok(())
}

/// The control groups of this name, in all hierarchies.
pub(super) fn control_groups(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    search(Path::new("/sys/fs/cgroup"), name, &mut found);
    found
}

fn search(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name() == name {
            found.push(entry.path());
        } else {
            search(&entry.path(), name, found);
        }
    }
}

/// Removes the control groups of this name. Their last processes may still be ending.
pub(super) fn remove_control_groups(name: &str, limit: Duration) -> Result<()> {
    const PAUSE: Duration = Duration::from_millis(200);
    let mut waited = Duration::ZERO;
    loop {
        let failed: Vec<_> =
            control_groups(name).iter().filter_map(|group| remove_tree(group).err()).collect();
        match failed.into_iter().next() {
            None => return Ok(()),
            Some(error) if waited >= limit => {
                return Err(error).with_context(|| format!("after {limit:?}"));
            }
            Some(_) => thread::sleep(PAUSE),
        }
        waited += PAUSE;
    }
}

fn remove_tree(group: &Path) -> Result<()> {
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing the control group {}", group.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_requirements_are_named() {
        let status = "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001fffeffffff\n";
        assert_eq!(lacking(status), Vec::<String>::new());
        let [only] = &lacking("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0\n")[..] else { panic!() };
        assert!(only.contains("needs root"), "{only}");
        let without = lacking("Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n");
        assert!(without.iter().any(|line| line.contains("CAP_SYS_ADMIN")), "{without:?}");
    }
}
