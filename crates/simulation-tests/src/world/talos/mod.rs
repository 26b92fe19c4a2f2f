//! The machines, as the engine asks for them. Acts go to the model as the calls
//! of its API; facts are read as the node would answer.

mod calls;
mod discover;
mod etcd;
mod facts;

use std::collections::BTreeMap;
use std::sync::PoisonError;

use talos_proto::machine::image_service_pull_response::Response as Pulled;
use talos_proto::machine::lifecycle_service_install_progress::Response as Progress;
use talos_proto::{common, machine};
use talos_sim::model::Request;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use upgrade_core::call::{Class, ExitCode};
use upgrade_core::event::StepProgress;
use upgrade_core::image::ImageRef;
use upgrade_core::plan::RebootMode;
use upgrade_core::slots::Slots;
use upgrade_core::snapshot::{Component, EtcdFacts, Fact, NodeName, TalosFacts};
use upgrade_core::version::Minor;
use upgrade_engine::io::etcd::Downgrade;
use upgrade_engine::io::machines::{Config, Rendered, Wanted};
use upgrade_engine::io::upgrader::Store;
use upgrade_engine::io::{
    Changes, EtcdAdmin, IoError, Machine, Machines, NodeUpgrader, ProgressSink, talos_error,
};

use super::Answer;
use super::process_io::{ProcessIo, unavailable};
use crate::trace::{Act, Question};
use calls::For;

impl Machines for ProcessIo {
    async fn list(&self) -> Result<(String, Vec<Machine>), IoError> {
        self.discover().await
    }

    async fn identify(
        &self,
        nodes: &BTreeMap<NodeName, Vec<String>>,
    ) -> Vec<(NodeName, Result<Machine, IoError>)> {
        self.find(nodes).await
    }

    async fn facts(&self, of: &Machine) -> Result<TalosFacts, IoError> {
        self.ask(Question::Facts(of.name.clone()), |inside| inside.facts(of)).await
    }

    async fn images(&self, of: &Machine) -> Result<BTreeMap<Component, ImageRef>, IoError> {
        self.ask(Question::Images(of.name.clone()), |inside| inside.images(of)).await
    }

    async fn etcd(&self, members: &[Machine]) -> Fact<EtcdFacts> {
        self.members(members).await
    }

    fn changes(&self, of: &Machine) -> Changes {
        let node = self.shared.at(|inside| inside.world.find(&of.name.0));
        let machines = self.shared.machines.lock().unwrap_or_else(PoisonError::into_inner);
        match node.and_then(|node| machines.get(node.0)) {
            Some(sender) => sender.subscribe(),
            None => self.shared.objects.subscribe(),
        }
    }

    async fn slots(&self, of: &Machine) -> Result<Slots, IoError> {
        self.ask(Question::Slots(of.name.clone()), |inside| inside.slots(of)).await
    }

    async fn config(&self, of: &Machine) -> Result<Config, IoError> {
        self.ask(Question::Other("config"), |inside| {
            let node = inside.reach(of)?;
            Ok(Config(inside.world.config_of(node).to_owned()))
        })
        .await
    }

    async fn config_is_staged(&self, of: &Machine) -> Result<bool, IoError> {
        self.ask(Question::Other("config on disk"), |inside| {
            let node = inside.reach(of)?;
            let on_disk = inside.world.config_on_disk_of(node);
            Ok(on_disk.is_some_and(|on_disk| on_disk != inside.world.config_of(node)))
        })
        .await
    }

    async fn manifests(&self, of: &Machine) -> Result<Rendered, IoError> {
        self.ask(Question::Other("manifests"), |inside| {
            let node = inside.reach(of)?;
            let [proxy, core_dns, flannel] = inside.world.own_manifests_of(node);
            let extra = inside.world.extra_manifests_of(node);
            let wanted = Wanted { proxy, core_dns, flannel, talos_api: false, extra };
            Ok(Rendered::new(Some(&wanted), inside.world.manifests_of(node)))
        })
        .await
    }
}

impl NodeUpgrader for ProcessIo {
    async fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        progress: &dyn ProgressSink,
    ) -> Result<String, IoError> {
        let act = Act::Pull { node: on.name.clone(), image: image.clone() };
        let containerd = Some(containerd(store));
        let image_ref = image.to_string();
        let modern = machine::ImageServicePullRequest { containerd, image_ref };
        let mut name = image.to_string();
        let request = Request::ImageServicePull(modern);
        let pulled = self
            .stream((act.clone(), For::Pull), on, request, |response| {
                progress.report(StepProgress::text("a part of it is here"));
                let response = machine::ImageServicePullResponse::try_from(response);
                if let Ok(Some(Pulled::Name(pinned))) = response.map(|it| it.response) {
                    name = pinned;
                }
            })
            .await;
        match pulled {
            Err(error) if error.failure.text().contains("unknown service") => {
                let namespace = match store {
                    Store::System => common::ContainerdNamespace::NsSystem,
                    Store::Kubernetes => common::ContainerdNamespace::NsCri,
                };
                let legacy = machine::ImagePullRequest {
                    namespace: namespace.into(),
                    reference: image.to_string(),
                };
                let request = Request::ImagePull(legacy);
                self.stream((act, For::Pull), on, request, |_| ()).await?;
            }
            pulled => pulled?,
        }
        Ok(name)
    }

    async fn install(
        &self,
        on: &Machine,
        image: &ImageRef,
        pulled: &str,
        progress: &dyn ProgressSink,
    ) -> Result<(), IoError> {
        let act = Act::Install { node: on.name.clone(), image: image.clone() };
        let request = machine::LifecycleServiceUpgradeRequest {
            containerd: Some(containerd(Store::System)),
            source: Some(machine::InstallArtifactsSource { image_name: pulled.to_owned() }),
        };
        let mut exit = None;
        let what = (act, For::Install);
        self.stream(what, on, Request::LifecycleUpgrade(request), |response| {
            let Ok(response) = machine::LifecycleServiceUpgradeResponse::try_from(response) else {
                return;
            };
            match response.progress.and_then(|progress| progress.response) {
                Some(Progress::ExitCode(code)) => exit = Some(code),
                Some(Progress::Message(line)) => progress.report(StepProgress::text(line)),
                None => {}
            }
        })
        .await?;
        match exit.map(ExitCode::of) {
            Some(None) => Ok(()),
            Some(Some(code)) => Err(talos_error::exit(code, &[])),
            None => Err(For::Install.error(Class::Truncated, true, "no exit code came")),
        }
    }

    async fn upgrade(
        &self,
        on: &Machine,
        image: &ImageRef,
        force: bool,
        mode: RebootMode,
    ) -> Result<(), IoError> {
        let act = Act::Upgrade { node: on.name.clone(), image: image.clone(), mode };
        let image = image.to_string();
        let mode = match mode {
            RebootMode::Default => machine::upgrade_request::RebootMode::Default,
            RebootMode::Powercycle => machine::upgrade_request::RebootMode::Powercycle,
        };
        let request = machine::UpgradeRequest {
            image,
            force,
            reboot_mode: mode.into(),
            ..Default::default()
        };
        self.unary(act, on, Request::Upgrade(request)).await
    }

    async fn reboot(&self, on: &Machine, mode: RebootMode) -> Result<(), IoError> {
        let act = Act::Reboot { node: on.name.clone(), mode };
        let mode = match mode {
            RebootMode::Default => machine::reboot_request::Mode::Default,
            RebootMode::Powercycle => machine::reboot_request::Mode::Powercycle,
        };
        self.unary(act, on, Request::Reboot(machine::RebootRequest { mode: mode.into() })).await
    }

    async fn rollback(&self, on: &Machine) -> Result<(), IoError> {
        let act = Act::Rollback { node: on.name.clone() };
        self.unary(act, on, Request::Rollback(machine::RollbackRequest::default())).await
    }

    async fn apply(&self, to: &Machine, config: &Config) -> Result<(), IoError> {
        let images = self.shared.at(|inside| {
            let node = inside.find(&to.name)?;
            let before: Vec<(String, String)> = inside
                .world
                .config_images_of(node)
                .map(|(component, image)| (component.name().to_owned(), image.to_owned()))
                .collect();
            Some(before)
        });
        let images = images.unwrap_or_default();
        let changed = images.into_iter().filter(|(_, image)| !config.0.contains(image.as_str()));
        let changed = changed
            .map(|(component, before)| {
                let image = after(&config.0, &before).unwrap_or_default();
                (component, image)
            })
            .collect();
        let act = Act::Configure { node: to.name.clone(), images: changed };
        let request = machine::ApplyConfigurationRequest {
            data: config.0.clone().into_bytes(),
            mode: machine::apply_configuration_request::Mode::NoReboot.into(),
            ..Default::default()
        };
        self.unary(act, to, Request::ApplyConfiguration(request)).await
    }
}

impl EtcdAdmin for ProcessIo {
    async fn forfeit(&self, on: &Machine) -> Result<(), IoError> {
        let act = Act::Forfeit { node: on.name.clone() };
        let request = machine::EtcdForfeitLeadershipRequest::default();
        self.unary(act, on, Request::EtcdForfeitLeadership(request)).await
    }

    async fn validate_downgrade(&self, on: &Machine, to: Minor) -> Result<Downgrade, IoError> {
        let asked = self.ask::<_, IoError>(Question::Other("downgrade"), |inside| {
            let node = inside.reach(on)?;
            let request = machine::EtcdDowngradeValidateRequest { version: to.to_string() };
            let asked = inside.one::<machine::EtcdDowngradeValidateResponse>(
                node,
                Request::EtcdDowngradeValidate(request),
            );
            Ok(asked.map(|_| ()))
        });
        match asked.await? {
            Ok(()) => Ok(Downgrade::Possible),
            Err(status) => Downgrade::of_refusal(&status.message)
                .ok_or_else(|| For::Read.refused(&status, false)),
        }
    }

    async fn enable_downgrade(&self, on: &Machine, to: Minor) -> Result<(), IoError> {
        let act = Act::Downgrade { node: on.name.clone(), to };
        let request = machine::EtcdDowngradeEnableRequest { version: to.to_string() };
        self.unary(act, on, Request::EtcdDowngradeEnable(request)).await
    }

    async fn snapshot(
        &self,
        from: &Machine,
        into: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), IoError> {
        let machine = from.clone();
        let pieces = self
            .ask(Question::Other("snapshot"), move |inside| {
                let node = inside.reach(&machine)?;
                let request = Request::EtcdSnapshot(machine::EtcdSnapshotRequest::default());
                let answer = inside.call(node, request);
                match answer.map_err(|status| For::Read.refused(&status, false))? {
                    Answer::Items(items) => Ok(items),
                    Answer::Stream(..) => Err(unavailable("it did not come in one piece")),
                }
            })
            .await?;
        for piece in pieces {
            let piece = common::Data::try_from(piece);
            let piece = piece.map_err(|_| unavailable("it is something else"))?;
            let written = into.write_all(&piece.bytes).await;
            written.map_err(|error| unavailable(&error.to_string()))?;
        }
        Ok(())
    }
}

/// The image of the same name in another configuration.
fn after(config: &str, before: &str) -> Option<String> {
    let name = before.rsplit_once(':')?.0;
    let found = config.lines().find_map(|line| line.split_once(name))?.1;
    let tag: String = found.chars().take_while(|c| !c.is_whitespace() && *c != '"').collect();
    Some(format!("{name}{tag}"))
}

fn containerd(store: Store) -> common::ContainerdInstance {
    let namespace = match store {
        Store::System => common::ContainerdNamespace::NsSystem,
        Store::Kubernetes => common::ContainerdNamespace::NsCri,
    };
    common::ContainerdInstance {
        driver: common::ContainerDriver::Cri.into(),
        namespace: namespace.into(),
    }
}
