//! The machines of the world. They do what is requested, after a while.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::sleep;
use upgrade_core::call::Class;
use upgrade_core::etcd_snapshot::with_sum;
use upgrade_core::image::ImageRef;
use upgrade_core::plan::RebootMode;
use upgrade_core::slots::Slots;
use upgrade_core::snapshot::{
    Component, EtcdFacts, EtcdMember, Fact, MemberId, MemberStatus, NodeName, Role, Stage,
    TalosFacts,
};
use upgrade_core::version::{Minor, Version};
use upgrade_engine::io::etcd::Downgrade;
use upgrade_engine::io::machines::{Config, Rendered, Wanted};
use upgrade_engine::io::upgrader::Store;
use upgrade_engine::io::{
    Changes, EtcdAdmin, IoError, Machine, Machines, NodeUpgrader, ProgressSink, talos_error,
};

use super::world::{Fault, STATIC, World, unavailable};

impl World {
    /// What a node makes of its configuration, step by step.
    fn take_over(&self, node: &NodeName, images: BTreeMap<Component, ImageRef>) {
        let (world, node) = (self.me.upgrade().unwrap(), node.clone());
        tokio::spawn(async move {
            sleep(Duration::from_secs(2)).await;
            let fault = world.cluster().fault.clone();
            let mut kubelet = false;
            world.change(|cluster| {
                let shared = cluster.talos < Version::new(1, 14, 0);
                let sim = cluster.nodes.get_mut(&node).unwrap();
                for (component, image) in images {
                    let old = sim.runs.insert(component, image.clone());
                    if old.as_ref() == Some(&image) {
                        continue;
                    }
                    kubelet |= component == Component::Kubelet;
                    if STATIC.contains(&component) {
                        sim.pods += 1;
                        sim.ready.insert(component, false);
                        sim.api &= component != Component::KubeApiserver;
                    }
                    // Up to 1.13 the files of an API server have the scheduler's version.
                    if component == Component::KubeScheduler && shared {
                        sim.ready.insert(Component::KubeApiserver, false);
                        sim.api = false;
                    }
                }
                if kubelet {
                    (sim.well, sim.node_ready) = (false, false);
                    // Talos forgets the state of static pods, and their probes start over.
                    sim.ready.values_mut().for_each(|ready| *ready = false);
                    if fault == Some(Fault::Reboots) {
                        sim.boot += 1;
                    }
                }
            });
            sleep(Duration::from_secs(8)).await;
            world.change(|cluster| {
                let stuck = cluster.stuck(&node);
                let sim = cluster.nodes.get_mut(&node).unwrap();
                if !kubelet {
                    sim.pods_are_ready(stuck);
                }
                if kubelet {
                    sim.kubelet = sim.runs[&Component::Kubelet].version().unwrap();
                    (sim.well, sim.node_ready) = (true, true);
                }
            });
            sleep(Duration::from_secs(4)).await;
            world.change(|cluster| {
                let stuck = cluster.stuck(&node);
                let sim = cluster.nodes.get_mut(&node).unwrap();
                sim.pods_are_ready(stuck);
                sim.api = sim.role == Role::ControlPlane && sim.ready[&Component::KubeApiserver];
            });
        });
    }
}

impl Machines for World {
    async fn list(&self) -> Result<(String, Vec<Machine>), IoError> {
        let cluster = self.cluster();
        let machines = cluster.nodes.iter().map(|(name, sim)| Machine {
            name: name.clone(),
            address: name.0.clone(),
            role: sim.role,
        });
        Ok(("prod".to_owned(), machines.collect()))
    }

    async fn facts(&self, of: &Machine) -> Result<TalosFacts, IoError> {
        let cluster = self.cluster();
        let sim = &cluster.nodes[&of.name];
        Ok(TalosFacts {
            version: cluster.talos.clone(),
            boot_id: format!("boot-{}", sim.boot),
            stage: Stage::Running,
            ready: sim.well && sim.unmet.is_empty(),
            static_pods: match sim.role {
                Role::ControlPlane => {
                    TalosFacts::control_plane_pods(sim.ready.values().all(|it| *it))
                }
                Role::Worker => vec![],
            },
            schematic: None,
            extensions: vec![],
            installer: None,
            platform: "metal".to_owned(),
            secure_boot: false,
            unmet: sim.unmet.clone(),
            uki: true,
            container: false,
            factory: None,
        })
    }

    async fn images(&self, of: &Machine) -> Result<BTreeMap<Component, ImageRef>, IoError> {
        Ok(self.cluster().nodes[&of.name].runs.clone())
    }

    async fn etcd(&self, members: &[Machine]) -> Fact<EtcdFacts> {
        let ids = |it: &Machine| MemberId(it.name.0.trim_start_matches("cp-").parse().unwrap());
        let status = MemberStatus {
            leader: Some(MemberId(1)),
            term: 1,
            applied_index: 1,
            sees: members.iter().map(ids).collect(),
            errors: vec![],
            version: None,
            storage: None,
        };
        let members = members.iter().map(|machine| EtcdMember {
            id: ids(machine),
            node: machine.name.clone(),
            learner: false,
            status: Fact::Known(status.clone()),
        });
        Fact::Known(EtcdFacts { members: members.collect(), alarms: vec![] })
    }

    fn changes(&self, _: &Machine) -> Changes {
        self.changed.subscribe()
    }

    async fn slots(&self, _: &Machine) -> Result<Slots, IoError> {
        Err(unavailable("not in this world"))
    }

    async fn config(&self, of: &Machine) -> Result<Config, IoError> {
        Ok(Config(self.cluster().nodes[&of.name].config.clone()))
    }

    async fn config_is_staged(&self, of: &Machine) -> Result<bool, IoError> {
        Ok(self.cluster().nodes[&of.name].staged)
    }

    async fn manifests(&self, of: &Machine) -> Result<Rendered, IoError> {
        assert_eq!(self.cluster().nodes[&of.name].role, Role::ControlPlane);
        if self.cluster().fault == Some(Fault::Unread(of.name.0.clone())) {
            return Err(unavailable("connection refused"));
        }
        let extra = self.cluster().nodes[&of.name].extra.clone();
        let image = self.cluster().nodes[&of.name].runs[&Component::KubeProxy].to_string();
        let metadata = |name: &str| json!({"name": name, "namespace": "kube-system"});
        let template = |name: &str, image: &str| {
            json!({"metadata": {"labels": {"k8s-app": name}},
                "spec": {"containers": [{"name": name, "image": image}]}})
        };
        let selector = |name: &str| json!({"matchLabels": {"k8s-app": name}});
        let proxy = vec![
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata("kube-proxy"),
                "spec": {"selector": selector("kube-proxy"), "template": template("kube-proxy", &image)}}),
        ];
        let dns = vec![
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("coredns"),
                "spec": {"replicas": 2, "selector": selector("coredns"),
                    "template": template("coredns", "registry.k8s.io/coredns:v1.13.2")}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("coredns"),
                "data": {"Corefile": "."}}),
        ];
        let access = vec![
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "system:default-sa"}}),
        ];
        let own = [
            ("00-kubelet-bootstrapping-token", vec![]),
            ("01-csr-node-bootstrap", vec![]),
            ("01-csr-approver-role-binding", vec![]),
            ("01-csr-renewal-role-binding", vec![]),
            ("10-kube-proxy", proxy),
            ("11-core-dns", dns),
            ("11-core-dns-svc", vec![]),
            ("11-kube-config-in-cluster", vec![]),
            ("11-talos-node-rbac-template", access),
        ];
        let wanted = Wanted {
            proxy: true,
            core_dns: true,
            extra: extra.keys().cloned().collect(),
            ..Wanted::default()
        };
        let own = own.into_iter().map(|(name, objects)| (name.to_owned(), objects));
        let there = extra.into_iter().filter_map(|(name, object)| Some((name, vec![object?])));
        Ok(Rendered::new(Some(&wanted), own.chain(there).collect()))
    }
}

impl NodeUpgrader for World {
    async fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        _: &dyn ProgressSink,
    ) -> Result<String, IoError> {
        let name = &on.name;
        self.change(|cluster| cluster.acts.push(format!("pull {name} {image} {store:?}")));
        sleep(Duration::from_secs(5)).await;
        self.change(|cluster| cluster.acts.push(format!("pulled {name} {image}")));
        Ok(image.to_string())
    }

    async fn install(
        &self,
        _: &Machine,
        _: &ImageRef,
        _: &str,
        _: &dyn ProgressSink,
    ) -> Result<(), IoError> {
        Err(unavailable("not in this world"))
    }

    async fn upgrade(
        &self,
        _: &Machine,
        _: &ImageRef,
        _: bool,
        _: RebootMode,
    ) -> Result<(), IoError> {
        Err(unavailable("not in this world"))
    }

    async fn reboot(&self, on: &Machine, _: RebootMode) -> Result<(), IoError> {
        panic!("a Kubernetes upgrade reboots no node, but here it reboots {}", on.name);
    }

    async fn rollback(&self, on: &Machine) -> Result<(), IoError> {
        self.reboot(on, RebootMode::Default).await
    }

    async fn apply(&self, to: &Machine, config: &Config) -> Result<(), IoError> {
        let images = talos_machine_config::images(&config.0).unwrap();
        let fault = self.change(|cluster| {
            let before = talos_machine_config::images(&cluster.nodes[&to.name].config).unwrap();
            for (component, image) in &images {
                if before.get(component) != Some(image) {
                    cluster.acts.push(format!("set {} {component}", to.name));
                }
            }
            cluster.nodes.get_mut(&to.name).unwrap().config.clone_from(&config.0);
            cluster.referee();
            cluster.fault.clone()
        });
        self.take_over(&to.name, images);
        match fault {
            Some(Fault::LosesAnswers) => {
                let class = Class::Broken;
                Err(talos_error::act(class, class.outcome(), "the connection broke"))
            }
            _ => Ok(()),
        }
    }
}

impl EtcdAdmin for World {
    async fn forfeit(&self, _: &Machine) -> Result<(), IoError> {
        Ok(())
    }

    async fn validate_downgrade(&self, _: &Machine, _: Minor) -> Result<Downgrade, IoError> {
        Err(unavailable("not in this world"))
    }

    async fn enable_downgrade(&self, _: &Machine, _: Minor) -> Result<(), IoError> {
        Err(unavailable("not in this world"))
    }

    async fn snapshot(
        &self,
        _: &Machine,
        into: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), IoError> {
        into.write_all(&with_sum(&[0; 512])).await.map_err(|_| unavailable("it was not written"))
    }
}
