//! Sequences: what a machine does from beginning to end, in phases of tasks,
//! with an event at each border.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talos_proto::common;

use super::World;
use super::api::NodeIndex;
use super::events::Note;
use super::node::{Node, Power, Stage};
use super::schedule::Due;
use super::services;

/// A sequence on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sequence {
    pub(super) kind: Kind,
    /// Who asked for it; empty for what the machine does by itself.
    pub(super) actor: String,
    /// The phase that runs; the number of phases once all are done.
    phase: usize,
    /// How long a phase of no special length takes.
    pace: Duration,
}

/// Which sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Kind {
    Initialize,
    Boot,
    /// With `force`, nothing is stopped first.
    Reboot {
        force: bool,
        kexec: bool,
    },
    Upgrade {
        image: String,
        kexec: bool,
    },
    StageUpgrade {
        kexec: bool,
    },
    Shutdown {
        force: bool,
    },
    Reset {
        reboot: bool,
    },
}

impl Kind {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Boot => "boot",
            Self::Reboot { .. } => "reboot",
            Self::Upgrade { .. } => "upgrade",
            Self::StageUpgrade { .. } => "stageUpgrade",
            Self::Shutdown { .. } => "shutdown",
            Self::Reset { .. } => "reset",
        }
    }

    fn stage(&self) -> Stage {
        match self {
            Self::Initialize | Self::Boot => Stage::Booting,
            Self::Reboot { .. } => Stage::Rebooting,
            Self::Upgrade { .. } | Self::StageUpgrade { .. } => Stage::Upgrading,
            Self::Shutdown { .. } => Stage::ShuttingDown,
            Self::Reset { .. } => Stage::Resetting,
        }
    }
}

/// A phase: its name, its tasks and what it does.
#[derive(Clone, Copy, Debug)]
struct Phase {
    name: &'static str,
    tasks: &'static [&'static str],
    effect: Effect,
}

/// What a phase does to the machine, at its beginning unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    None,
    /// Early services come up.
    EarlyServices,
    /// The configuration is there, and with it time and network.
    Config,
    /// Everything else is started; the phase ends when it is up.
    StartAll,
    Drain,
    /// etcd, kubelet and what they need stop.
    StopEphemeral,
    /// The installer runs, and may fail at the end.
    Install,
    /// Everything stops, apid included.
    StopAll,
    /// The machine goes down.
    GoDown,
    /// The machine goes down for good.
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

/// What stops before the machine goes down; 1.14 brought several phases and
/// prepares kexec last.
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

fn phases(kind: &Kind, minor: u64) -> Vec<Phase> {
    match kind {
        Kind::Initialize => {
            let udevd = if minor >= 14 { "waitForUdevd" } else { "startUdevd" };
            let early: &[&str] = match (minor >= 14, minor >= 13) {
                (true, _) => &[
                    "startMachined",
                    "waitForUdevd",
                    "startApid",
                    "startAuditd",
                    "startSyslogd",
                    "startContainerd",
                ],
                (false, true) => &[
                    "startUdevd",
                    "startMachined",
                    "startApid",
                    "startAuditd",
                    "startSyslogd",
                    "startContainerd",
                ],
                (false, false) => &[
                    "startUdevd",
                    "startMachined",
                    "startAuditd",
                    "startSyslogd",
                    "startContainerd",
                ],
            };
            debug_assert!(early.contains(&udevd));
            let mut phases = vec![
                phase("systemRequirements", &["enforceKSPPRequirements"], Effect::None),
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
        Kind::Boot => {
            let volumes = if minor >= 14 {
                phase("promotableVolumes", &["mountPromotableSystemPartitions"], Effect::None)
            } else {
                phase("udevSetup", &["writeUdevRules"], Effect::None)
            };
            vec![
                phase("memorySizeCheck", &["memorySizeCheck"], Effect::None),
                phase("diskSizeCheck", &["diskSizeCheck"], Effect::None),
                phase("env", &["setUserEnvVars", "waitForCARoots"], Effect::None),
                phase("dbus", &["startDBus"], Effect::None),
                phase("ephemeral", &["mountEphemeralPartition"], Effect::None),
                volumes,
                phase("userDisks", &["mountUserDisks"], Effect::None),
                phase("userSetup", &["writeUserFiles"], Effect::None),
                phase("startEverything", &["startAllServices"], Effect::StartAll),
            ]
        }
        Kind::Reboot { force: true, .. } => vec![REBOOT],
        Kind::Reboot { force: false, kexec } | Kind::StageUpgrade { kexec } => {
            let mut phases = vec![CLEANUP];
            phases.extend(stop_all(minor, *kexec));
            phases.push(REBOOT);
            phases
        }
        Kind::Upgrade { kexec, .. } => {
            let unmount = phase("unmount", &["unmountPodMounts"], Effect::None);
            let mut phases = if minor >= 14 {
                vec![
                    DENY,
                    DRAIN,
                    CLEANUP,
                    PRE_SHUTDOWN,
                    DBUS,
                    CONTAINERS,
                    STOP,
                    unmount,
                    BIND,
                    PROMOTABLE,
                    SYSTEM,
                    FINALIZE,
                ]
            } else {
                vec![DRAIN, CLEANUP, DBUS, STOP, unmount, BIND, SYSTEM, FINALIZE]
            };
            phases.extend([
                phase("upgrade", &["upgrade"], Effect::Install),
                phase("meta", &["reloadMeta"], Effect::None),
            ]);
            phases.extend(kexec.then_some(KEXEC));
            phases.extend([EVERYTHING, REBOOT]);
            phases
        }
        Kind::Shutdown { force } => {
            let mut phases =
                vec![phase("storeShutdown", &["storeShutdownEmergency"], Effect::None)];
            phases.extend((!force).then_some(DRAIN));
            phases.push(CLEANUP);
            phases.extend(stop_all(minor, false));
            phases.push(phase("shutdown", &["shutdown"], Effect::GoOff));
            phases
        }
        Kind::Reset { reboot } => {
            let mut phases = vec![DRAIN, CLEANUP];
            phases.extend(stop_all(minor, false));
            phases.push(phase("reset", &["resetSystemDisk"], Effect::None));
            phases.push(if *reboot {
                REBOOT
            } else {
                phase("shutdown", &["shutdown"], Effect::GoOff)
            });
            phases
        }
    }
}

/// Whether a sequence may push aside what runs. A boot yields to everything.
fn may_take_over(node: &Node) -> bool {
    match &node.sequence {
        None => true,
        Some(sequence) => matches!(sequence.kind, Kind::Boot | Kind::Initialize),
    }
}

impl World {
    /// Starts a sequence, or says that another one is in the way.
    pub(super) fn start_sequence(
        &mut self,
        node: NodeIndex,
        kind: Kind,
        actor: String,
        take_over: bool,
    ) {
        let name = Cow::Borrowed(kind.name());
        if !take_over && !may_take_over(&self.nodes[node.0]) {
            let message = "sequence not started: locked".to_owned();
            let code = common::Code::Locked.into();
            self.publish(node, "", Note::SequenceError(name, code, message));
            return;
        }
        let count = phases(&kind, self.nodes[node.0].minor()).len();
        let total = match kind {
            Kind::Initialize | Kind::Boot => Duration::from_secs(2),
            _ => self.draw(|timings| timings.stop),
        };
        let pace = total / u32::try_from(count).unwrap_or(1).max(1);
        let stage = kind.stage();
        // Whatever the pushed aside sequence had still to do is void.
        self.schedule.retain(|due| {
            !matches!(due, Due::Step { node: other, .. } | Due::Rejoin { node: other, .. } if *other == node)
        });
        self.nodes[node.0].sequence = Some(Sequence { kind, actor: actor.clone(), phase: 0, pace });
        self.publish(node, &actor, Note::SequenceStart(name));
        self.set_stage(node, stage);
        self.begin_phase(node);
    }

    fn begin_phase(&mut self, node: NodeIndex) {
        let Some(sequence) = self.nodes[node.0].sequence.clone() else {
            return;
        };
        let phases = phases(&sequence.kind, self.nodes[node.0].minor());
        let Some(phase) = phases.get(sequence.phase) else {
            self.finish_sequence(node, &sequence);
            return;
        };
        let start = |name: &'static str| Note::Phase(Cow::Borrowed(name), true);
        self.publish(node, &sequence.actor, start(phase.name));
        for task in phase.tasks {
            self.publish(node, &sequence.actor, Note::Task(Cow::Borrowed(task), true));
        }
        if phase.name == "kexec" && sequence.kind.name() != "reboot" {
            self.set_stage(node, Stage::Rebooting);
        }
        let mut lasts = sequence.pace;
        match phase.effect {
            Effect::None => {}
            Effect::EarlyServices => {
                for id in services::EARLY {
                    self.start_service(node, id);
                    self.set_health(node, id, true);
                }
            }
            Effect::Config => self.nodes[node.0].network = true,
            Effect::StartAll => {
                self.start_everything(node);
                return;
            }
            Effect::Drain => lasts = self.draw(|timings| timings.drain),
            Effect::StopEphemeral => {
                for id in services::EPHEMERAL {
                    self.stop_service(node, id);
                }
                self.nodes[node.0].kubernetes.stop_pods();
                self.etcd_changed();
            }
            Effect::Install => lasts = self.draw(|timings| timings.install),
            Effect::StopAll => {
                for id in services::EARLY {
                    if *id != "machined" {
                        self.stop_service(node, id);
                    }
                }
                self.drop_streams(node);
            }
            Effect::GoDown => {
                self.go_down(node);
                return;
            }
            Effect::GoOff => {
                self.go_down(node);
                self.nodes[node.0].power = Power::Off;
                return;
            }
        }
        let boot = self.nodes[node.0].boot;
        self.schedule.put(self.now.plus(lasts), Due::Step { node, boot });
    }

    /// The phase that runs has ended.
    pub(super) fn end_phase(&mut self, node: NodeIndex) {
        let Some(sequence) = self.nodes[node.0].sequence.clone() else {
            return;
        };
        let phases = phases(&sequence.kind, self.nodes[node.0].minor());
        let Some(phase) = phases.get(sequence.phase) else {
            return;
        };
        if let (Effect::Install, Kind::Upgrade { image, .. }) = (phase.effect, &sequence.kind)
            && let Err(failure) = self.install_in_sequence(node, image)
        {
            self.fail_sequence(node, &sequence, &failure);
            return;
        }
        for task in phase.tasks {
            self.publish(node, &sequence.actor, Note::Task(Cow::Borrowed(task), false));
        }
        self.publish(node, &sequence.actor, Note::Phase(Cow::Borrowed(phase.name), false));
        if let Some(running) = &mut self.nodes[node.0].sequence {
            running.phase += 1;
        }
        self.begin_phase(node);
    }

    fn finish_sequence(&mut self, node: NodeIndex, sequence: &Sequence) {
        self.nodes[node.0].sequence = None;
        let name = Cow::Borrowed(sequence.kind.name());
        self.publish(node, &sequence.actor, Note::SequenceStop(name));
        match sequence.kind {
            Kind::Initialize => {
                // Nothing is to be installed: the sequence is there and empty.
                self.publish(node, "", Note::SequenceStart(Cow::Borrowed("install")));
                self.publish(node, "", Note::SequenceStop(Cow::Borrowed("install")));
                self.start_sequence(node, Kind::Boot, String::new(), true);
            }
            Kind::Boot => self.set_stage(node, Stage::Running),
            _ => {}
        }
    }

    /// A fatal error ends a sequence, and the machine reboots.
    fn fail_sequence(&mut self, node: NodeIndex, sequence: &Sequence, failure: &str) {
        let name = sequence.kind.name();
        let message = format!(
            "sequence failed: error running phase {} in {name} sequence: task 1/1: failed, {failure}",
            sequence.phase + 1
        );
        let code = common::Code::Fatal.into();
        let note = Note::SequenceError(Cow::Borrowed(name), code, message);
        self.publish(node, &sequence.actor, Note::SequenceStop(Cow::Borrowed(name)));
        self.publish(node, &sequence.actor, note);
        self.set_stage(node, Stage::Rebooting);
        self.go_down(node);
    }

    fn set_stage(&mut self, node: NodeIndex, stage: Stage) {
        self.nodes[node.0].stage = stage;
        self.publish_status(node);
    }
}
