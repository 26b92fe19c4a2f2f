//! The machines of the cluster in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use upgrade_core::call::{Class, Code, ExitCode};
use upgrade_core::etcd_snapshot::with_sum;
use upgrade_core::event::{StepProgress, Unit};
use upgrade_core::image::ImageRef;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{RebootMode, TalosTarget};
use upgrade_core::slots::{Entries, Slots};
use upgrade_core::snapshot::{
    Component, EtcdFacts, EtcdMember, Extension, Fact, MemberId, MemberStatus, NodeName, Role,
    Stage, TalosFacts,
};
use upgrade_core::version::{Minor, Version};
use upgrade_engine::io::etcd::Downgrade;
use upgrade_engine::io::machines::{Config, Rendered};
use upgrade_engine::io::upgrader::Store;
use upgrade_engine::io::{
    Changes, EtcdAdmin, ExternalUpgrader, IoError, Machine, Machines, NodeUpgrader, ProgressSink,
    talos_error,
};

use super::{Cluster, Fault, SCHEMATIC, Sim, World, broke, seconds, unavailable, unmet};

impl World {
    fn answering(&self, node: &NodeName) -> Result<Sim, IoError> {
        let cluster = self.cluster();
        let sim = cluster.nodes.get(node).ok_or_else(|| unavailable("no such machine"))?;
        if sim.answers && !cluster.dark {
            Ok(sim.clone())
        } else {
            Err(unavailable("connection refused"))
        }
    }

    fn act(&self, act: &str, node: &NodeName) -> Result<Sim, IoError> {
        let sim = self.answering(node)?;
        self.cluster().acts.push(format!("{act} {node}"));
        assert!(sim.fault != Some(Fault::Panics), "as the test wants it");
        Ok(sim)
    }

    /// The node goes down and comes back by itself, regardless of who requested it.
    fn boot(self: &std::sync::Arc<Self>, node: &NodeName, into: Option<Version>) {
        let (world, node) = (std::sync::Arc::clone(self), node.clone());
        world.change(|cluster| {
            cluster.referee_boot(&node);
            cluster.acts.push(format!("boot {node}"));
            let sim = cluster.sim(&node);
            (sim.stage, sim.ready) = (Stage::Rebooting, false);
        });
        tokio::spawn(async move {
            seconds(3).await;
            world.change(|cluster| {
                let sim = cluster.sim(&node);
                (sim.answers, sim.node_ready) = (false, false);
                (sim.pods, sim.api) = (None, false);
                cluster.lead_elsewhere(&node);
            });
            let fault = world.cluster().nodes[&node].fault;
            if fault == Some(Fault::NeverReturns) {
                return;
            }
            seconds(40).await;
            world.change(|cluster| {
                let sim = cluster.sim(&node);
                sim.boot += 1_000;
                (sim.answers, sim.stage) = (true, Stage::Booting);
                sim.armed = false;
                if let Some(into) = into
                    && fault != Some(Fault::BootsBack)
                {
                    sim.other_slot = Some(std::mem::replace(&mut sim.version, into));
                }
                if fault == Some(Fault::DropsExtension) {
                    sim.extensions.clear();
                }
                if fault == Some(Fault::LessReady) {
                    sim.unmet.push(unmet("time", "time is not synced"));
                }
            });
            seconds(10).await;
            world.change(|cluster| {
                let sim = cluster.sim(&node);
                (sim.stage, sim.ready, sim.node_ready) = (Stage::Running, true, true);
            });
            if world.cluster().nodes[&node].role == Role::ControlPlane {
                // Ready comes before the static pods, and their pods before the API server.
                for (ready, pods, api) in [
                    (false, Some(false), false),
                    (true, Some(true), false),
                    (true, Some(true), true),
                ] {
                    seconds(6).await;
                    world.change(|cluster| {
                        let sim = cluster.sim(&node);
                        (sim.ready, sim.pods, sim.api) = (ready, pods, api);
                    });
                }
            }
        });
    }

    /// The request to replace a node has arrived.
    fn hears_of(&self, node: &NodeName) {
        self.change(|cluster| cluster.replacing.as_mut().map(|it| it.insert(node.clone())));
    }

    fn asked_to_boot(&self, node: &NodeName, into: Option<Version>) -> Result<(), IoError> {
        let fault = self.cluster().nodes[node].fault;
        if ![Some(Fault::LosesReboot), Some(Fault::RefusesInWords)].contains(&fault) {
            self.me.upgrade().unwrap().boot(node, into);
        }
        fault.map_or(Ok(()), Fault::answer)
    }
}

impl Cluster {
    fn lead_elsewhere(&mut self, node: &NodeName) {
        if self.leader == *node {
            let mut others = self.nodes.iter().filter(|(name, sim)| {
                *name != node && sim.role == Role::ControlPlane && sim.answers
            });
            if let Some((next, _)) = others.next() {
                self.leader = next.clone();
            }
        }
    }
}

/// What an act is called, by how the node reboots.
fn named(kexec: &'static str, cycle: &'static str, mode: RebootMode) -> &'static str {
    match mode {
        RebootMode::Default => kexec,
        RebootMode::Powercycle => cycle,
    }
}

fn machine(name: &NodeName, sim: &Sim) -> Machine {
    let address = format!("10.0.0.{}", name.0.len());
    Machine { name: name.clone(), address, role: sim.role }
}

fn id(node: &NodeName) -> MemberId {
    MemberId(node.0.trim_start_matches("cp-").parse().unwrap())
}

impl Machines for World {
    async fn list(&self) -> Result<(String, Vec<Machine>), IoError> {
        let now = self.now();
        let hangs = {
            let mut cluster = self.cluster();
            cluster.observations.push(now);
            cluster.unlisted
        };
        if hangs {
            return std::future::pending().await;
        }
        let cluster = self.cluster();
        if cluster.dark {
            return Err(unavailable("nothing answers"));
        }
        let shown = cluster.nodes.iter().filter(|(name, _)| !cluster.hidden.contains_key(*name));
        Ok(("prod".to_owned(), shown.map(|(name, sim)| machine(name, sim)).collect()))
    }

    async fn identify(
        &self,
        nodes: &BTreeMap<NodeName, Vec<String>>,
    ) -> Vec<(NodeName, Result<Machine, IoError>)> {
        let cluster = self.cluster();
        let hidden = cluster.hidden.iter().filter(|(name, _)| nodes.contains_key(*name));
        let answer = |(name, answers): (&NodeName, &bool)| {
            let found = answers.then(|| machine(name, &cluster.nodes[name]));
            (name.clone(), found.ok_or_else(|| unavailable("no answer")))
        };
        let stranger =
            |(address, why): (&NodeName, &String)| (address.clone(), Err(unavailable(why)));
        hidden.map(answer).chain(cluster.strangers.iter().map(stranger)).collect()
    }

    async fn facts(&self, of: &Machine) -> Result<TalosFacts, IoError> {
        let sim = self.answering(&of.name)?;
        if sim.fault == Some(Fault::Hangs) {
            return std::future::pending().await;
        }
        let tag = sim.version.tag();
        let installer = format!("factory.talos.dev/metal-installer/{SCHEMATIC}:{tag}");
        let extensions = sim.extensions.iter();
        let extension = |name: &String| Extension { name: name.clone(), version: "v1".to_owned() };
        Ok(TalosFacts {
            version: sim.version,
            boot_id: format!("boot-{}", sim.boot),
            stage: sim.stage,
            ready: sim.ready && sim.unmet.is_empty(),
            static_pods: match sim.role {
                Role::ControlPlane => TalosFacts::control_plane_pods(sim.pods == Some(true)),
                Role::Worker => vec![],
            },
            schematic: Some(SCHEMATIC.to_owned()),
            extensions: extensions.map(extension).collect(),
            installer: Some(installer.parse().unwrap()),
            platform: "metal".to_owned(),
            secure_boot: false,
            unmet: sim.unmet.clone(),
            uki: true,
            container: false,
            factory: None,
        })
    }

    async fn images(&self, of: &Machine) -> Result<BTreeMap<Component, ImageRef>, IoError> {
        let sim = self.answering(&of.name)?;
        let tag = self.cluster().kubernetes.tag();
        let mut images = BTreeMap::new();
        let image = |text: String| text.parse::<ImageRef>().unwrap();
        images.insert(Component::Kubelet, image(format!("ghcr.io/siderolabs/kubelet:{tag}")));
        if sim.role == Role::ControlPlane {
            for component in [
                Component::KubeApiserver,
                Component::KubeControllerManager,
                Component::KubeScheduler,
                Component::KubeProxy,
            ] {
                images.insert(component, image(format!("registry.k8s.io/{component}:{tag}")));
            }
        }
        Ok(images)
    }

    async fn etcd(&self, members: &[Machine]) -> Fact<EtcdFacts> {
        let cluster = self.cluster();
        if cluster.dark {
            return Fact::Unknown("nothing answers".to_owned());
        }
        let everyone: BTreeSet<MemberId> = members.iter().map(|member| id(&member.name)).collect();
        let member = |machine: &Machine| {
            let sim = &cluster.nodes[&machine.name];
            let status = MemberStatus {
                leader: Some(id(&cluster.leader)),
                term: 1,
                applied_index: 10,
                sees: everyone.clone(),
                errors: vec![],
                version: Matrix::builtin().etcd(&sim.version),
                storage: Some(cluster.etcd),
            };
            EtcdMember {
                id: id(&machine.name),
                node: machine.name.clone(),
                learner: false,
                status: if sim.answers && sim.stage == Stage::Running {
                    Fact::Known(status)
                } else {
                    Fact::Unknown("connection refused".to_owned())
                },
            }
        };
        let members = members.iter().map(member).collect();
        Fact::Known(EtcdFacts { members, alarms: vec![] })
    }

    fn changes(&self, _: &Machine) -> Changes {
        self.changed.subscribe()
    }

    async fn slots(&self, of: &Machine) -> Result<Slots, IoError> {
        let sim = self.answering(&of.name)?;
        let entry = |version: &Version| format!("Talos-{}.efi", version.tag());
        let default = sim.other_slot.as_ref().filter(|_| sim.armed).unwrap_or(&sim.version);
        let entries = Entries { booted: entry(&sim.version), default: Some(entry(default)) };
        Ok(Slots { installing: false, entries: (!sim.grub).then_some(entries) })
    }

    async fn config(&self, _: &Machine) -> Result<Config, IoError> {
        Err(unavailable("not in this world"))
    }

    async fn config_is_staged(&self, _: &Machine) -> Result<bool, IoError> {
        Err(unavailable("not in this world"))
    }

    async fn manifests(&self, _: &Machine) -> Result<Rendered, IoError> {
        Err(unavailable("not in this world"))
    }
}

impl NodeUpgrader for World {
    async fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        progress: &dyn ProgressSink,
    ) -> Result<String, IoError> {
        assert_eq!(store, Store::System);
        let sim = self.act("pull", &on.name)?;
        self.cluster().sim(&on.name).pulls += 1;
        seconds(2).await;
        progress.report(StepProgress::counted(Unit::Bytes, 1, Some(2), "half of it is here"));
        seconds(3).await;
        if sim.fault == Some(Fault::PullsBadly) && sim.pulls < 2 {
            return Err(talos_error::pull(Class::Status(Code::Unknown), "the registry is busy"));
        }
        Ok(format!("{image}@sha256:0"))
    }

    async fn install(
        &self,
        on: &Machine,
        image: &ImageRef,
        pulled: &str,
        _: &dyn ProgressSink,
    ) -> Result<(), IoError> {
        assert_eq!(pulled, format!("{image}@sha256:0"), "the name that the pull came back with");
        let sim = self.act("install", &on.name)?;
        assert!(!sim.armed, "rule 5: an installer on an armed node deletes what runs");
        seconds(8).await;
        if !matches!(sim.fault, Some(Fault::InstallerFails | Fault::LosesStreamEarly)) {
            self.change(|cluster| {
                let sim = cluster.sim(&on.name);
                (sim.other_slot, sim.armed) = (image.version(), true);
            });
        }
        match sim.fault {
            Some(Fault::InstallerFails | Fault::InstallerFailsLate) => {
                Err(talos_error::exit(ExitCode::Environment, &["it ends here".to_owned()]))
            }
            Some(Fault::LosesStream | Fault::LosesStreamEarly) => Err(talos_error::install(
                Class::Broken,
                Class::Broken.outcome(),
                "the stream broke",
            )),
            _ => Ok(()),
        }
    }

    async fn upgrade(
        &self,
        on: &Machine,
        image: &ImageRef,
        _: bool,
        mode: RebootMode,
    ) -> Result<(), IoError> {
        self.act(named("upgrade", "power cycle and upgrade", mode), &on.name)?;
        self.asked_to_boot(&on.name, image.version())
    }

    async fn reboot(&self, on: &Machine, mode: RebootMode) -> Result<(), IoError> {
        let sim = self.act(named("reboot", "power cycle", mode), &on.name)?;
        if mode == RebootMode::Powercycle && sim.fault == Some(Fault::KexecOnly) {
            self.change(|cluster| cluster.sim(&on.name).answers = false);
            return Ok(());
        }
        self.asked_to_boot(&on.name, sim.other_slot.filter(|_| sim.armed))
    }

    async fn rollback(&self, on: &Machine) -> Result<(), IoError> {
        let sim = self.act("rollback", &on.name)?;
        // It boots the entry that is not the default: what runs, if it is armed.
        self.asked_to_boot(&on.name, sim.other_slot.filter(|_| !sim.armed))
    }

    async fn apply(&self, _: &Machine, _: &Config) -> Result<(), IoError> {
        Err(unavailable("not in this world"))
    }
}

impl ExternalUpgrader for World {
    async fn upgrade(
        &self,
        node: &Machine,
        to: &Version,
        _: &TalosTarget,
        _: &dyn ProgressSink,
    ) -> Result<(), IoError> {
        let sim = self.act("replace", &node.name)?;
        let (world, name, to) = (self.me.upgrade().unwrap(), node.name.clone(), to.clone());
        if sim.fault == Some(Fault::HearsNothing) {
            return std::future::pending().await;
        }
        let late = sim.fault == Some(Fault::HearsLate);
        if !late {
            world.hears_of(&name);
        }
        let replacing = tokio::spawn(async move {
            if late {
                seconds(10).await;
                world.hears_of(&name);
            }
            // The image is downloaded first, and the node runs on meanwhile.
            seconds(180).await;
            if sim.fault != Some(Fault::LosesReboot) {
                world.boot(&name, Some(to));
            }
            world.change(|cluster| cluster.replacing.as_mut().map(|it| it.remove(&name)));
        });
        if late {
            let _ = replacing.await;
            return Err(broke());
        }
        sim.fault.map_or(Ok(()), Fault::answer)
    }

    async fn is_under_way(&self, node: &Machine) -> Result<bool, IoError> {
        Ok(self.cluster().replacing.iter().any(|it| it.contains(&node.name)))
    }
}

impl EtcdAdmin for World {
    async fn forfeit(&self, on: &Machine) -> Result<(), IoError> {
        self.act("forfeit", &on.name)?;
        self.change(|cluster| cluster.lead_elsewhere(&on.name));
        Ok(())
    }

    async fn validate_downgrade(&self, on: &Machine, to: Minor) -> Result<Downgrade, IoError> {
        self.answering(&on.name)?;
        let next = to.next() == self.cluster().etcd;
        Ok(if next { Downgrade::Possible } else { Downgrade::NotNext })
    }

    async fn enable_downgrade(&self, on: &Machine, to: Minor) -> Result<(), IoError> {
        self.act("downgrade", &on.name)?;
        self.change(|cluster| cluster.etcd = to);
        Ok(())
    }

    async fn snapshot(
        &self,
        from: &Machine,
        into: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), IoError> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.act("snapshot", &from.name)?;
        into.write_all(&with_sum(&[0; 512])).await.map_err(|_| unavailable("it was not written"))
    }
}
