//! What a machine tells of itself.

use std::collections::BTreeMap;

use talos_sim::model::{self, NodeIndex};
use upgrade_core::image::ImageRef;
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::slots::{Entries, Slots};
use upgrade_core::snapshot::{Component, Extension, Stage, StaticPod, TalosFacts};
use upgrade_engine::io::{IoError, Machine};

use super::super::Inside;
use super::super::process_io::unavailable;

impl Inside {
    /// The node, if it answers at all.
    pub(super) fn reach(&mut self, machine: &Machine) -> Result<NodeIndex, IoError> {
        let node = self.find(&machine.name).ok_or_else(|| unavailable("no such machine"))?;
        self.hangs |= self.world.is_silent(node);
        if !self.world.is_reachable(node) {
            return Err(unavailable("connection refused"));
        }
        if self.world.drops_connection(node) {
            return Err(unavailable("the connection was closed before anything was sent"));
        }
        Ok(node)
    }

    pub(super) fn facts(&mut self, machine: &Machine) -> Result<TalosFacts, IoError> {
        let node = self.reach(machine)?;
        let installer = self.world.install_image_of(node).and_then(|image| image.parse().ok());
        let truth = self.world.truth(node).ok_or_else(|| unavailable("no such machine"))?;
        let (stage, unmet) = self.world.machine_status_of(node);
        let runs = truth.installed();
        let (platform, secure_boot, uki) = self.world.platform_of(node);
        let extension = |name: &String| Extension {
            name: name.rsplit('/').next().unwrap_or(name).to_owned(),
            version: "v1".to_owned(),
        };
        Ok(TalosFacts {
            version: runs.version.clone(),
            boot_id: truth.boot_id().to_owned(),
            stage: stage_of(stage),
            ready: unmet.is_empty(),
            static_pods: self.world.static_pods_of(node).map(static_pod).collect(),
            schematic: runs.schematic.map(str::to_owned),
            extensions: truth.extensions().iter().map(extension).collect(),
            installer,
            platform: platform.to_owned(),
            secure_boot,
            unmet: unmet.into_iter().map(unmet_condition).collect(),
            uki,
            container: truth.in_container(),
            factory: runs.schematic.map(|_| self.world.spec().registry.factory.clone()),
        })
    }

    pub(super) fn images(
        &mut self,
        machine: &Machine,
    ) -> Result<BTreeMap<Component, ImageRef>, IoError> {
        let node = self.reach(machine)?;
        let images = self.world.config_images_of(node);
        let image = |(component, image): (model::Component, &str)| {
            let image = image.parse().map_err(|_| unavailable("an image that is none"))?;
            Ok((component_of(component), image))
        };
        images.map(image).collect()
    }

    /// What the boot loader tells, read as the client reads it.
    pub(super) fn slots(&mut self, machine: &Machine) -> Result<Slots, IoError> {
        let node = self.reach(machine)?;
        let truth = self.world.truth(node).ok_or_else(|| unavailable("no such machine"))?;
        let installing = truth.has_installer_process();
        let entries = truth.boot_entries().map(|(booted, default)| Entries {
            booted: booted.to_owned(),
            default: Some(default.to_owned()),
        });
        Ok(Slots { installing, entries })
    }
}

fn unmet_condition((name, reason): (&'static str, String)) -> UnmetCondition {
    UnmetCondition { name: name.to_owned(), reason }
}

fn static_pod((component, ready): (model::Component, bool)) -> StaticPod {
    StaticPod { name: format!("kube-system/{}", component.name()), ready }
}

fn stage_of(number: i32) -> Stage {
    match number {
        1 => Stage::Booting,
        4 => Stage::Running,
        5 => Stage::Rebooting,
        6 => Stage::ShuttingDown,
        8 => Stage::Upgrading,
        _ => Stage::Unknown,
    }
}

fn component_of(component: model::Component) -> Component {
    match component {
        model::Component::ApiServer => Component::KubeApiserver,
        model::Component::ControllerManager => Component::KubeControllerManager,
        model::Component::Scheduler => Component::KubeScheduler,
        model::Component::Proxy => Component::KubeProxy,
        model::Component::Kubelet => Component::Kubelet,
    }
}
