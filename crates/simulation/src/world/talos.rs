//! The machines, as the engine asks for them. Acts go to the model as the calls
//! of its API; facts are read as the node would answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use talos_proto::machine::image_service_pull_response::Response as Pulled;
use talos_proto::machine::lifecycle_service_install_progress::Response as Progress;
use talos_proto::{common, machine};
use talos_sim::model::{
    self, Code, Content, NodeIndex, NodeRole, Request, Response, Status, StreamId,
};
use tokio::sync::mpsc;
use upgrade_core::call::{self, Class, ExitCode, Outcome};
use upgrade_core::image::ImageRef;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::Proof;
use upgrade_core::plan::RebootMode;
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::snapshot::{
    Component, EtcdFacts, EtcdMember, Extension, Fact, MemberId, MemberStatus, NodeName, Role,
    Stage, StaticPod, TalosFacts,
};
use upgrade_core::version::{Minor, Version};
use upgrade_engine::io::roster::{Member, Roster};
use upgrade_engine::io::talos::{
    Config, Downgrade, Entries, MEMBER_LIMIT, PEER_LIMIT, Rendered, Slots, Store, Wanted,
};
use upgrade_engine::io::{Changes, Clock, Machine, Talos, Tell, Trouble, trouble};

use super::seat::{Seat, unavailable};
use super::{Answer, Inside};
use crate::seen::{Act, Question};
use crate::wire::Fate;

impl Inside {
    /// The node, if it answers at all.
    fn reach(&mut self, machine: &Machine) -> Result<NodeIndex, Trouble> {
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

    fn facts(&mut self, machine: &Machine) -> Result<TalosFacts, Trouble> {
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

    fn images(&mut self, machine: &Machine) -> Result<BTreeMap<Component, ImageRef>, Trouble> {
        let node = self.reach(machine)?;
        let images = self.world.config_images_of(node);
        let image = |(component, image): (model::Component, &str)| {
            let image = image.parse().map_err(|_| unavailable("an image that is none"))?;
            Ok((component_of(component), image))
        };
        images.map(image).collect()
    }

    /// What the boot loader tells, read as the client reads it.
    fn slots(&mut self, machine: &Machine) -> Result<Slots, Trouble> {
        let node = self.reach(machine)?;
        let truth = self.world.truth(node).ok_or_else(|| unavailable("no such machine"))?;
        let installing = truth.has_installer_process();
        let entries = truth.boot_entries().map(|(booted, default)| Entries {
            booted: booted.to_owned(),
            default: Some(default.to_owned()),
        });
        Ok(Slots { installing, entries })
    }

    /// One member's answers; `None` if the wires took them.
    fn member(&mut self, machine: &Machine, through: bool) -> Option<Asked> {
        let node = self.reach(machine).ok().filter(|_| through)?;
        let status = self.one::<machine::EtcdStatusResponse>(node, Request::EtcdStatus).ok()?;
        let local = machine::EtcdMemberListRequest { query_local: true };
        let members =
            self.one::<machine::EtcdMemberListResponse>(node, Request::EtcdMemberList(local));
        let alarms = self.one::<machine::EtcdAlarmListResponse>(node, Request::EtcdAlarmList);
        let status = status.messages.into_iter().next()?.member_status?;
        if status.is_learner {
            // Nothing else is answered there.
            return Some(Asked { status, members: Vec::new(), alarms: Vec::new() });
        }
        Some(Asked {
            status,
            members: members.ok()?.messages.into_iter().next()?.members,
            alarms: alarms.ok()?.messages.into_iter().next()?.member_alarms,
        })
    }

    fn one<T: TryFrom<Response, Error = Status>>(
        &mut self,
        node: NodeIndex,
        request: Request,
    ) -> Result<T, Status> {
        match self.call(node, request)? {
            Answer::Items(mut items) if !items.is_empty() => items.remove(0).try_into(),
            _ => Err(Status { code: Code::Internal, message: "no answer".to_owned() }),
        }
    }
}

struct Asked {
    status: machine::EtcdMemberStatus,
    members: Vec<machine::EtcdMember>,
    alarms: Vec<machine::EtcdMemberAlarm>,
}

fn etcd(machines: &[Machine], answers: &[Option<Asked>]) -> Fact<EtcdFacts> {
    let Some(first) = answers.iter().flatten().find(|answer| !answer.members.is_empty()) else {
        return Fact::Unknown("no member answers".to_owned());
    };
    let node_of = |id: u64| {
        machines
            .iter()
            .zip(answers)
            .find(|(_, answer)| answer.as_ref().is_some_and(|answer| answer.status.member_id == id))
    };
    let members = first.members.iter().map(|member| {
        let status = match node_of(member.id) {
            Some((_, Some(answer))) if answer.status.is_learner => {
                Fact::Unknown("it is a learner".to_owned())
            }
            Some((_, Some(answer))) => Fact::Known(MemberStatus {
                leader: (answer.status.leader != 0).then_some(MemberId(answer.status.leader)),
                term: answer.status.raft_term,
                applied_index: answer.status.raft_applied_index,
                sees: answer.members.iter().map(|member| MemberId(member.id)).collect(),
                errors: answer.status.errors.clone(),
                version: minor(&answer.status.protocol_version),
                storage: minor(&answer.status.storage_version),
            }),
            _ => Fact::Unknown("no answer".to_owned()),
        };
        EtcdMember {
            id: MemberId(member.id),
            node: NodeName(member.hostname.clone()),
            learner: member.is_learner,
            status,
        }
    });
    let alarms = first.alarms.iter().map(|alarm| format!("alarm on member {:x}", alarm.member_id));
    Fact::Known(EtcdFacts { members: members.collect(), alarms: alarms.collect() })
}

fn unmet_condition((name, reason): (&'static str, String)) -> UnmetCondition {
    UnmetCondition { name: name.to_owned(), reason }
}

fn static_pod((component, ready): (model::Component, bool)) -> StaticPod {
    StaticPod { name: format!("kube-system/{}", component.name()), ready }
}

fn minor(version: &str) -> Option<Minor> {
    version.parse::<Version>().ok().map(|version| version.minor())
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

/// What a call is for, and so what its failure means.
#[derive(Clone, Copy, Debug)]
enum For {
    Look,
    Act,
    Pull,
    Install,
}

impl For {
    /// What a failure means to the engine, by the code that the live cluster has.
    /// A node that has begun to answer does not refuse.
    fn trouble(self, class: Class, begun: bool, words: &str) -> Trouble {
        let outcome = if begun { Outcome::Unknown } else { class.outcome() };
        match self {
            Self::Look => trouble::look(class, words),
            Self::Act => trouble::act(class, outcome, words),
            Self::Pull => trouble::pull(class, words),
            Self::Install => trouble::install(class, outcome, words),
        }
    }

    /// What a node's refusal means.
    fn refused(self, status: &Status, begun: bool) -> Trouble {
        self.trouble(class(status), begun, &status.message)
    }
}

/// What a node's status means, as the client reads it.
fn class(status: &Status) -> Class {
    Class::of(call::Code::of(status.code as i32), &status.message)
}

/// The items of a stream that has to end well.
async fn drain(
    contents: &mut mpsc::UnboundedReceiver<Content>,
    what: For,
    mut item: impl FnMut(Response),
) -> Result<(), Trouble> {
    let mut begun = false;
    while let Some(content) = contents.recv().await {
        match content {
            Content::Item(response) => {
                begun = true;
                item(response);
            }
            Content::End(Ok(())) => return Ok(()),
            Content::End(Err(status)) => return Err(what.refused(&status, begun)),
            Content::Drop => break,
        }
    }
    Err(what.trouble(Class::Broken, begun, "the connection broke"))
}

/// Closes a stream when its reader is gone.
struct Reading<'a> {
    seat: &'a Seat,
    stream: StreamId,
    contents: mpsc::UnboundedReceiver<Content>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let stream = self.stream;
        self.seat.place.at(|inside| {
            let now = inside.world.now();
            inside.world.close_stream(now, stream);
        });
    }
}

/// What control planes know of the others.
struct Lists {
    lists: Vec<Vec<Member>>,
    all_came: bool,
}

impl Inside {
    /// The lists of all control planes that anybody knows, or has known.
    fn lists(&self, known: &[Machine]) -> Result<Lists, Trouble> {
        let world = &self.world;
        let is_control_plane =
            |node: &NodeIndex| world.spec().nodes[node.0].role == NodeRole::ControlPlane;
        let mut endpoints = world.present().filter(is_control_plane);
        let endpoint = endpoints.find(|node| world.is_reachable(*node));
        let endpoint = endpoint.ok_or_else(|| unavailable("no control plane answers"))?;
        let own = world.members_of(endpoint).into_iter().filter(is_control_plane);
        let known = known.iter().filter_map(|machine| self.find(&machine.name));
        let peers: BTreeSet<NodeIndex> = own.chain(known).chain([endpoint]).collect();
        let answering = || peers.iter().filter(|node| world.is_reachable(**node));
        // Each list once: they are mostly the same.
        let shown: BTreeSet<NodeIndex> =
            answering().flat_map(|node| world.members_of(*node)).collect();
        Ok(Lists {
            lists: vec![shown.into_iter().map(|node| self.member_at(node)).collect()],
            all_came: answering().count() == peers.len(),
        })
    }

    fn member_at(&self, node: NodeIndex) -> Member {
        let spec = &self.world.spec().nodes[node.0];
        Member {
            name: NodeName(spec.hostname.clone()),
            role: Some(match spec.role {
                NodeRole::ControlPlane => Role::ControlPlane,
                NodeRole::Worker => Role::Worker,
            }),
            addresses: spec.addresses.iter().map(ToString::to_string).collect(),
        }
    }

    /// The machine at one of these addresses.
    fn at(&self, addresses: &[String]) -> Result<Machine, Trouble> {
        let mut found = addresses.iter().filter_map(|it| Some((it, self.world.find(it)?)));
        let (address, node) = found.next().ok_or_else(|| unavailable("no route to host"))?;
        let Member { name, role, .. } = self.member_at(node);
        let role = role.unwrap_or(Role::Worker);
        Ok(Machine { name, address: address.clone(), role })
    }
}

impl Seat {
    pub(super) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as one of these is waited for, if one of them hangs.
    async fn wait_for_silent(&self, machines: &[Machine], limit: SignedDuration) {
        let silent = self.place.at(|inside| {
            let mut found = machines.iter().filter_map(|machine| inside.find(&machine.name));
            found.any(|node| inside.world.is_silent(node))
        });
        if silent {
            Clock::sleep(self, limit).await;
        }
    }

    /// A call that answers with a stream, read to its end.
    async fn stream(
        &self,
        (act, what): (Act, For),
        on: &Machine,
        request: Request,
        mut item: impl FnMut(Response) + Send,
    ) -> Result<(), Trouble> {
        let machine = on.clone();
        let opened = self
            .act(act, move |inside| {
                let node = inside.reach(&machine)?;
                let answer = inside.call(node, request.clone());
                answer.map_err(|status| what.refused(&status, false))
            })
            .await?;
        match opened {
            Answer::Items(items) => items.into_iter().for_each(&mut item),
            Answer::Stream(stream, contents) => {
                let mut reading = Reading { seat: self, stream, contents };
                self.waiting(drain(&mut reading.contents, what, &mut item)).await?;
            }
        }
        Ok(())
    }

    /// A call that answers at once.
    async fn unary(&self, act: Act, on: &Machine, request: Request) -> Result<(), Trouble> {
        self.stream((act, For::Act), on, request, |_| ()).await
    }
}

impl Talos for Seat {
    async fn machines(&self) -> Result<(String, Vec<Machine>), Trouble> {
        let known: Vec<Machine> = {
            let known = self.roster().machines().into_iter();
            known.filter(|machine| machine.role == Role::ControlPlane).collect()
        };
        self.wait_for_silent(&known, PEER_LIMIT).await;
        self.ask(Question::Machines, |inside| {
            let Lists { lists, all_came } = inside.lists(&known)?;
            let mut roster = self.roster();
            roster.take(&lists, all_came);
            Ok((inside.world.spec().name.clone(), roster.machines()))
        })
        .await
    }

    async fn identify(
        &self,
        nodes: &BTreeMap<NodeName, Vec<String>>,
    ) -> Vec<(NodeName, Result<Machine, Trouble>)> {
        let unmatched: Vec<(NodeName, Vec<String>)> = {
            let mut roster = self.roster();
            roster.prefer(nodes);
            let unmatched = roster.unmatched(nodes).into_iter();
            unmatched.map(|(name, addresses)| (name.clone(), addresses.to_vec())).collect()
        };
        let mut all: Vec<_> =
            self.roster().machines().into_iter().map(|it| (it.name.clone(), Ok(it))).collect();
        let limit = Duration::try_from(PEER_LIMIT).unwrap_or_default();
        for (name, addresses) in unmatched {
            let asked = self.ask(Question::Other("identify"), |inside| {
                let machine = inside.at(&addresses)?;
                inside.reach(&machine)?;
                Ok(machine)
            });
            let found = tokio::time::timeout(limit, asked).await;
            let found = found.unwrap_or_else(|_| Err(unavailable("no answer")));
            if let Ok(machine) = &found {
                self.roster().introduce(machine);
            }
            all.push((name, found));
        }
        all
    }

    async fn facts(&self, of: &Machine) -> Result<TalosFacts, Trouble> {
        self.ask(Question::Facts(of.name.clone()), |inside| inside.facts(of)).await
    }

    async fn images(&self, of: &Machine) -> Result<BTreeMap<Component, ImageRef>, Trouble> {
        self.ask(Question::Images(of.name.clone()), |inside| inside.images(of)).await
    }

    async fn etcd(&self, members: &[Machine]) -> Fact<EtcdFacts> {
        self.wait_for_silent(members, MEMBER_LIMIT).await;
        let mut seen = None;
        let asked = self.ask(Question::Etcd, |inside| {
            let answers: Vec<Option<Asked>> = members
                .iter()
                .map(|machine| {
                    let fate = self.place.passage().fate;
                    let through = matches!(fate, Fate::Well | Fate::Late | Fate::Doubled);
                    inside.member(machine, through)
                })
                .collect();
            seen = Some(etcd(members, &answers));
            // Waited for already.
            inside.hangs = false;
            // Seen in part, which is not known.
            let all = answers.iter().all(Option::is_some);
            if all { Ok(()) } else { Err(unavailable("a member did not answer")) }
        });
        let asked = asked.await;
        match (seen, asked) {
            (Some(fact), _) => fact,
            (None, Err(trouble)) => Fact::Unknown(trouble.to_string()),
            (None, Ok(())) => Fact::Unknown("nobody was asked".to_owned()),
        }
    }

    fn changes(&self, of: &Machine) -> Changes {
        let node = self.place.at(|inside| inside.world.find(&of.name.0));
        let machines = self.place.machines.lock().unwrap_or_else(PoisonError::into_inner);
        match node.and_then(|node| machines.get(node.0)) {
            Some(sender) => sender.subscribe(),
            None => self.place.objects.subscribe(),
        }
    }

    async fn slots(&self, of: &Machine) -> Result<Slots, Trouble> {
        self.ask(Question::Slots(of.name.clone()), |inside| inside.slots(of)).await
    }

    async fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        tell: &dyn Tell,
    ) -> Result<String, Trouble> {
        let act = Act::Pull { node: on.name.clone(), image: image.clone() };
        let containerd = Some(containerd(store));
        let image_ref = image.to_string();
        let modern = machine::ImageServicePullRequest { containerd, image_ref };
        let mut name = image.to_string();
        let request = Request::ImageServicePull(modern);
        let pulled = self
            .stream((act.clone(), For::Pull), on, request, |response| {
                tell.tell("a part of it is here".to_owned());
                let response = machine::ImageServicePullResponse::try_from(response);
                if let Ok(Some(Pulled::Name(pinned))) = response.map(|it| it.response) {
                    name = pinned;
                }
            })
            .await;
        match pulled {
            Err(trouble) if trouble.failure.text().contains("unknown service") => {
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
        tell: &dyn Tell,
    ) -> Result<(), Trouble> {
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
                Some(Progress::Message(line)) => tell.tell(line),
                None => {}
            }
        })
        .await?;
        match exit.map(ExitCode::of) {
            Some(None) => Ok(()),
            Some(Some(code)) => Err(trouble::exit(code, &[])),
            None => Err(For::Install.trouble(Class::Truncated, true, "no exit code came")),
        }
    }

    async fn upgrade(
        &self,
        on: &Machine,
        image: &ImageRef,
        force: bool,
        mode: RebootMode,
    ) -> Result<(), Trouble> {
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

    async fn reboot(&self, on: &Machine, mode: RebootMode) -> Result<(), Trouble> {
        let act = Act::Reboot { node: on.name.clone(), mode };
        let mode = match mode {
            RebootMode::Default => machine::reboot_request::Mode::Default,
            RebootMode::Powercycle => machine::reboot_request::Mode::Powercycle,
        };
        self.unary(act, on, Request::Reboot(machine::RebootRequest { mode: mode.into() })).await
    }

    async fn rollback(&self, on: &Machine) -> Result<(), Trouble> {
        let act = Act::Rollback { node: on.name.clone() };
        self.unary(act, on, Request::Rollback(machine::RollbackRequest::default())).await
    }

    async fn forfeit(&self, on: &Machine) -> Result<(), Trouble> {
        let act = Act::Forfeit { node: on.name.clone() };
        let request = machine::EtcdForfeitLeadershipRequest::default();
        self.unary(act, on, Request::EtcdForfeitLeadership(request)).await
    }

    async fn validate_downgrade(&self, on: &Machine, to: Minor) -> Result<Downgrade, Trouble> {
        let asked = self.ask::<_, Trouble>(Question::Other("downgrade"), |inside| {
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
                .ok_or_else(|| For::Look.refused(&status, false)),
        }
    }

    async fn enable_downgrade(&self, on: &Machine, to: Minor) -> Result<(), Trouble> {
        let act = Act::Downgrade { node: on.name.clone(), to };
        let request = machine::EtcdDowngradeEnableRequest { version: to.to_string() };
        self.unary(act, on, Request::EtcdDowngradeEnable(request)).await
    }

    async fn snapshot(&self, from: &Machine, _: usize, _: &dyn Tell) -> Result<Proof, Trouble> {
        let machine = from.clone();
        let bytes = self
            .ask(Question::Other("snapshot"), move |inside| {
                let node = inside.reach(&machine)?;
                let request = Request::EtcdSnapshot(machine::EtcdSnapshotRequest::default());
                let answer = inside.call(node, request);
                match answer.map_err(|status| For::Look.refused(&status, false))? {
                    Answer::Items(items) => Ok(items.len()),
                    Answer::Stream(..) => Err(unavailable("it did not come in one piece")),
                }
            })
            .await?;
        // It is off the cluster from here on.
        self.act::<_, Trouble>(Act::Snapshot { node: from.name.clone() }, |_| Ok(())).await?;
        Ok(Proof::EtcdSnapshot {
            file: "etcd.snapshot".to_owned(),
            sha256: "00".to_owned(),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        })
    }

    async fn config(&self, of: &Machine) -> Result<Config, Trouble> {
        self.ask(Question::Other("config"), |inside| {
            let node = inside.reach(of)?;
            Ok(Config(inside.world.config_of(node).to_owned()))
        })
        .await
    }

    async fn apply(&self, to: &Machine, config: &Config) -> Result<(), Trouble> {
        let images = self.place.at(|inside| {
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

    async fn config_is_staged(&self, of: &Machine) -> Result<bool, Trouble> {
        self.ask(Question::Other("config on disk"), |inside| {
            let node = inside.reach(of)?;
            let on_disk = inside.world.config_on_disk_of(node);
            Ok(on_disk.is_some_and(|on_disk| on_disk != inside.world.config_of(node)))
        })
        .await
    }

    async fn manifests(&self, of: &Machine) -> Result<Rendered, Trouble> {
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
