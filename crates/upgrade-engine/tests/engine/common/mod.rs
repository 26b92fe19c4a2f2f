//! A cluster in memory that the engine drives under a paused clock, with a
//! referee that sees only what the cluster sees.

mod kubernetes;
mod referee;
mod talos;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};

use tokio::sync::{mpsc, watch};
use upgrade_core::amount::Amount;
use upgrade_core::call::{Class, Code};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::event::Event;
use upgrade_core::intent::Intent;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, State};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::POOL_LABEL;
use upgrade_core::policy::Policy;
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::snapshot::{Fact, NodeName, Role, Stage};
use upgrade_core::version::{Minor, Version};
use upgrade_core::workload::Pod;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::control::{Command, Control};
use upgrade_engine::drive::{DriveError, End, Run};
use upgrade_engine::io::{Io, IoError, talos_error};
use upgrade_engine::journal::{Fence, Journal, JournalError, MemoryJournal};
use upgrade_engine::snapshots::MemorySnapshots;
use upgrade_engine::store::{Inherited, OpenRun};
use upgrade_engine::{drive, observe};
use upgrade_planner::{Request, plan};

pub(crate) const SCHEMATIC: &str =
    "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245";

/// What goes wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Boots the old version again.
    BootsBack,
    /// Goes down and stays down.
    NeverReturns,
    /// Says yes to a reboot and forgets it.
    LosesReboot,
    /// Refuses a reboot in words, under a code that says nothing.
    RefusesInWords,
    /// Does as asked; the answer is lost.
    LosesAnswer,
    /// A request to replace it arrives ten seconds late, and is not answered.
    HearsLate,
    /// A request to replace it never arrives, and is not answered.
    HearsNothing,
    /// The installer ends with an exit code, before it has written anything.
    InstallerFails,
    /// The installer ends with an exit code, after it has made its version the
    /// default.
    InstallerFailsLate,
    /// The installer does its work; its stream is lost.
    LosesStream,
    /// The same, and it does not come to its end.
    LosesStreamEarly,
    /// The new version lacks an extension.
    DropsExtension,
    /// The first pulls fail.
    PullsBadly,
    /// Takes the question and never answers.
    Hangs,
    /// The step's call panics.
    Panics,
    /// Wins the leadership of etcd again, once, while it is being cordoned.
    LeadsAgain,
    /// Boots by kexec, and not through its firmware.
    KexecOnly,
    /// Does not meet a condition from its next boot on.
    LessReady,
}

impl Fault {
    /// The answer to something that was done.
    pub(crate) fn answer(self) -> Result<(), IoError> {
        if self == Self::LosesAnswer {
            return Err(broke());
        }
        if self == Self::RefusesInWords {
            let class = Class::Status(Code::Unknown);
            let words = "error validating etcd for upgrade: etcd member 1 is not healthy";
            return Err(talos_error::act(class, class.outcome(), words));
        }
        Ok(())
    }
}

/// A connection that broke while something was asked for.
pub(crate) fn broke() -> IoError {
    talos_error::act(Class::Broken, Class::Broken.outcome(), "the connection broke")
}

/// One machine.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each may change on its own")]
pub(crate) struct Sim {
    pub(crate) role: Role,
    pub(crate) version: Version,
    pub(crate) other_slot: Option<Version>,
    /// The other slot is the default.
    pub(crate) armed: bool,
    /// GRUB boots it, and tells nothing.
    pub(crate) grub: bool,
    pub(crate) boot: u64,
    pub(crate) answers: bool,
    pub(crate) stage: Stage,
    pub(crate) ready: bool,
    pub(crate) node_ready: bool,
    /// What the statuses of its static pods say; right after a boot there are none.
    pub(crate) pods: Option<bool>,
    /// Whether its own API server answers.
    pub(crate) api: bool,
    pub(crate) unschedulable: bool,
    /// Whether it carries our mark.
    pub(crate) marked: bool,
    pub(crate) extensions: Vec<String>,
    pub(crate) pool: Option<String>,
    pub(crate) fault: Option<Fault>,
    pub(crate) pulls: u32,
    /// What keeps it from being ready though it works.
    pub(crate) unmet: Vec<UnmetCondition>,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<NodeName, Sim>,
    pub(crate) leader: NodeName,
    pub(crate) pods: Vec<Pod>,
    /// No pod may leave.
    pub(crate) budget_blocks: bool,
    /// Nodes that something outside is replacing, if there is something that does it.
    pub(crate) replacing: Option<BTreeSet<NodeName>>,
    /// Nothing answers: no machine and no API server.
    pub(crate) dark: bool,
    /// The machines cannot be listed: a control plane hangs.
    pub(crate) unlisted: bool,
    /// Nodes that discovery does not show, and whether they say who they are.
    pub(crate) hidden: BTreeMap<NodeName, bool>,
    /// Machines that the talosconfig names and that never said who they are.
    pub(crate) strangers: BTreeMap<NodeName, String>,
    /// Acts in order: `reboot cp-1`.
    pub(crate) acts: Vec<String>,
    pub(crate) kubernetes: Version,
    /// The minor that etcd's data is of.
    pub(crate) etcd: Minor,
    pub(crate) limit: usize,
    pub(crate) most_workers_away: usize,
    /// When the whole cluster was observed.
    pub(crate) observations: Vec<Timestamp>,
}

pub(crate) struct World {
    me: Weak<Self>,
    cluster: Mutex<Cluster>,
    changed: watch::Sender<u64>,
    clock: SystemClock,
    snapshots: MemorySnapshots,
}

impl Io for World {
    type Machines = Self;
    type Upgrader = Self;
    type External = Self;
    type Etcd = Self;
    type Snapshots = MemorySnapshots;
    type Kubernetes = Self;
    type Clock = SystemClock;

    fn machines(&self) -> &Self {
        self
    }

    fn upgrader(&self) -> &Self {
        self
    }

    fn etcd(&self) -> &Self {
        self
    }

    fn external(&self) -> Option<&Self> {
        self.cluster().replacing.is_some().then_some(self)
    }

    fn snapshots(&self) -> &MemorySnapshots {
        &self.snapshots
    }

    fn kubernetes(&self) -> &Self {
        self
    }

    fn clock(&self) -> &SystemClock {
        &self.clock
    }
}

impl World {
    pub(crate) fn new(control_planes: usize, workers: usize, talos: &str) -> Arc<Self> {
        let mut nodes = BTreeMap::new();
        let names = (1..=control_planes).map(|number| (format!("cp-{number}"), Role::ControlPlane));
        let names = names.chain((1..=workers).map(|it| (format!("worker-{it}"), Role::Worker)));
        for (number, (name, role)) in names.enumerate() {
            let sim = Sim {
                role,
                version: talos.parse().unwrap(),
                other_slot: None,
                armed: false,
                grub: false,
                boot: number as u64,
                answers: true,
                stage: Stage::Running,
                ready: true,
                node_ready: true,
                pods: (role == Role::ControlPlane).then_some(true),
                api: role == Role::ControlPlane,
                unschedulable: false,
                marked: false,
                extensions: vec!["iscsi-tools".to_owned()],
                pool: None,
                fault: None,
                pulls: 0,
                unmet: vec![],
            };
            nodes.insert(NodeName(name), sim);
        }
        let pods = nodes
            .iter()
            .filter(|(_, sim)| sim.role == Role::Worker)
            .map(|(name, _)| kubernetes::pod(&format!("web-{name}"), name))
            .collect();
        let cluster = Cluster {
            nodes,
            leader: "cp-1".into(),
            pods,
            budget_blocks: false,
            replacing: None,
            dark: false,
            unlisted: false,
            hidden: BTreeMap::new(),
            strangers: BTreeMap::new(),
            acts: vec![],
            kubernetes: "1.33.4".parse().unwrap(),
            etcd: "3.6".parse().unwrap(),
            limit: 1,
            most_workers_away: 0,
            observations: vec![],
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            cluster: Mutex::new(cluster),
            changed: watch::Sender::new(0),
            clock: SystemClock::starting_at("2026-11-15T00:00:00Z".parse().unwrap()),
            snapshots: MemorySnapshots::default(),
        })
    }

    pub(crate) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap()
    }

    /// Changes the world, lets the referee look, and tells.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let result = {
            let mut cluster = self.cluster();
            let result = change(&mut cluster);
            cluster.referee();
            result
        };
        self.changed.send_modify(|number| *number += 1);
        result
    }

    pub(crate) fn set_fault(&self, node: &str, fault: Option<Fault>) {
        self.change(|cluster| cluster.sim(&node.into()).fault = fault);
    }

    pub(crate) fn acts_of(&self, act: &str) -> Vec<String> {
        let cluster = self.cluster();
        let acts = cluster.acts.iter().filter_map(|it| it.strip_prefix(act));
        acts.map(|node| node.trim().to_owned()).collect()
    }

    pub(crate) fn now(&self) -> Timestamp {
        use upgrade_engine::io::Clock as _;
        self.clock.now()
    }
}

impl Cluster {
    pub(crate) fn sim(&mut self, node: &NodeName) -> &mut Sim {
        self.nodes.get_mut(node).unwrap()
    }

    pub(crate) fn cordoned(&self) -> Vec<&NodeName> {
        self.nodes.iter().filter(|(_, sim)| sim.unschedulable).map(|(name, _)| name).collect()
    }
}

/// A condition that is not met.
pub(crate) fn unmet(name: &str, reason: &str) -> UnmetCondition {
    UnmetCondition { name: name.to_owned(), reason: reason.to_owned() }
}

pub(crate) fn unavailable(text: &str) -> IoError {
    talos_error::read(Class::NotConnected, text)
}

pub(crate) async fn seconds(seconds: u64) {
    tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
}

/// A policy with this many workers away at once.
pub(crate) fn policy(workers: usize) -> Policy {
    let mut policy = Policy { accept_outage: true, ..Policy::default() };
    policy.workers.max_unavailable = Amount::Count(workers);
    policy
}

static KNOWN: LazyLock<(Matrix, Catalogue)> =
    LazyLock::new(|| (Matrix::builtin(), Catalogue::builtin()));

/// Plans from what is observed.
pub(crate) async fn planned(world: &Arc<World>, to: &str, policy: &Policy) -> Arc<Plan> {
    let snapshot = observe(&**world, POOL_LABEL).await.unwrap();
    let external = world.cluster().replacing.is_some();
    let intent = Intent { talos: Some(to.parse().unwrap()), external, ..Intent::default() };
    let (matrix, catalogue) = &*KNOWN;
    let request = Request {
        snapshot: &snapshot,
        intent: &intent,
        policy,
        matrix,
        catalogue,
        workloads: &Fact::Unasked,
        manifests: &Fact::Unasked,
        external_upgrader: external,
    };
    let planned = plan(&request).unwrap_or_else(|report| panic!("{report:?}"));
    world.cluster().limit = planned.plan.hops[0].limit;
    Arc::new(planned.plan)
}

/// A journal that tells when it has this many entries, and comes back no more.
pub(crate) struct Fragile {
    pub(crate) journal: MemoryJournal,
    pub(crate) dies_after: Option<usize>,
    pub(crate) died: mpsc::UnboundedSender<()>,
}

impl Journal for Fragile {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.journal.append(entry, state).await?;
        if self.dies_after == Some(self.journal.entries().len()) {
            self.died.send(()).unwrap();
        }
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        self.journal.fence()
    }
}

/// One process that drives a plan.
pub(crate) struct Driver {
    pub(crate) world: Arc<World>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) journal: MemoryJournal,
    pub(crate) commands: watch::Sender<Command>,
    pub(crate) events: Vec<Event>,
}

impl Driver {
    pub(crate) fn new(world: &Arc<World>, plan: &Arc<Plan>) -> Self {
        Self {
            world: Arc::clone(world),
            plan: Arc::clone(plan),
            journal: MemoryJournal::default(),
            commands: watch::Sender::new(Command::Continue),
            events: vec![],
        }
    }

    pub(crate) fn run<J: Journal>(
        &self,
        journal: J,
        resumed_by: Option<&str>,
    ) -> (Run<World, J>, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let control: Control = self.commands.subscribe();
        let run = Run {
            open: OpenRun {
                plan: Arc::clone(&self.plan),
                state: self.state(),
                journal,
                inherited: Inherited::default(),
            },
            io: Arc::clone(&self.world),
            runner: "test".to_owned(),
            events: Arc::new(events),
            control,
            resumed_by: resumed_by.map(ToOwned::to_owned),
        };
        (run, receiver)
    }

    /// Where the run stands, by its journal.
    pub(crate) fn state(&self) -> State {
        State::fold(&self.plan, &self.journal.entries()).unwrap()
    }

    pub(crate) async fn go(&mut self) -> (End, State) {
        self.resume(None).await.unwrap()
    }

    pub(crate) async fn resume(
        &mut self,
        resumed_by: Option<&str>,
    ) -> Result<(End, State), DriveError> {
        let (run, mut events) = self.run(self.journal.clone(), resumed_by);
        let end = tokio::time::timeout(std::time::Duration::from_hours(20), drive(run)).await;
        while let Ok(event) = events.try_recv() {
            self.events.push(event);
        }
        let end = end.unwrap_or_else(|_| panic!("no end in sight\n{}", self.trace()))?;
        Ok((end, self.state()))
    }

    /// Drives until the journal has this many entries and a while longer, then
    /// kills the process. `Some` if it ended before.
    pub(crate) async fn go_until(&mut self, entries: usize, then: SignedDuration) -> Option<End> {
        let (died, mut death) = mpsc::unbounded_channel();
        let journal = Fragile { journal: self.journal.clone(), dies_after: Some(entries), died };
        let (run, _events) = self.run(journal, None);
        let killed = async {
            death.recv().await;
            tokio::time::sleep(then.unsigned_abs()).await;
        };
        tokio::select! {
            biased;
            () = killed => None,
            end = drive(run) => Some(end.unwrap()),
        }
    }

    pub(crate) fn trace(&self) -> String {
        let line = |entry: &Entry| format!("{} {:?}", entry.at, entry.record);
        let entries = self.journal.entries();
        let journal = entries.iter().map(line).collect::<Vec<_>>().join("\n");
        format!("{journal}\nacts: {:?}", self.world.cluster().acts)
    }
}

pub(crate) fn boots_of(world: &World) -> BTreeMap<String, usize> {
    let mut boots = BTreeMap::new();
    for node in world.acts_of("boot ") {
        *boots.entry(node).or_default() += 1;
    }
    boots
}
