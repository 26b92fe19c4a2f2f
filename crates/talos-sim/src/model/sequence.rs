//! Sequences: a machine's operations from start to end, in phases of tasks, with an event at each
//! boundary.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talos_proto::common;

use super::World;
use super::api::NodeIndex;
use super::drain::CORDON_TIMEOUT;
use super::events::Note;
use super::node::{Node, Power, Stage};
use super::phases::{Effect, phases};
use super::schedule::Due;
use super::services;
use super::timing::Span;

/// Arguments of the reboot system call.
const RESTART: i64 = 0x0123_4567;
const POWER_OFF: i64 = 0x4321_fedc;

/// A running sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sequence {
    pub(super) kind: Kind,
    /// The actor ID of its request; empty for the machine's own sequences.
    pub(super) actor: String,
    /// The index of the current phase; the number of phases once all are done.
    phase: usize,
    /// The duration of a phase without a duration of its own.
    pace: Duration,
}

impl Sequence {
    /// The effect of the current phase, on a node of this minor.
    pub(super) fn effect(&self, minor: u64) -> Option<Effect> {
        phases(&self.kind, minor).get(self.phase).map(|phase| phase.effect)
    }
}

/// The kind of a sequence.
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
        /// Talos up to 1.7 without `preserve`: the node's data is wiped.
        #[serde(default)]
        wipes: bool,
    },
    StageUpgrade {
        kexec: bool,
    },
    Shutdown {
        force: bool,
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
        }
    }

    /// Whether it ends in a boot that bypasses the firmware.
    pub(super) fn kexec(&self) -> bool {
        match self {
            Self::Reboot { force, kexec } => *kexec && !force,
            Self::Upgrade { kexec, .. } | Self::StageUpgrade { kexec } => *kexec,
            Self::Initialize | Self::Boot | Self::Shutdown { .. } => false,
        }
    }

    fn stage(&self) -> Stage {
        match self {
            Self::Initialize | Self::Boot => Stage::Booting,
            Self::Reboot { .. } => Stage::Rebooting,
            Self::Upgrade { .. } | Self::StageUpgrade { .. } => Stage::Upgrading,
            Self::Shutdown { .. } => Stage::ShuttingDown,
        }
    }
}

/// Whether a new sequence may replace the running one. A boot yields to everything.
fn may_take_over(node: &Node) -> bool {
    match &node.sequence {
        None => true,
        Some(sequence) => matches!(sequence.kind, Kind::Boot | Kind::Initialize),
    }
}

impl World {
    /// Starts a sequence, or publishes a `locked` error while another one is running.
    pub(super) fn start_sequence(
        &mut self,
        node: NodeIndex,
        kind: Kind,
        actor: &str,
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
            _ => self.draw(node, Span::Stop),
        };
        let pace = total / u32::try_from(count).unwrap_or(1).max(1);
        let stage = kind.stage();
        // The pending events of the replaced sequence are void.
        self.schedule.retain(|due| {
            !matches!(due, Due::Step { node: other, .. } | Due::Rejoin { node: other, .. } if *other == node)
        });
        self.nodes[node.0].sequence =
            Some(Sequence { kind, actor: actor.to_owned(), phase: 0, pace });
        self.publish(node, actor, Note::SequenceStart(name));
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
            Effect::Config if !self.nodes[node.0].finds_network() => {}
            Effect::Config => self.network_is_up(node),
            Effect::StartAll => {
                // Services wait for the network, until the boot has lasted too long.
                if self.nodes[node.0].network {
                    self.start_everything(node);
                }
                return;
            }
            Effect::Drain => {
                self.nodes[node.0].kubernetes.cordon();
                lasts = if self.kubernetes_api_is_up() {
                    self.draw(node, Span::Drain)
                } else {
                    CORDON_TIMEOUT
                };
            }
            Effect::StopEphemeral => {
                for id in services::EPHEMERAL {
                    self.stop_service(node, id);
                }
                self.nodes[node.0].kubernetes.stop_pods();
                self.etcd_changed();
            }
            Effect::Install => lasts = self.draw(node, Span::Install),
            Effect::StopAll => {
                for id in services::EARLY {
                    if *id != "machined" {
                        self.stop_service(node, id);
                    }
                }
                self.drop_streams(node);
            }
            Effect::GoDown => {
                self.publish(node, &sequence.actor, Note::Restart(RESTART));
                self.go_down(node);
                return;
            }
            Effect::GoOff => {
                self.publish(node, &sequence.actor, Note::Restart(POWER_OFF));
                self.go_down(node);
                self.nodes[node.0].power = Power::Off;
                return;
            }
        }
        let boot = self.nodes[node.0].boot;
        self.schedule.put(self.now.plus(lasts), Due::Step { node, boot });
    }

    /// Ends the current phase.
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
        if let (Effect::Install, Kind::Upgrade { wipes: true, .. }) = (phase.effect, &sequence.kind)
        {
            self.wipe(node);
        }
        if phase.effect == Effect::Drain && !self.kubernetes_api_is_up() {
            // No API server accepted the cordon.
            self.fail_sequence(node, &sequence, "context deadline exceeded");
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
                // Nothing to install: the sequence is published but empty.
                self.publish(node, "", Note::SequenceStart(Cow::Borrowed("install")));
                self.publish(node, "", Note::SequenceStop(Cow::Borrowed("install")));
                self.start_sequence(node, Kind::Boot, "", true);
            }
            Kind::Boot => {
                self.schedule.retain(
                    |due| !matches!(due, Due::BootTimeout { node: other, .. } if *other == node),
                );
                self.set_stage(node, Stage::Running);
            }
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
        let error = Note::SequenceError(Cow::Borrowed(name), code, message);
        self.publish(node, &sequence.actor, Note::SequenceStop(Cow::Borrowed(name)));
        self.publish(node, &sequence.actor, error);
        self.set_stage(node, Stage::Rebooting);
        // No kexec has been prepared at this point.
        self.nodes[node.0].sequence = None;
        self.go_down(node);
    }

    /// Time, addresses and host name are available.
    fn network_is_up(&mut self, node: NodeIndex) {
        let here = &mut self.nodes[node.0];
        here.network = true;
        let address = Note::Address {
            hostname: here.hostname.clone(),
            addresses: here.addresses.iter().map(ToString::to_string).collect(),
        };
        self.publish(node, "", address);
        self.download(node);
    }

    /// A boot that has not ended in time is a fatal error. A version that has never been ready is
    /// reverted to the previous one.
    pub(super) fn boot_timed_out(&mut self, node: NodeIndex) {
        let Some(sequence) = self.nodes[node.0].sequence.clone() else {
            return;
        };
        if sequence.kind != Kind::Boot {
            return;
        }
        if self.nodes[node.0].slots.previous {
            self.nodes[node.0].slots.revert();
        }
        self.fail_sequence(node, &sequence, "context deadline exceeded");
    }

    fn set_stage(&mut self, node: NodeIndex, stage: Stage) {
        self.nodes[node.0].stage = stage;
        self.publish_status(node);
    }
}
