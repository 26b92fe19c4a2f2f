//! The phases of each sequence, in the order of each Talos release line, with their tasks and
//! effects.

use super::sequence::Kind;

/// A phase: its name, its tasks and what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) tasks: &'static [&'static str],
    pub(super) effect: Effect,
}

/// The effect of a phase on the machine, at its start unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// Early services come up.
    EarlyServices,
    /// The configuration is loaded, and with it time and network.
    Config,
    /// Everything else starts; the phase ends when it is up.
    StartAll,
    Drain,
    /// etcd, kubelet and their dependencies stop.
    StopEphemeral,
    /// The installer runs; its failure ends the phase.
    Install,
    /// Everything stops, apid included.
    StopAll,
    /// The machine goes down for a reboot.
    GoDown,
    /// The machine powers off.
    GoOff,
}

const fn phase(name: &'static str, tasks: &'static [&'static str], effect: Effect) -> Phase {
    Phase { name, tasks, effect }
}

const DENY: Phase = phase("denyNewServices", &["denyNewServices"], Effect::None);
const CLEANUP: Phase = phase("cleanup", &["stopAllPods"], Effect::None);
const PRE_SHUTDOWN: Phase = phase("preShutdown", &["preShutdownServices"], Effect::None);
const DBUS: Phase = phase("dbus", &["stopDBus"], Effect::None);
const CONTAINERS: Phase = phase("stopContainers", &["teardownContainerLifecycle"], Effect::None);
const STOP: Phase = phase("stopServices", &["stopServicesForUpgrade"], Effect::StopEphemeral);
const BIND: Phase = phase("unmountBind", &["unmountSystemDiskBindMounts"], Effect::None);
const PROMOTABLE: Phase =
    phase("unmountPromotable", &["unmountPromotableSystemPartitions"], Effect::None);
const SYSTEM: Phase = phase("unmountSystem", &["unmountEphemeralPartition"], Effect::None);
const FINALIZE: Phase = phase("volumeFinalize", &["teardownLifecycle"], Effect::None);
const KEXEC: Phase = phase("kexec", &["kexecPrepare"], Effect::None);
const EVERYTHING: Phase = phase("stopEverything", &["stopAllServices"], Effect::StopAll);
const REBOOT: Phase = phase("reboot", &["reboot"], Effect::GoDown);
const DRAIN: Phase = phase("drain", &["cordonAndDrainNode"], Effect::Drain);

/// What stops before the machine goes down; 1.14 split this into several phases and prepares kexec
/// last.
fn stop_all(minor: u64, kexec: bool) -> Vec<Phase> {
    let umount = phase("umount", &["unmountPodMounts"], Effect::None);
    let mut phases = Vec::new();
    if minor >= 14 {
        phases.extend([PRE_SHUTDOWN, DBUS, DENY, CONTAINERS, STOP, umount, BIND, PROMOTABLE]);
        phases.extend([SYSTEM, FINALIZE, EVERYTHING]);
        phases.extend(kexec.then_some(KEXEC));
    } else {
        phases.extend([DBUS, STOP, umount, BIND, SYSTEM, FINALIZE]);
        phases.extend(kexec.then_some(KEXEC));
        phases.push(EVERYTHING);
    }
    phases
}

/// The phases of a sequence on a node of this minor of Talos 1.
pub(super) fn phases(kind: &Kind, minor: u64) -> Vec<Phase> {
    match kind {
        Kind::Initialize => initialize(minor),
        Kind::Boot => boot(minor),
        Kind::Reboot { force: true, .. } => vec![REBOOT],
        Kind::Reboot { force: false, kexec } | Kind::StageUpgrade { kexec } => {
            let mut phases = vec![CLEANUP];
            phases.extend(stop_all(minor, *kexec));
            phases.push(REBOOT);
            phases
        }
        Kind::Upgrade { kexec, .. } => upgrade(minor, *kexec),
        Kind::Shutdown { force } => {
            let mut phases =
                vec![phase("storeShutdown", &["storeShutdownEmergency"], Effect::None)];
            phases.extend((!force).then_some(DRAIN));
            phases.push(CLEANUP);
            phases.extend(stop_all(minor, false));
            phases.push(phase("shutdown", &["shutdown"], Effect::GoOff));
            phases
        }
    }
}

fn initialize(minor: u64) -> Vec<Phase> {
    let early: &[&str] = match minor {
        14.. => &[
            "startMachined",
            "waitForUdevd",
            "startApid",
            "startAuditd",
            "startSyslogd",
            "startContainerd",
        ],
        13 => &[
            "startUdevd",
            "startMachined",
            "startApid",
            "startAuditd",
            "startSyslogd",
            "startContainerd",
        ],
        _ => &["startUdevd", "startMachined", "startAuditd", "startSyslogd", "startContainerd"],
    };
    let requirements = &["enforceKSPPRequirements"];
    let mut phases = vec![
        phase("systemRequirements", requirements, Effect::None),
        phase("earlyServices", early, Effect::EarlyServices),
    ];
    phases.extend((minor < 14).then_some(phase("usb", &["waitForUSB"], Effect::None)));
    phases.extend([
        phase("meta", &["reloadMeta"], Effect::None),
        phase("dashboard", &["startDashboard"], Effect::None),
        phase("config", &["loadConfig"], Effect::Config),
    ]);
    phases
}

fn boot(minor: u64) -> Vec<Phase> {
    let volumes = if minor >= 14 {
        let task = &["mountPromotableSystemPartitions"];
        phase("promotableVolumes", task, Effect::None)
    } else {
        phase("udevSetup", &["writeUdevRules"], Effect::None)
    };
    let environment = &["setUserEnvVars", "waitForCARoots"];
    vec![
        phase("memorySizeCheck", &["memorySizeCheck"], Effect::None),
        phase("diskSizeCheck", &["diskSizeCheck"], Effect::None),
        phase("env", environment, Effect::None),
        phase("dbus", &["startDBus"], Effect::None),
        phase("ephemeral", &["mountEphemeralPartition"], Effect::None),
        volumes,
        phase("userDisks", &["mountUserDisks"], Effect::None),
        phase("userSetup", &["writeUserFiles"], Effect::None),
        phase("startEverything", &["startAllServices"], Effect::StartAll),
    ]
}

fn upgrade(minor: u64, kexec: bool) -> Vec<Phase> {
    let unmount = phase("unmount", &["unmountPodMounts"], Effect::None);
    let mut phases = Vec::new();
    if minor >= 14 {
        phases.extend([DENY, DRAIN, CLEANUP, PRE_SHUTDOWN, DBUS, CONTAINERS, STOP]);
        phases.extend([unmount, BIND, PROMOTABLE, SYSTEM, FINALIZE]);
    } else {
        phases.extend([DRAIN, CLEANUP, DBUS, STOP, unmount, BIND, SYSTEM, FINALIZE]);
    }
    phases.extend([
        phase("upgrade", &["upgrade"], Effect::Install),
        phase("meta", &["reloadMeta"], Effect::None),
    ]);
    phases.extend(kexec.then_some(KEXEC));
    phases.extend([EVERYTHING, REBOOT]);
    phases
}
