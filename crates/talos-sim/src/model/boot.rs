//! How machines go down and boot.

use std::time::Duration;

use super::World;
use super::api::NodeIndex;
use super::fault::FaultKind;
use super::images::Place;
use super::node::{Power, Stage};
use super::schedule::{Due, Part};
use super::sequence::Kind;
use super::services;
use super::spec::NodeRole;
use super::timing::Span;

/// After this long, a boot counts as failed.
const BOOT_TIMEOUT: Duration = Duration::from_mins(70);

impl World {
    /// The machine stops answering. It comes back by itself unless a fault keeps it down.
    pub(super) fn go_down(&mut self, node: NodeIndex) {
        self.drop_streams(node);
        let here = &mut self.nodes[node.0];
        here.kexec = here.sequence.as_ref().is_some_and(|sequence| sequence.kind.kexec());
        here.power = Power::Down;
        here.sequence = None;
        here.boot += 1;
        here.services.clear();
        here.network = false;
        here.install = None;
        here.pulls.clear();
        here.downloads.clear();
        here.kubernetes.stop_pods();
        self.collect_images(node);
        let here = &mut self.nodes[node.0];
        // One of the two containerds keeps its images in memory.
        here.images.retain(|image| image.place != Place::InMemory);
        self.etcd_changed();
        if self.may_return(node) {
            self.schedule_power_on(node);
        }
    }

    /// Whether no fault keeps the machine down.
    pub(super) fn may_return(&self, node: NodeIndex) -> bool {
        let boots = self.nodes[node.0].kexec || self.fault(node, FaultKind::KexecOnly).is_none();
        boots && self.fault(node, FaultKind::NeverReturns).is_none()
    }

    /// Powers on a machine that a fault kept down, unless its power-on is already due.
    pub(super) fn power_on_unless_due(&mut self, node: NodeIndex) {
        let due = |due: &Due| matches!(due, Due::PowerOn { node: other, .. } if *other == node);
        if !self.schedule.any(due) {
            self.schedule_power_on(node);
        }
    }

    pub(super) fn schedule_power_on(&mut self, node: NodeIndex) {
        let mut lasts = self.draw(node, Span::Reboot);
        let here = &self.nodes[node.0];
        if here.slots.armed().is_some() && self.fault(node, FaultKind::BootBack).is_some() {
            // The new version boots, fails and reverts: two boots.
            lasts *= 2;
        }
        if here.staged_upgrade.is_some() {
            lasts += self.draw(node, Span::Install);
        }
        let boot = self.nodes[node.0].boot;
        let at = self.now.plus(lasts);
        self.schedule.put(at, Due::PowerOn { node, boot });
    }

    /// The machine answers again and starts to boot.
    pub(super) fn power_on(&mut self, node: NodeIndex) {
        // Discovery shows its new version to the other nodes.
        self.wide = true;
        if let Some(image) = self.nodes[node.0].staged_upgrade.take() {
            // A staged upgrade that fails leaves the version unchanged.
            let _ = self.install_in_sequence(node, &image);
        }
        let boots_back = self.nodes[node.0].slots.armed().is_some()
            && self.take_fault(node, FaultKind::BootBack);
        if boots_back && !self.nodes[node.0].slots.boot_back() {
            // Neither slot boots: only manual intervention helps.
            self.nodes[node.0].power = Power::Off;
            return;
        }
        if !self.nodes[node.0].firmware_boots() {
            self.nodes[node.0].power = Power::Off;
            return;
        }
        let boot_id = self.random.uuid();
        let now = self.now;
        let here = &mut self.nodes[node.0];
        here.slots.boot();
        here.power = Power::On;
        here.stage = Stage::Booting;
        here.boot_id = boot_id;
        here.booted = now;
        here.events.clear();
        here.last_status = None;
        here.cosi = super::cosi::Store::default();
        let minor = here.minor();
        here.config.boot(minor);
        let config = here.config.components.clone();
        here.kubernetes.boot(&config);
        let boot = here.boot;
        self.unmet_from_boot(node);
        let due = Due::BootTimeout { node, boot };
        self.schedule.put(now.plus(BOOT_TIMEOUT), due);
        self.start_sequence(node, Kind::Initialize, "", true);
    }

    /// The last phase of a boot: everything is started, and comes up part by part within the rejoin
    /// time.
    pub(super) fn start_everything(&mut self, node: NodeIndex) {
        let role = self.nodes[node.0].role;
        for id in services::late(role) {
            self.start_service(node, id);
            if !matches!(*id, "etcd" | "kubelet") {
                self.set_health(node, id, true);
            }
        }
        let total = self.draw(node, Span::Rejoin).saturating_sub(Duration::from_secs(4));
        let boot = self.nodes[node.0].boot;
        // A control plane is ready, and its Node too, before the kubelet has made any static pod:
        // without any status, none is unmet.
        let parts: &[(Part, u32)] = match role {
            NodeRole::ControlPlane => &[
                (Part::Etcd, 40),
                (Part::Kubelet, 55),
                (Part::NodeReady, 60),
                (Part::StaticPods, 75),
                (Part::Containers, 85),
                (Part::ApiServer, 100),
            ],
            NodeRole::Worker => &[(Part::Kubelet, 55), (Part::NodeReady, 100)],
        };
        for &(part, percent) in parts {
            let at = self.now.plus(total * percent / 100);
            self.schedule.put(at, Due::Rejoin { node, boot, part });
        }
    }

    pub(super) fn rejoin(&mut self, node: NodeIndex, part: Part) {
        if part != Part::Etcd && !self.kubelet_returns(node) {
            // The kubelet starts the parts that come after it.
            return;
        }
        match part {
            Part::Etcd => {
                self.member_is_ready(node);
                self.etcd_changed();
            }
            Part::Kubelet => {
                self.nodes[node.0].kubernetes.kubelet.up = true;
                self.set_health(node, "kubelet", true);
                // The boot sequence waits for its services.
                self.finish_boot(node);
            }
            Part::StaticPods => self.nodes[node.0].kubernetes.create_pods(),
            Part::Containers => {
                let now = self.now;
                self.nodes[node.0].kubernetes.start_pods(now);
            }
            Part::ApiServer => {
                if let Some(restart) = self.nodes[node.0].kubernetes.api_server_restart() {
                    self.api_server_answers(node, restart);
                }
            }
            Part::NodeReady => {
                self.nodes[node.0].kubernetes.comes_up = true;
                self.register_nodes();
            }
        }
    }
}
